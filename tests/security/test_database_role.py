"""The database role that docs/security.md gives to the processes suffices for all they do."""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

CHECKOUT = Path(__file__).resolve().parents[2]
PAGE = CHECKOUT / "docs" / "security.md"


@pytest.fixture
def role_url(project_database: str) -> Iterator[str]:
    """A URL of the database for a role made just as the page says."""
    [sql] = re.findall(r"```sql\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    role = f"app_{secrets.token_hex(4)}"
    parts = conninfo_to_dict(project_database)
    sql = sql.replace("DATABASE coppice ", f'DATABASE "{parts["dbname"]}" ')
    sql = sql.replace("coppice_app", role)
    with psycopg.connect(project_database, autocommit=True) as owner:
        owner.execute(sql.encode())
        yield f"postgresql://{role}@/{parts['dbname']}?host={parts['host']}"
        owner.execute(f"DROP OWNED BY {role}".encode())
        owner.execute(f"DROP ROLE {role}".encode())


def python(url: str, *words: str) -> str:
    variables = {"DATABASE_URL": url, "EMAIL_URL": "dummymail://", "DEBUG": "true"}
    variables["DJANGO_SETTINGS_MODULE"] = "config.settings"
    done = subprocess.run(
        [sys.executable, *words],
        cwd=CHECKOUT,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-2_000:]}\n{done.stderr[-4_000:]}"
    return done.stdout


def test_a_role_that_owns_nothing_suffices_for_web_workers_and_commands(role_url: str) -> None:
    work = "from tests.security.least_rights import everything; everything()"
    python(role_url, "manage.py", "shell", "-v", "0", "-c", work)
    python(role_url, "manage.py", "runworker", "--burst")
    with psycopg.connect(role_url, autocommit=True) as connection:
        counts: dict[str, int] = dict(
            connection.execute("SELECT status, count(*) FROM jobs_job GROUP BY status").fetchall()
        )
        assert counts["completed"] > 300
        assert set(counts) <= {"completed", "cancelled", "pending"}
        runs = connection.execute("SELECT status FROM ranges_rangerun").fetchall()
        assert runs == [("completed",)]
        assert not connection.execute("SELECT FROM geonames_city WHERE cell = ''").fetchall()
        for wish in (
            "DROP TABLE jobs_job",
            "ALTER TABLE jobs_job ADD COLUMN more int",
            "CREATE TABLE more (n int)",
            "TRUNCATE jobs_auditentry",
            "DELETE FROM django_migrations",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(wish)
