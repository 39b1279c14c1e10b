"""`/healthz` and `/readyz`."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.test import Client

from config.servers import Postgres
from jobs import conf, health
from jobs.errors import SettingsError

# Nothing here goes through Django's own connection.
pytestmark = pytest.mark.usefixtures("_no_memory")

WORKER = (
    "INSERT INTO jobs_worker (id, name, host, pid, queues, types, concurrency, version, state,"
    " beat_at) VALUES (gen_random_uuid(), 'a', 'h', 1, '[]', '[]', 1, '', 'running',"
    " now() - %s * interval '1 second')"
)


@pytest.fixture
def _no_memory() -> Iterator[None]:
    health.forget()
    yield
    health.forget()


@pytest.fixture
def database(project_database: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A migrated database of its own, which `/readyz` asks."""
    monkeypatch.setattr(health, "django_conninfo", lambda: project_database)
    return project_database


def run(url: str, sql: str, *params: Any) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.encode(), params)


def ready(expected: int) -> tuple[list[str], list[str]]:
    """Reasons and warnings, as anybody reads them."""
    health.forget()
    answer = Client().get("/readyz")
    assert answer.status_code == expected, answer.content
    found = json.loads(answer.content)
    assert found["status"] == ("ready" if expected == 200 else "not ready")
    assert answer.headers["Cache-Control"] == "no-store"
    return found["reasons"], found["warnings"]


def test_the_process_lives_whatever_else_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "look", lambda: pytest.fail("it asked"))
    for method in ("get", "head"):
        answer = getattr(Client(), method)("/healthz")
        assert answer.status_code == 200
    assert Client().get("/healthz").json() == {"status": "ok"}


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_health_is_only_ever_read(path: str) -> None:
    for method in ("post", "put", "patch", "delete"):
        assert getattr(Client(), method)(path).status_code == 405


def test_all_is_well_with_a_worker_and_redis(database: str, redis_url: str, settings: Any) -> None:
    settings.COPPICE_REDIS_URL = redis_url
    run(database, WORKER, 0)
    assert ready(200) == ([], [])


def test_without_a_worker_or_redis_it_is_ready_and_says_so(database: str, settings: Any) -> None:
    settings.COPPICE_REDIS_URL = "redis://:hunter2@127.0.0.1:1/0"
    run(database, WORKER, 600)  # one that has not been heard of for long
    assert ready(200) == (
        [],
        ["no worker is alive", "Redis cannot be reached: live events are dropped"],
    )


def test_a_setting_makes_either_a_reason(database: str, settings: Any) -> None:
    settings.COPPICE_REDIS_URL = "redis://127.0.0.1:1/0"
    settings.COPPICE_READY_NEEDS = "worker"
    assert ready(503)[0] == ["no worker is alive"]
    settings.COPPICE_READY_NEEDS = "redis, worker"
    assert len(ready(503)[0]) == 2
    run(database, WORKER, 0)
    assert ready(503)[0] == ["Redis cannot be reached: live events are dropped"]
    settings.COPPICE_REDIS_URL = ""
    assert ready(503)[0] == ["Redis is not configured: there are no live events"]
    settings.COPPICE_READY_NEEDS = ""
    assert ready(200) == ([], [])


@pytest.mark.parametrize("value", ["database", "redis worker", "redis,,queue"])
def test_a_need_that_nobody_knows_is_a_wrong_setting(value: str, settings: Any) -> None:
    settings.COPPICE_READY_NEEDS = value
    with pytest.raises(SettingsError, match="COPPICE_READY_NEEDS"):
        conf.get()


def test_missing_migrations_are_a_reason(database: str) -> None:
    run(database, WORKER, 0)
    assert ready(200)[0] == []
    run(database, "DELETE FROM django_migrations WHERE app = 'jobs' AND name LIKE '0004%%'")
    assert ready(503)[0] == ["1 migrations are not applied: run manage.py migrate"]
    # Those of a newer version, while it is rolled out, are none of ours.
    run(
        database,
        "INSERT INTO django_migrations (app, name, applied)"
        " SELECT 'jobs', name, now() FROM unnest(%s::text[]) AS t (name)",
        [name for app, name in health._migrations() if app == "jobs" and name[:4] == "0004"]
        + ["9999_later"],
    )
    assert ready(200)[0] == []


def test_a_database_that_is_empty_or_read_only_is_a_reason(database: str) -> None:
    name = database.rpartition("/")[2]
    run(database, f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
    assert ready(503)[0] == ["the database is read-only"]
    run(
        database,
        f'SET transaction_read_only = off; ALTER DATABASE "{name}" RESET ALL;'
        " DROP TABLE django_migrations",
    )
    assert ready(503)[0] == ["the database has no tables yet: run manage.py migrate"]


def test_a_database_that_stops_and_comes_back_is_told_without_its_address(
    own_postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = own_postgres.url("postgres")
    monkeypatch.setattr(health, "django_conninfo", lambda: url)
    assert ready(503)[0] == ["the database has no tables yet: run manage.py migrate"]
    own_postgres.stop()
    reasons, _ = ready(503)
    assert reasons == ["the database cannot be reached"]
    own_postgres.start()
    assert ready(503)[0] == ["the database has no tables yet: run manage.py migrate"]


def test_many_who_ask_at_once_cost_one_look(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []
    inside, go_on = threading.Event(), threading.Event()
    look = health.look

    def slow() -> health.Readiness:
        looks.append(1)
        inside.set()
        go_on.wait(90)
        return look()

    run(database, WORKER, 0)
    assert ready(200)[0] == []
    monkeypatch.setattr(health, "look", slow)
    monkeypatch.setattr(health, "KEPT_SECONDS", 0.0)
    first = threading.Thread(target=health.current)
    first.start()
    assert inside.wait(90)
    # The others are told what was found last, and do not queue up behind a database that hangs.
    assert all(health.current().is_ready for _ in range(20))
    go_on.set()
    first.join(90)
    assert len(looks) == 1


def test_what_was_found_is_kept_for_a_moment(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(database, WORKER, 0)
    assert ready(200)[0] == []
    monkeypatch.setattr(health, "look", lambda: pytest.fail("it looked again"))
    monkeypatch.setattr(health, "KEPT_SECONDS", 3_600.0)
    assert Client().get("/readyz").status_code == 200
