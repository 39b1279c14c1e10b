"""Attempts in processes of their own do not get in each other's way."""

from __future__ import annotations

import psutil

from tests.processes.harness import World
from tests.processes.running import eventually, runworker

ATTEMPTS = 400


def test_many_attempts_in_processes_of_their_own_come_and_go_at_once(world: World) -> None:
    world.enqueue_all("prove.apart", ATTEMPTS)
    with runworker(world.url, "--concurrency", "16") as worker:
        world.all_ended(240)
        worker.stop()

    assert world.counts() == {"completed": ATTEMPTS}
    assert world.effect_count() == ATTEMPTS


def test_a_kill_at_the_time_out_reaches_the_programs_that_the_handler_started(
    world: World,
) -> None:
    [job] = world.enqueue_all("prove.starts_a_program", 1, max_attempts=1)
    with runworker(world.url, "--concurrency", "1") as worker:
        world.becomes(job, "failed")
        program = int(world.one("SELECT pid FROM effect WHERE word = 'program'"))
        eventually(lambda: is_gone(program), "the program has ended")
        assert worker.stop() == 0
    assert world.attempts(job) == ["timed_out"]


def is_gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
