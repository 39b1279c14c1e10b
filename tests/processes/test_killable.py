"""Attempts in processes of their own do not get in each other's way."""

from __future__ import annotations

from tests.processes.harness import World
from tests.processes.running import runworker

ATTEMPTS = 400


def test_many_attempts_in_processes_of_their_own_come_and_go_at_once(world: World) -> None:
    world.enqueue_all("prove.apart", ATTEMPTS)
    with runworker(world.url, "--concurrency", "16") as worker:
        world.all_ended(240)
        worker.stop()

    assert world.counts() == {"completed": ATTEMPTS}
    assert world.effect_count() == ATTEMPTS
