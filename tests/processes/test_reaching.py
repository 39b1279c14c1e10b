"""Handlers that reach for what is the whole process's; the worker and everybody else go on."""

from __future__ import annotations

import psutil
import pytest

from tests.processes.harness import Shared, World, tree
from tests.processes.running import Running, eventually, runworker


def reaches(world: World, what: str) -> None:
    """One handler does; others run meanwhile and later, and come to the end they should."""
    [bystander] = world.enqueue_all("prove.stubborn", 1)
    eventually(lambda: world.effects(bystander, "started") == 1, "it runs")
    [bad] = world.enqueue_all("prove.reach", 1, payload={"what": what}, max_attempts=1)
    eventually(lambda: world.effects(bad) == 1, "the other runs too")
    later = world.enqueue_all("prove.effect", 100) + world.enqueue_all("prove.apart", 1)
    eventually(lambda: world.unfinished() == 1, lambda: f"the others end: {world.counts()}")
    world.leave_effect(bystander, "let go")
    world.all_ended()

    assert world.attempts(bystander) == ["succeeded"]
    assert {world.status(job) for job in later} == {"completed"}


@pytest.mark.parametrize("what", ["read the input", "a program reads the input", "chdir"])
def test_a_handler_that_reaches_for_the_process_harms_nobody_else(
    shared: Shared, what: str
) -> None:
    reaches(shared.world, what)
    assert not shared.worker.logged("worker.ready")  # the same process all along


@pytest.mark.parametrize("what", ["close the input", "close the output", "close the outputs"])
def test_a_handler_that_closes_what_the_process_has_open_harms_nobody_else(
    world: World, what: str
) -> None:
    with runworker(world.url, "--concurrency", "4") as worker:
        reaches(world, what)
        assert worker.stop() == 0


def test_a_process_that_a_handler_has_crippled_is_replaced(world: World) -> None:
    payload = {"what": "recursion limit"}
    with runworker(world.url, "--concurrency", "2") as worker:
        [bad] = world.enqueue_all("prove.reach", 1, payload=payload, max_attempts=3)
        eventually(lambda: world.effects(bad) > 0, "it runs")
        world.enqueue_all("prove.effect", 100)
        world.all_ended()
        assert worker.stop() == 0

    assert world.counts()["completed"] >= 100


def test_a_worker_with_more_than_a_thousand_open_files_listens_again(world: World) -> None:
    with runworker(world.url, "--concurrency", "2") as worker:
        [bad] = world.enqueue_all("prove.open_files", 1)
        eventually(lambda: world.effects(bad) == 1, "they are open")
        world.end_sessions("feeder")
        eventually(lambda: world.effects(bad, "a small one") > 0, "that of its session is taken")
        world.enqueue_all("prove.effect", 10)
        world.all_ended()

        assert len(worker.logged("worker.ready")) == 1
        assert worker.stop() == 0


def test_a_fork_that_a_handler_forgets_runs_nobody_elses_job(world: World) -> None:
    with runworker(world.url, "--concurrency", "1") as worker:
        worker.wait_for("worker.ready")
        [bad] = world.enqueue_all(
            "prove.reach", 1, payload={"what": "fork", "seconds": 1}, max_attempts=1, priority=1
        )
        others = world.enqueue_all("prove.effect", 200)
        world.all_ended()
        eventually(lambda: len(alive(worker)) == 2, lambda: f"one child: {alive(worker)}")
        assert worker.stop() == 0

    assert world.status(bad) == "completed"
    assert all(world.effects(job) == 1 for job in others)


def alive(worker: Running) -> list[psutil.Process]:
    """Without the copy that has ended, which the handler never waited for."""
    return [process for process in tree(worker) if process.status() != psutil.STATUS_ZOMBIE]


def test_a_child_that_outlives_a_killable_attempt_does_not_hold_its_slot(shared: Shared) -> None:
    world, payload = shared.world, {"what": "a child that lives on"}
    [bad] = world.enqueue_all("prove.reach_apart", 1, payload=payload, max_attempts=1)
    world.becomes(bad, "failed")
    left = psutil.Process(int(world.one("SELECT word FROM effect WHERE word LIKE 'left %%'")[5:]))
    assert left.is_running()
    left.kill()

    assert world.attempts(bad) == ["lost"]


def test_where_jobs_run_garbage_is_collected(shared: Shared) -> None:
    """Which it is not while a process starts."""
    world, payload = shared.world, {"what": "look for garbage"}
    for type in ("prove.return_async", "prove.reach_apart"):
        world.enqueue_all(type, 1, payload=payload)
    world.all_ended()

    assert world.rows("SELECT result FROM jobs_job") == [(True,), (True,)]


def test_what_cannot_be_sent_from_a_process_is_the_failure_of_that_job(shared: Shared) -> None:
    world, payload = shared.world, {"what": "what cannot be sent"}
    [bad] = world.enqueue_all("prove.reach_apart", 1, payload=payload, max_attempts=1)
    world.becomes(bad, "failed")

    assert world.attempts(bad) == ["failed"]


@pytest.mark.parametrize("what", ["speechless", "strange"])
def test_a_value_that_cannot_be_read_is_a_failure_and_no_time_out(
    shared: Shared, what: str
) -> None:
    world = shared.world
    [bad] = world.enqueue_all("prove.return_async", 1, payload={"what": what}, max_attempts=1)
    world.becomes(bad, "failed")

    assert world.attempts(bad) == ["failed"]


@pytest.mark.parametrize("how", ["retry", "wait"])
def test_a_burst_does_not_end_while_something_has_just_become_due(world: World, how: str) -> None:
    jobs = world.enqueue_all("prove.again", 3, payload={"how": how}, max_attempts=5)
    with runworker(world.url, "--burst", COPPICE_POLL_SECONDS="1") as worker:
        assert worker.ended() == 0

    assert {world.status(job) for job in jobs} == {"completed"}


def test_an_error_after_the_commit_of_an_atomic_handler_is_said_and_fails_nothing(
    shared: Shared,
) -> None:
    world, worker = shared.world, shared.worker
    [job] = world.enqueue_all("prove.after_commit", 1, max_attempts=1)
    world.becomes(job, "completed")
    worker.wait_for("job.completed", job_id=job)
    assert any("too late to fail" in str(line) for line in worker.lines)

    assert world.effects(job) == 1


def test_a_task_of_a_handlers_own_that_exits_stops_no_other_coroutine(shared: Shared) -> None:
    world = shared.world
    world.enqueue_all("prove.return_async", 3, payload={"what": "a task that exits"})
    world.all_ended()

    assert world.counts() == {"completed": 3}
