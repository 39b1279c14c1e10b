"""A statement was committed, but its answer never came: the worker knows less than the database."""

from __future__ import annotations

import pytest

from tests.processes.harness import World
from tests.processes.running import eventually, runworker

CLAIMED_UNHEARD = """
UPDATE jobs_job SET status = 'processing', attempt_count = attempt_count + 1,
    lease_epoch = lease_epoch + 1, worker_id = %s, started_at = now(), updated_at = now()
WHERE id = ANY(%s::uuid[])
"""


@pytest.mark.parametrize("when", ["its connection broke", "it goes on"])
def test_jobs_that_a_worker_holds_without_knowing_it_are_run_all_the_same(
    world: World, when: str
) -> None:
    """As after a claim whose connection broke between the commit and the answer."""
    with runworker(world.url) as worker:
        worker.wait_for("worker.ready")
        ids = world.enqueue_all("prove.effect", 20, due_at="infinity")
        world.rows(CLAIMED_UNHEARD, world.worker_id(), ids)
        world.rows("UPDATE jobs_job SET due_at = now()")
        if when == "its connection broke":
            eventually(lambda: world.end_sessions("feeder"), "the feeder's session is ended")
        world.all_ended()

        assert worker.stop() == 0
    assert world.counts() == {"completed": 20}
    # They had not started, so the lost claim has cost them no attempt.
    assert world.outcomes() == {"handed_back": 20, "succeeded": 20}
    assert world.one("SELECT max(attempt_count) FROM jobs_job") == 1
    world.history_is_consistent()


def test_a_worker_whose_sessions_all_end_again_and_again_loses_nothing(world: World) -> None:
    ids = world.enqueue_all("prove.effect", 1_200)
    with runworker(world.url, "--concurrency", "4") as worker:
        for done in range(150, 1_100, 150):
            eventually(lambda done=done: world.effect_count() >= done, f"{done} have run")  # type: ignore[misc]
            world.end_sessions()
        world.all_ended()
        assert worker.stop() == 0

    assert world.counts() == {"completed": len(ids)}
    world.history_is_consistent()
