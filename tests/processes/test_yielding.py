"""A long handler that asks `should_yield` gives its slot to better work, and to nothing else."""

from __future__ import annotations

from tests.processes.harness import World
from tests.processes.running import eventually, runworker


def test_a_long_job_gives_up_its_slot_for_a_better_one_that_waits(world: World) -> None:
    with runworker(world.url, "--concurrency", "1") as worker:
        [long] = world.enqueue_all("prove.yields", 1, payload={"done_at_once_when": 1}, priority=2)
        eventually(lambda: world.effects(long) == 1, "it runs")
        [no_better] = world.enqueue_all("prove.urgent", 1, priority=2)
        [worse] = world.enqueue_all("prove.urgent", 1, priority=3)
        [better] = world.enqueue_all("prove.urgent", 1, priority=1)

        world.becomes(better, "completed")
        world.all_ended()
        assert worker.stop() == 0

    assert world.effects(long, "yielded") == 1
    assert world.effects(long) == 2
    assert {world.status(job) for job in (long, no_better, worse)} == {"completed"}


def test_a_long_job_keeps_its_slot_while_only_worse_work_waits(world: World) -> None:
    with runworker(world.url, "--concurrency", "2") as worker:
        [long] = world.enqueue_all("prove.yields", 1, priority=1)
        [other] = world.enqueue_all("prove.yields", 1, priority=1)
        eventually(lambda: world.effects(long) and world.effects(other), "both run")
        worse = world.enqueue_all("prove.urgent", 3, priority=2)
        # The worker hears of a cancel in the same look in which it would see better work.
        world.rows("UPDATE jobs_job SET cancel_requested_at = now() WHERE id = %s", other)
        world.becomes(other, "cancelled")
        for job in worse:
            world.becomes(job, "completed")

        assert world.effects(long, "yielded") == 0
        assert worker.stop() == 0
    assert world.effects(long, "yielded") == 1  # for the drain
