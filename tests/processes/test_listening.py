"""Wake-ups: what an idle worker hears, and what it does when it can no longer hear."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

import jobs
from jobs import registry
from tests.processes.harness import World, noise
from tests.processes.running import Running, eventually, runworker

type Enqueue = Callable[[int], str]

DEAF = {"COPPICE_POLL_SECONDS": "600"}
"""Polls are too rare to be of help: only a wake-up starts a job in time."""


def idle(world: World, worker: Running) -> None:
    worker.wait_for("worker.ready")
    eventually(
        lambda: world.one("SELECT bool_and(waiting) FROM jobs_worker WHERE state = 'running'"),
        "it waits to be woken",
    )


@pytest.fixture
def enqueue(world: World) -> Iterator[Enqueue]:
    """Through the real thing, which wakes."""
    registry.handler("prove.effect")(lambda: None)  # which only workers are to run
    yield lambda number: str(jobs.enqueue("prove.effect", {"n": number}).id)
    registry.remove("prove.effect")


def test_a_job_starts_by_its_wake_up_alone(world: World, enqueue: Enqueue) -> None:
    with runworker(world.url, **DEAF) as worker:
        idle(world, worker)
        job = enqueue(1)
        world.becomes(job, "completed")
        assert worker.stop() == 0


def test_after_its_listening_session_was_ended_a_worker_listens_again(
    world: World, enqueue: Enqueue
) -> None:
    with runworker(world.url, **DEAF) as worker:
        idle(world, worker)
        for number in (1, 2, 3):
            before = world.sessions("feeder")
            assert world.end_sessions("feeder") == 1
            eventually(
                lambda before=before: world.sessions("feeder") not in ([], before),  # type: ignore[misc]
                "another session",
            )
            idle(world, worker)
            world.becomes(enqueue(number), "completed")

        assert len(noise([worker])) <= 6
        assert worker.stop() == 0


def test_while_nobody_can_listen_polling_covers_the_gap(world: World) -> None:
    with runworker(world.url) as worker:
        idle(world, worker)
        # Made without a wake-up, as if it had been lost.
        [job] = world.enqueue_all("prove.effect", 1)
        world.becomes(job, "completed")
        assert worker.stop() == 0


def test_a_database_that_refuses_all_sessions_fills_no_log(world: World) -> None:
    """A standby phase: each attempt is answered, and refused, at once."""
    name = world.url.rpartition("/")[2]
    with runworker(world.url) as worker:
        idle(world, worker)
        other = World(f"{world.url.rpartition('/')[0]}/postgres")
        other.rows(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
        try:
            other.rows(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", name
            )
            worker.wait_for("database.away")
            begun, before = time.monotonic(), len(worker.lines)
            time.sleep(5)
            written = len(worker.lines) - before
        finally:
            other.rows(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')
            other.rows("DROP TABLE effect")
        assert written <= 2 * (time.monotonic() - begun)
        worker.wait_for("database.back")
        [job] = world.enqueue_all("prove.effect", 1)
        world.becomes(job, "completed")
        assert worker.stop() == 0


def test_several_idle_workers_share_what_one_call_brings(world: World) -> None:
    with (
        runworker(world.url, "--concurrency", "1") as one,
        runworker(world.url, "--concurrency", "1") as other,
    ):
        idle(world, one)
        idle(world, other)
        world.enqueue_all("prove.effect", 6, payload={"seconds": 0.5})
        world.all_ended()
        assert (one.stop(), other.stop()) == (0, 0)

    assert len(world.rows("SELECT DISTINCT pid FROM effect")) == 2
