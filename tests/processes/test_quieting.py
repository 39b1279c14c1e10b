"""A worker that a person tells to be quiet: it ends what it runs, claims nothing, and goes on later."""

from __future__ import annotations

from jobs import lifecycle
from tests.processes.harness import World
from tests.processes.running import eventually, runworker


def test_a_quiet_worker_claims_nothing_until_it_is_resumed(world: World) -> None:
    with runworker(world.url, "--concurrency", "1") as worker:
        worker.wait_for("worker.ready", 1)
        [[worker_id]] = world.rows("SELECT id::text FROM jobs_worker")
        [running] = world.enqueue_all("prove.effect", 1, payload={"seconds": 2})
        eventually(lambda: world.effect_count() == 1, "it is busy")

        assert lifecycle.quiet_worker(worker_id, by="anna")
        eventually(
            lambda: world.rows("SELECT quiet_at IS NOT NULL FROM jobs_worker") == [(True,)],
            "it says that it heard",
        )
        [later] = world.enqueue_all("prove.effect", 1)
        eventually(lambda: world.status(running) == "completed", "what it ran has ended")
        # Its next look for work is behind it, and the one after that.
        beats = world.rows("SELECT beats FROM jobs_worker")[0][0]
        eventually(
            lambda: world.rows("SELECT beats FROM jobs_worker")[0][0] >= beats + 2, "it lives"
        )
        assert world.status(later) == "pending"
        assert not world.effects(later)

        assert lifecycle.resume_worker(worker_id, by="anna")
        eventually(lambda: world.status(later) == "completed", "it goes on")
        assert world.rows("SELECT quiet_at, quiet_requested_at FROM jobs_worker") == [(None, None)]
    world.all_ended()
    world.history_is_consistent()
