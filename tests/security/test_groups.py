"""The groups that are shipped: made once, never forced upon a site."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from django.contrib.auth.models import Permission

from jobs import permissions

CHECKOUT = Path(__file__).resolve().parents[2]
HELD = """
SELECT g.name, array_agg(t.app_label || '.' || p.codename)
FROM auth_group g
LEFT JOIN auth_group_permissions gp ON gp.group_id = g.id
LEFT JOIN auth_permission p ON p.id = gp.permission_id
LEFT JOIN django_content_type t ON t.id = p.content_type_id
GROUP BY g.name
"""
BEFORE = "0004_stops_and_histograms"


def held(connection: psycopg.Connection) -> dict[str, set[str]]:
    return {name: set(names) for name, names in connection.execute(HELD).fetchall()}


def migrate(url: str, *to: str) -> None:
    command = [sys.executable, "manage.py", "migrate", "jobs", *to, "--verbosity", "0"]
    subprocess.run(command, cwd=CHECKOUT, env={**os.environ, "DATABASE_URL": url}, check=True)


def test_a_new_database_has_the_groups_with_just_their_permissions(project_database: str) -> None:
    with psycopg.connect(project_database) as connection:
        assert held(connection) == {name: set(names) for name, names in permissions.GROUPS.items()}


def test_what_a_site_has_made_or_changed_is_left_alone(project_database: str) -> None:
    with psycopg.connect(project_database, autocommit=True) as connection:
        # Operator has been changed here, Supervisor is in use, Viewer is as it was made.
        connection.execute(
            "DELETE FROM auth_group_permissions WHERE group_id ="
            " (SELECT id FROM auth_group WHERE name = 'Operator')"
        )
        connection.execute(
            "INSERT INTO auth_user (username, password, first_name, last_name, email, is_staff,"
            " is_active, is_superuser, date_joined) VALUES ('a', '', '', '', '', true, true, false,"
            " now())"
        )
        connection.execute(
            "INSERT INTO auth_user_groups (user_id, group_id)"
            " SELECT u.id, g.id FROM auth_user u, auth_group g WHERE g.name = 'Supervisor'"
        )
        connection.execute(
            "INSERT INTO auth_permission (content_type_id, codename, name)"
            " SELECT id, 'create_job', 'Can create jobs' FROM django_content_type"
            " WHERE app_label = 'jobs' AND model = 'job'"
        )
        migrate(project_database, BEFORE)
        assert set(held(connection)) == {"Operator", "Supervisor"}
        migrate(project_database)
        found = held(connection)
        assert found["Viewer"] == set(permissions.VIEWER)
        assert found["Operator"] == {None}
        assert found["Supervisor"] == set(permissions.SUPERVISOR)
        [(stale,)] = connection.execute(
            "SELECT count(*) FROM auth_permission WHERE codename = 'create_job'"
        ).fetchall()
        assert stale == 0


@pytest.mark.django_db
def test_every_permission_is_one_that_django_makes() -> None:
    made = {
        f"{app}.{codename}"
        for app, codename in Permission.objects.values_list("content_type__app_label", "codename")
    }
    assert set(permissions.ALL) <= made


def test_every_group_can_do_what_the_one_below_it_can() -> None:
    viewer, operator, supervisor = (set(names) for names in permissions.GROUPS.values())
    assert viewer < operator < supervisor == set(permissions.ALL)
    assert permissions.VIEW_PAYLOAD not in viewer
    assert not operator & {permissions.PURGE, permissions.PURGE_ALL, permissions.TUNE_QUEUE}


def test_nothing_of_ours_is_named_twice() -> None:
    names = [
        value
        for name, value in vars(permissions).items()
        if name.isupper() and isinstance(value, str)
    ]
    assert len(names) == len(set(names)) == len(permissions.ALL)
