"""Attempts in processes of their own do not get in each other's way."""

from __future__ import annotations

import psutil

from tests.processes.harness import World
from tests.processes.running import amount, eventually, runworker

ATTEMPTS = amount(120, thorough=4_000)


def test_many_attempts_in_processes_of_their_own_come_and_go_at_once(world: World) -> None:
    world.enqueue_all("prove.apart", ATTEMPTS)
    with runworker(world.url, "--concurrency", "16") as worker:
        world.all_ended()
        worker.stop()

    assert world.counts() == {"completed": ATTEMPTS}
    assert world.effect_count() == ATTEMPTS


def test_a_kill_at_the_time_out_reaches_the_programs_that_the_handler_started(
    world: World,
) -> None:
    # Where starting it takes longer than it may, another attempt gets there.
    [job] = world.enqueue_all("prove.starts_a_program", 1)
    with runworker(world.url, "--concurrency", "1") as worker:
        eventually(lambda: world.effect_count("program"), "an attempt has started a program")
        [(program, epoch)] = world.rows(
            "SELECT pid, epoch FROM effect WHERE word = 'program' ORDER BY n LIMIT 1"
        )
        outcome = "SELECT outcome FROM jobs_attempt WHERE job_id = %s AND lease_epoch = %s"
        eventually(lambda: world.one(outcome, job, epoch) == "timed_out", "it has timed out")
        eventually(lambda: is_gone(program), "the program has ended")
        assert worker.stop() == 0


def is_gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
