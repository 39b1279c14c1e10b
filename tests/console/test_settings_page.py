"""The settings page: what it says is in force, where it comes from, and what it never shows."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs import conf, health
from jobs.admin.settings import effective, stored
from jobs.console import kept
from tests.console.people import client_of, read
from tests.factories import make_job

pytestmark = pytest.mark.django_db

PAGE = "/admin/settings/"
SECRET = "a-secret-that-nobody-reads"


@pytest.fixture(autouse=True)
def _nothing_kept() -> None:
    kept.forget()
    health.forget()


def line(name: str) -> effective.Line:
    found = [each for lines in effective.lines().values() for each in lines if each.name == name]
    assert len(found) == 1
    return found[0]


def test_every_setting_is_there_once_and_says_what_it_means() -> None:
    found = [each for lines in effective.lines().values() for each in lines]
    names = sorted(f"COPPICE_{field.name.upper()}" for field in fields(conf.Settings))
    assert sorted(each.name for each in found) == names
    assert all(each.help for each in found)
    text = read(client_of("Supervisor"), PAGE)
    assert all(name in text for name in names)


def test_it_says_where_a_value_comes_from(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert line("COPPICE_AGING_STEP").source == "default"
    settings.COPPICE_AGING_STEP = "0.25"
    assert (line("COPPICE_AGING_STEP").source, line("COPPICE_AGING_STEP").value) == (
        "settings",
        "0.25",
    )
    monkeypatch.setenv("COPPICE_AGING_STEP", "0.25")
    assert line("COPPICE_AGING_STEP").source == "environment"
    monkeypatch.setenv("COPPICE_AGING_STEP", "7")  # which the project does not follow
    assert line("COPPICE_AGING_STEP").source == "settings"


def test_secrets_are_never_shown(settings: Any) -> None:
    settings.COPPICE_METRICS_TOKEN = SECRET
    settings.COPPICE_DATABASE_DIRECT_URL = f"postgresql://me:{SECRET}@db.internal/x"
    assert line("COPPICE_REDIS_URL").value != conf.get().redis_url
    values = effective.lines().values()
    assert SECRET not in repr(list(values))
    assert "db.internal" not in repr(list(values))
    text = read(client_of(None), PAGE)
    assert SECRET not in text
    assert effective.HIDDEN in text


@pytest.mark.parametrize("group", ["Viewer", "Operator"])
def test_who_does_not_answer_for_it_sees_health_and_display_only(group: str) -> None:
    text = read(client_of(group), PAGE, look="closer")
    assert "Health" in text
    assert "d-theme" in text
    assert "COPPICE_" not in text
    assert "jobs_auditentry" not in text
    assert "clock" not in text


def test_without_any_permission_there_is_only_how_it_looks() -> None:
    text = read(client_of(""), PAGE, look="closer")
    assert "d-theme" in text
    assert not any(word in text for word in ("Health", "COPPICE_", "PostgreSQL", "Coppice</dt>"))


def test_what_is_wrong_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = health.Readiness(
        reasons=("the database is read-only",), warnings=("no worker is alive",)
    )
    monkeypatch.setattr(health, "current", lambda: wrong)
    text = read(client_of("Viewer"), PAGE)
    assert "the database is read-only" in text
    assert "no worker is alive" in text
    assert "can do its work" not in text


def test_a_closer_look_shows_each_check_of_the_doctor() -> None:
    from jobs.doctor import CHECKS

    text = read(client_of("Supervisor"), PAGE, look="closer")
    assert all(name in text for name in CHECKS)


def test_sizes_are_those_of_the_tables_with_their_partitions() -> None:
    make_job()
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE jobs_parted (n int) PARTITION BY LIST (n)")
        for n in (1, 2):
            cursor.execute(f"CREATE TABLE odd_{n} PARTITION OF jobs_parted FOR VALUES IN ({n})")
        cursor.execute("INSERT INTO jobs_parted VALUES (1), (2)")
    found = {table.name: table for table in stored.read().tables}
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_total_relation_size('jobs_job')")
        whole = cursor.fetchone()[0]
    job = found["jobs_job"]
    assert job.bytes + job.index_bytes == whole > 0
    assert (found["jobs_parted"].partitions, found["jobs_parted"].bytes) == (2, 16_384)
    assert not any(name.startswith("auth_") for name in found)


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 bytes"), (1_023, "1,023 bytes"), (1_536, "1.5 kB"), (150 * 2**20, "150 MB")],
)
def test_sizes_are_written_in_steps_of_1024(number: int, text: str) -> None:
    assert stored.sized(number) == text


@pytest.mark.usefixtures("frozen")
def test_it_costs_few_queries() -> None:
    client = client_of("Supervisor")
    read(client, PAGE)
    kept.forget()
    with CaptureQueriesContext(connection) as asked:
        read(client, PAGE)
    assert len(asked) <= 12, [each["sql"] for each in asked]


def test_pages_that_do_not_follow_say_when_they_were_read() -> None:
    client = client_of(None)
    for path in (PAGE, "/admin/jobs/apitoken/"):
        text = read(client, path)
        assert re.search(
            r"does not follow by itself: it was read <time [^>]*data-ago>now</time>", text
        )
    sizes = re.search(r"Size</h2>(.*?)</header>", read(client, PAGE), re.DOTALL)
    assert sizes
    assert re.search(r", read <time [^>]*data-ago>", sizes[1])
    assert "follow by itself" not in read(client, "/admin/jobs/auditentry/")
