"""A database that refuses for reasons of its own: no outcome of a handler is lost or turned by it."""

from __future__ import annotations

import psycopg
import pytest

from jobs.edges import EDGE_LOCK
from tests.processes.harness import World
from tests.processes.running import eventually, runworker

UNUSUAL = (
    "default_transaction_isolation = 'serializable'",
    "statement_timeout = '250ms'",
    "lock_timeout = '20ms'",
    "idle_session_timeout = '700ms'",
    "TimeZone = 'Asia/Kathmandu'",
)
WAITING = """
SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'coppice completer'
    AND wait_event_type = 'Lock'
"""


def test_outcomes_wait_while_the_server_takes_no_writes(world: World) -> None:
    """As after a failover, when what was the primary answers as a standby."""
    name = world.one("SELECT current_database()")
    with runworker(world.url, "--concurrency", "4") as worker:
        jobs = world.enqueue_all("prove.effect", 3, payload={"seconds": 2}, max_attempts=3)
        eventually(lambda: world.effect_count() == 3, "they run")
        world.rows(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
        world.end_sessions("completer")
        worker.wait_for("database.away")
        eventually(
            lambda: (
                world.one("SELECT count(*) FROM jobs_job WHERE now() - started_at > interval '5 s'")
                == 3
            ),
            "their outcomes are refused",
        )
        with psycopg.connect(world.url, autocommit=True) as connection:
            connection.execute("SET default_transaction_read_only = off")
            connection.execute(
                f'ALTER DATABASE "{name}" RESET default_transaction_read_only'.encode()
            )
        world.end_sessions()
        world.all_ended()
        assert worker.stop() == 0

    assert all(world.attempts(job) == ["succeeded"] for job in jobs)
    assert world.effect_count() == 3


def test_an_outcome_whose_statement_is_cancelled_is_written_again(world: World) -> None:
    with runworker(world.url) as worker:
        [job] = world.enqueue_all("prove.effect", 1, payload={"seconds": 1}, max_attempts=1)
        eventually(lambda: world.effects(job) == 1, "it runs")
        with psycopg.connect(world.url) as holder:
            holder.execute("SELECT FROM jobs_job WHERE id = %s FOR UPDATE", (job,))
            for _ in range(3):
                pid = eventually(lambda: world.one(WAITING), "the completer waits for the row")
                world.rows("SELECT pg_cancel_backend(%s)", pid)
        world.all_ended()
        assert worker.stop() == 0

    assert (world.status(job), world.attempts(job)) == ("completed", ["succeeded"])


def test_settings_of_the_role_do_not_reach_the_workers_own_sessions(world: World) -> None:
    name = world.one("SELECT current_database()")
    for setting in UNUSUAL:
        world.rows(f'ALTER DATABASE "{name}" SET {setting}')
    jobs = world.enqueue_all("prove.nothing", 1_500, max_attempts=1)
    with (
        runworker(world.url, "--concurrency", "8") as first,
        runworker(world.url, "--concurrency", "8") as second,
    ):
        world.all_ended()
        assert (first.stop(), second.stop()) == (0, 0)

    assert world.counts() == {"completed": len(jobs)}
    assert not [line for line in first.lines + second.lines if line.get("level") == "error"]


@pytest.mark.parametrize("what", ["a row", "the edges"])
def test_what_somebody_keeps_locked_holds_up_no_other_job(world: World, what: str) -> None:
    """As when a long transaction has cancelled a job that runs, or made one wait for another."""
    kind, payload = ("effect", {"seconds": 1}) if what == "a row" else ("again", {"how": "wait"})
    with runworker(world.url, "--concurrency", "4") as worker:
        with psycopg.connect(world.url) as holder:
            if what == "the edges":
                holder.execute("SELECT pg_advisory_xact_lock(%s)", (EDGE_LOCK,))
            [held] = world.enqueue_all(f"prove.{kind}", 1, payload=payload)
            eventually(lambda: world.effects(held) == 1, "it runs")
            if what == "a row":
                holder.execute("SELECT FROM jobs_job WHERE id = %s FOR UPDATE", (held,))
            eventually(lambda: world.one(WAITING), "the completer waits for it")
            for _ in range(3):
                world.enqueue_all("prove.effect", 30)
                eventually(lambda: world.unfinished() == 1, lambda: f"{world.counts()}")
        world.all_ended()
        assert worker.stop() == 0

    assert world.status(held) == "completed"
    assert set(world.attempts(held)) <= {"waited", "succeeded"}
