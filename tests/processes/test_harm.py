"""Handlers that do harm: to themselves, to their thread, to their process. Nobody else pays."""

from __future__ import annotations

from typing import Any

import pytest

from tests.processes.harness import Shared, World
from tests.processes.running import eventually, runworker

SYNC = [
    "exit",
    "interrupt",
    "memory",
    "too much memory",
    "recursion",
    "generator exit",
    "stop",
    "cancelled",
    "group",
    "no words",
]


def test_whatever_a_handler_raises_is_the_failure_of_that_job_only(shared: Shared) -> None:
    world = shared.world
    bad = {
        what: world.enqueue_all("prove.raise", 1, max_attempts=1, payload={"what": what})[0]
        for what in SYNC
    }
    bad |= {
        f"async {what}": world.enqueue_all(
            "prove.raise_async", 1, max_attempts=1, payload={"what": what}
        )[0]
        for what in ("exit", "interrupt", "cancelled", "recursion")
    }
    good = world.enqueue_all("prove.effect", 30) + world.enqueue_all("prove.query_async", 30)
    world.all_ended()

    assert not shared.worker.logged("worker.ready")  # the same process all along
    assert {what: world.status(job) for what, job in bad.items()} == dict.fromkeys(bad, "failed")
    assert all(world.attempts(job) == ["failed"] for job in bad.values())
    assert all(
        world.one("SELECT last_error <> '' FROM jobs_job WHERE id = %s", job)
        for job in bad.values()
    )
    assert world.counts() == {"failed": len(bad), "completed": len(good)}


@pytest.mark.parametrize("apart", [False, True])
def test_what_a_handler_returns_that_cannot_be_stored_is_the_failure_of_that_job_only(
    shared: Shared, apart: bool
) -> None:
    world = shared.world
    kinds = ["an object", "a lock", "too much", "NUL", "a circle", "snooze", "a coroutine"]
    # A job that was lost once runs next in a process of its own.
    columns = {"max_attempts": 1, "lost_count": int(apart)}
    bad = {
        what: world.enqueue_all("prove.return", 1, payload={"what": what}, **columns)[0]
        for what in kinds
    }
    [held] = world.enqueue_all("prove.return", 1, payload={"what": "hold"}, **columns)
    good = world.enqueue_all("prove.effect", 50)
    eventually(
        lambda: world.unfinished() == 1 and world.attempts(held),
        lambda: f"all but the held one ended: {world.counts()}",
    )
    assert not shared.worker.logged("worker.ready")

    assert {what: world.status(job) for what, job in bad.items()} == dict.fromkeys(bad, "failed")
    # Some may have been handed back before, when no slot came free.
    assert {world.attempts(job)[-1] for job in bad.values()} == {"failed"}
    assert "lost" not in world.outcomes()
    [(due_at, reason)] = world.rows("SELECT due_at, hold_reason FROM jobs_job WHERE id = %s", held)
    assert due_at is None
    assert "half a pair" in reason
    assert world.counts() == {"failed": len(bad), "completed": len(good), "pending": 1}
    world.rows("DELETE FROM jobs_attempt WHERE job_id = %s", held)
    world.rows("DELETE FROM jobs_joblog WHERE job_id = %s", held)
    world.rows("DELETE FROM jobs_job WHERE id = %s", held)


WAYS_TO_DIE: list[dict[str, Any]] = [
    {"how": "kill"},
    {"how": "exit"},
    {"how": "exit", "code": 0},  # no excuse
    {"how": "crash"},
]


def dies_three_times(world: World, job: str) -> bool:
    outcomes = [each for each in world.attempts(job) if each != "handed_back"]
    return (
        world.status(job) == "failed"
        and outcomes == ["lost", "lost", "lost"]
        and world.effects(job) == 3
    )


def test_jobs_that_end_their_process_end_dead_and_bystanders_are_unspent(world: World) -> None:
    poison = [
        world.enqueue_all("prove.die", 1, max_attempts=3, payload=how, priority=1)[0]
        for how in WAYS_TO_DIE
    ]
    waiting = world.enqueue_all("prove.effect", 40, payload={"seconds": 0.02})
    with runworker(world.url, "--concurrency", "1") as worker:
        world.all_ended()
        assert worker.stop() == 0

    assert all(dies_three_times(world, job) for job in poison)
    # One slot: nobody else had started when the process died.
    assert world.rows(
        "SELECT max(attempt_count), max(lost_count) FROM jobs_job WHERE id = ANY(%s::uuid[])",
        waiting,
    ) == [(1, 0)]
    assert all(world.effects(job) == 1 for job in waiting)
    # Only the first death of each took the worker's process with it.
    assert len(worker.logged("worker.ready")) == 1 + len(poison)
    world.history_is_consistent()


def test_jobs_that_run_apart_take_nobody_with_them(shared: Shared) -> None:
    world = shared.world
    poison = [
        world.enqueue_all("prove.die_apart", 1, max_attempts=3, payload=how)[0]
        for how in WAYS_TO_DIE
    ]
    good = world.enqueue_all("prove.effect", 40, payload={"seconds": 0.05})
    world.all_ended()
    assert not shared.worker.logged("worker.ready")

    assert all(dies_three_times(world, job) for job in poison)
    assert world.counts() == {"failed": len(poison), "completed": len(good)}
    assert all(world.effects(job) == 1 for job in good)


def test_a_job_whose_process_cannot_be_started_fails_and_its_slot_is_free_again(
    shared: Shared,
) -> None:
    world = shared.world
    world.enqueue_all("prove.no_files", 1, payload={"seconds": 2})
    eventually(lambda: world.counts().get("processing") == 1, "no file can be opened")
    [apart] = world.enqueue_all("prove.apart", 1)
    eventually(lambda: "failed" in world.attempts(apart), "its process cannot be started")
    world.all_ended()
    # All slots work.
    good = world.enqueue_all("prove.effect", 4, payload={"seconds": 1})
    eventually(lambda: world.effect_count() == 5, "all run")
    world.all_ended()
    assert not shared.worker.logged("worker.ready")

    assert world.attempts(apart)[-1] == "succeeded"
    assert {world.status(job) for job in good} == {"completed"}


def test_of_a_handler_that_holds_the_interpreter_for_ever_the_process_is_replaced(
    shared: Shared,
) -> None:
    world = shared.world
    [stuck] = world.enqueue_all("prove.regex", 1, max_attempts=1)
    eventually(lambda: world.effects(stuck) == 1, "it runs")
    good = world.enqueue_all("prove.effect", 20)
    world.all_ended()
    assert shared.worker.logged("worker.hung")
    shared.worker.wait_for("worker.ready")

    assert (world.status(stuck), world.attempts(stuck)) == ("failed", ["timed_out"])
    assert world.effects(stuck) == 1
    assert {world.status(job) for job in good} == {"completed"}
    world.history_is_consistent()


def test_one_that_runs_apart_is_killed_at_its_deadline_and_nobody_else_with_it(
    shared: Shared,
) -> None:
    world = shared.world
    [stuck] = world.enqueue_all("prove.regex_apart", 1, max_attempts=1)
    good = world.enqueue_all("prove.effect", 20)
    world.all_ended()
    assert not shared.worker.logged("worker.ready")

    assert (world.status(stuck), world.attempts(stuck)) == ("failed", ["timed_out"])
    assert {world.status(job) for job in good} == {"completed"}
