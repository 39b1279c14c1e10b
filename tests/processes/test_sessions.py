"""What a worker does to the server: its sessions, its transactions, its snapshots."""

from __future__ import annotations

import time

import psutil
import psycopg
import pytest

from tests.processes.harness import World, children
from tests.processes.running import amount, eventually, runworker

CONCURRENCY = 8
MANY = amount(400, thorough=10_000)
OWN_SESSIONS = 5
"""beats, upkeep, leader, feeder, completer; handlers have one each beside these."""

SESSIONS = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()
"""
COMMITS = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
IN_TRANSACTION = """
SELECT application_name, state, query FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
    AND (state LIKE 'idle in transaction%%' OR backend_xid IS NOT NULL)
"""


@pytest.mark.parametrize("type", ["prove.query", "prove.query_async"])
def test_sessions_are_bounded_however_many_jobs_use_the_orm(world: World, type: str) -> None:
    with runworker(world.url, "--concurrency", str(CONCURRENCY)) as worker:
        worker.wait_for("worker.ready")
        world.enqueue_all(type, MANY)
        most = 0
        while world.unfinished():
            most = max(most, world.one(SESSIONS))
            time.sleep(0.05)
        assert world.counts() == {"completed": MANY}
        # A session of the test's may still be going, and a thread of an attempt before.
        assert most <= 2 + OWN_SESSIONS + CONCURRENCY * (1 if type == "prove.query" else 3)
        eventually(
            lambda: world.one(SESSIONS) <= OWN_SESSIONS + CONCURRENCY,
            lambda: f"few sessions are left: {world.one(SESSIONS)}",
        )
        assert worker.stop() == 0
    eventually(lambda: world.one(SESSIONS) == 0, "no session is left")


def test_memory_levels_off(world: World) -> None:
    with runworker(world.url, "--concurrency", str(CONCURRENCY)) as worker:
        worker.wait_for("worker.ready")
        [pid] = children(worker)
        used = []
        for _ in range(4):
            world.enqueue_all("prove.query", 2 * MANY)
            world.all_ended()
            used.append(psutil.Process(pid).memory_info().rss / 1_048_576)
        assert worker.stop() == 0

    assert used[-1] < used[1] + 10, used


def test_a_session_ended_by_the_server_costs_at_most_the_job_that_it_hit(world: World) -> None:
    with runworker(world.url, "--concurrency", "4") as worker:
        worker.wait_for("worker.ready")
        world.enqueue_all("prove.query", 200, max_attempts=1)
        world.all_ended()
        for _ in range(3):
            end_djangos_sessions(world)
            ids = world.enqueue_all("prove.query", 200, max_attempts=1)
            world.all_ended()
            failed = sum(world.status(job) == "failed" for job in ids)
            # Each of the four threads may notice it once.
            assert failed <= 4
        assert worker.stop() == 0


def test_a_session_of_a_listener_that_was_ended_by_the_server_is_replaced(world: World) -> None:
    with runworker(world.url) as worker:
        for _ in range(3):
            [job] = world.enqueue_all("prove.heard", 1)
            eventually(
                lambda job=job: world.effects(job, "job.started"),  # type: ignore[misc]
                "heard of, by the thread that claims",
            )
            eventually(
                lambda job=job: world.effects(job, "job.completed"),  # type: ignore[misc]
                "heard of, by the thread that completes",
            )
            end_djangos_sessions(world)
        assert worker.stop() == 0


def end_djangos_sessions(world: World) -> None:
    world.rows(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        " AND application_name NOT LIKE 'coppice%%'"
    )


def test_while_handlers_run_no_session_of_the_worker_is_in_a_transaction(world: World) -> None:
    with runworker(world.url, "--concurrency", "4") as worker:
        worker.wait_for("worker.ready")
        ids = world.enqueue_all("prove.effect", 4, payload={"seconds": 3})
        eventually(lambda: world.effect_count() == 4, "all run")
        seen = []
        for _ in range(30):
            seen += world.rows(IN_TRANSACTION)
            time.sleep(0.05)
        eventually(lambda: world.status(ids[0]) == "completed", "it completes")
        assert worker.stop() == 0

    # A beat or a look may be caught in the act, but nothing stays.
    assert len(seen) <= 3, seen


def test_jobs_flow_under_a_snapshot_that_is_held_for_long(world: World) -> None:
    """Each claim and completion leaves dead rows that cannot be removed; none is met again."""
    number = 6_000
    # Each look for more work passes by all that was there: only few are to fall between two rounds.
    rarely = {"COPPICE_POLL_SECONDS": "2"}
    with psycopg.connect(world.url) as watcher, runworker(world.url, **rarely) as worker:
        watcher.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        watcher.execute("SELECT count(*) FROM jobs_job")
        worker.wait_for("worker.ready")
        for _ in range(4):
            world.enqueue_all("prove.nothing", number // 4)
            world.all_ended()
        # The claim index is walked about once per job, not once per dead row.
        read = world.one(
            "SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'job_ready'"
        )
        assert worker.stop() == 0
        watcher.rollback()

    assert world.counts() == {"completed": number}
    assert world.outcomes()["succeeded"] == number
    assert read < 30 * number


def test_a_due_job_that_somebody_holds_is_not_asked_for_without_pause(world: World) -> None:
    """A transaction that a person left open costs little, and the job starts when it ends."""
    with runworker(world.url, COPPICE_POLL_SECONDS="1") as worker:
        worker.wait_for("worker.ready")
        time.sleep(1)
        idle = statements(world, seconds=3)
        with psycopg.connect(world.url) as person:
            soon = world.one("SELECT now() + interval '2 seconds'")
            [job] = world.enqueue_all("prove.effect", 1, due_at=soon)
            person.execute("SELECT FROM jobs_job FOR UPDATE")
            time.sleep(3)  # it has become due
            busy = statements(world, seconds=3)
            assert world.status(job) == "pending"
        world.becomes(job, "completed")
        assert worker.stop() == 0

    assert busy < 2 * idle + 30, (idle, busy)


def statements(world: World, *, seconds: float) -> int:
    """How many transactions end in the database in that time."""
    before = world.one(COMMITS)
    time.sleep(seconds)
    return int(world.one(COMMITS) - before)
