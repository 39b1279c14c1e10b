"""Workers that a person asks to stop, one process at a time."""

from __future__ import annotations

import signal

from jobs import lifecycle
from tests.processes.harness import World, send, tree
from tests.processes.running import Tables, eventually, runworker, standins


def stop(worker_id: str) -> None:
    """As a person does."""
    assert lifecycle.stop_worker(worker_id, by="anna", reason="too hot")


def states(tables: Tables) -> dict[str, str]:
    return {str(id): state for id, state in tables.rows("SELECT id, state FROM jobs_worker")}


def test_a_process_that_is_asked_to_stop_ends_its_jobs_and_is_not_replaced(world: World) -> None:
    with runworker(world.url, "--processes", "2", "--concurrency", "1") as worker:
        worker.wait_for("worker.ready", 2)
        ids = world.enqueue_all("prove.effect", 2, payload={"seconds": 2})
        eventually(lambda: world.effect_count() == 2, "both are busy")
        first, second = states(world)
        pid = world.one("SELECT pid FROM jobs_worker WHERE id = %s", first)
        [its] = [job for job in ids if world.pid_of(job) == pid]

        stop(first)
        eventually(lambda: states(world)[first] == "stopped", "it has stopped")
        assert states(world) == {first: "stopped", second: "running"}
        assert world.status(its) == "completed"

        # The other goes on alone, and with it the worker ends.
        later = world.enqueue_all("prove.effect", 4)
        eventually(lambda: all(world.effects(job) for job in later), "the other works")
        stop(second)
        assert worker.ended() == 0

    assert set(states(world).values()) == {"stopped"}
    assert len(states(world)) == 2
    world.all_ended()
    assert world.counts() == {"completed": 6}
    world.history_is_consistent()


def test_a_signal_to_all_its_processes_stops_a_worker_as_one_to_itself_does(world: World) -> None:
    """As from a terminal, or whatever starts programs in groups."""
    with runworker(world.url, "--concurrency", "2") as worker:
        jobs = [
            job
            for kind in ("effect", "apart")
            for job in world.enqueue_all(f"prove.{kind}", 1, payload={"seconds": 2})
        ]
        eventually(lambda: world.effect_count() == 2, "both run")
        send(signal.SIGTERM, *(process.pid for process in tree(worker)))
        assert worker.ended() == 0

    assert [world.attempts(job) for job in jobs] == [["succeeded"]] * 2


def test_what_such_a_process_cannot_end_in_time_is_given_up(world: World) -> None:
    tables = world
    with standins(tables.url, "is deaf", "--processes", "2", "--graceful-timeout", "0.5") as worker:
        worker.wait_for("worker.ready", 2)
        eventually(lambda: len(states(tables)) == 2, "both are entered")
        first, second = states(tables)
        stop(first)
        worker.wait_for("standin.heard", order="abandon")
        eventually(lambda: states(tables)[first] != "draining", "it has ended")
        assert states(tables)[second] == "running"
        assert len(worker.logged("standin.heard", order="abandon")) == 1
