"""A worker is killed in the middle of bulk operations: each job once, and the counts are true."""

from __future__ import annotations

from jobs import bulk
from jobs.filtering import Filters
from tests.processes.harness import World, power_cut
from tests.processes.running import eventually, runworker

JOBS = 8_000


def bury(world: World, type: str) -> None:
    """Dead letters of a type that no worker knows, so that what is retried stays as it is."""
    world.rows(
        "INSERT INTO jobs_job (id, type, payload, status, failed_at, attempt_count, error_fingerprint)"
        " SELECT gen_random_uuid(), %s, '{}', 'failed', now() - n * interval '1 ms', 3, 'x'"
        " FROM generate_series(1, %s) n",
        type,
        JOBS,
    )


def standing(world: World) -> dict[str, tuple[str, int]]:
    rows = world.rows("SELECT action, status, changed FROM jobs_bulkoperation")
    return {action: (status, changed) for action, status, changed in rows}


def left_to_purge(world: World) -> int:
    return int(world.one("SELECT count(*) FROM jobs_job WHERE type = 'nobody.purge'"))


def retried(world: World) -> tuple[int, int]:
    [(lines, jobs)] = world.rows(
        "SELECT count(*), count(DISTINCT job_id) FROM jobs_joblog WHERE event = 'retried'"
    )
    return lines, jobs


def test_a_killed_worker_costs_bulk_operations_neither_a_job_nor_a_count(world: World) -> None:
    bury(world, "nobody.retry")
    bury(world, "nobody.purge")
    for action in ("retry", "purge"):
        bulk.create(action, Filters(type=f"nobody.{action}"), by="anna")

    sessions = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    usual = world.one(sessions)
    with runworker(world.url, "--concurrency", "2") as worker:
        eventually(
            lambda: all(changed for _, changed in standing(world).values()),
            lambda: f"both get on: {standing(world)}",
        )
        power_cut(worker)

    eventually(lambda: world.one(sessions) == usual, "what the dead had sent is done or undone")
    cut = standing(world)
    # Of worth only if both were in the middle of it.
    assert all(status == "running" and 0 < n < JOBS for status, n in cut.values()), cut
    assert left_to_purge(world) == JOBS - cut["purge"][1]
    assert retried(world) == (cut["retry"][1], cut["retry"][1])

    with runworker(world.url, "--concurrency", "2"):
        eventually(
            lambda: all(status == "completed" for status, _ in standing(world).values()),
            lambda: f"both end: {standing(world)}",
        )

    assert standing(world) == {"retry": ("completed", JOBS), "purge": ("completed", JOBS)}
    assert world.rows("SELECT skipped, failed FROM jobs_bulkoperation") == [(0, 0)] * 2
    assert left_to_purge(world) == 0
    assert retried(world) == (JOBS, JOBS)
    pending = "SELECT count(*) FROM jobs_job WHERE type = 'nobody.retry' AND status = 'pending'"
    assert world.one(pending) == JOBS
    assert world.rows("SELECT changed FROM jobs_auditentry") == [(JOBS,)] * 2
