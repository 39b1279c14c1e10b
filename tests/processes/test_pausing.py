"""A queue that somebody pauses, while workers are busy with it."""

from __future__ import annotations

from jobs import lifecycle
from tests.processes.harness import World, workers
from tests.processes.running import eventually

LATE = (
    "SELECT count(*) FROM effect e, jobs_queue q WHERE e.at > q.changed_at + interval '2 seconds'"
)
PROCESSING = "SELECT count(*) FROM jobs_job WHERE status = 'processing'"


def test_every_worker_obeys_a_pause_within_two_seconds_also_with_jobs_that_it_holds_ahead(
    world: World,
) -> None:
    hoarding = {"COPPICE_PREFETCH_SECONDS": "60", "COPPICE_PREFETCH_MAX": "100"}
    with workers(world.url, 2, "--concurrency", "2", **hoarding) as running:
        # Quick ones, from which the workers learn to hold many ahead; then slow ones.
        world.enqueue_all("prove.nothing", 1_000)
        slow = world.enqueue_all("prove.effect", 400, payload={"seconds": 0.2})
        eventually(lambda: world.effect_count() > 4, "the slow ones run")
        eventually(lambda: world.one(PROCESSING) > 20, "more are held than run")

        lifecycle.pause_queue("default", reason="provider down", by="anna")
        eventually(lambda: world.one(PROCESSING) == 0, "nothing is held any more")

        done = world.effect_count()
        assert 0 < done < len(slow)
        assert world.one(LATE) == 0
        assert world.outcomes()["handed_back"] > 0
        # Nothing was spent on those that had not started, and none comes back by itself.
        assert set(world.counts()) == {"completed", "pending"}
        assert world.effect_count() == done

        world.rows("UPDATE jobs_job SET payload = '{}' WHERE status = 'pending'")
        lifecycle.resume_queue("default", by="anna")
        world.all_ended()
        for worker in running:
            assert worker.stop() == 0

    assert world.counts() == {"completed": 1_400}
    assert all(world.effects(job) == 1 for job in slow)
    world.history_is_consistent()


def test_a_pause_with_an_end_is_obeyed_and_over_at_its_moment(world: World) -> None:
    with workers(world.url, 1, "--concurrency", "2") as [worker]:
        worker.wait_for("worker.ready")
        lifecycle.pause_queue("default", until=world.one("SELECT now() + interval '4 seconds'"))
        [job] = world.enqueue_all("prove.effect", 1)
        world.becomes(job, "completed")
        assert worker.wait_for("queue.resumed")[0]["queue"] == "default"
        assert worker.stop() == 0

    # Not before, and the row says that it is over, since when.
    assert world.one(
        "SELECT NOT q.paused AND e.at >= q.changed_at FROM effect e, jobs_queue q WHERE job_id = %s",
        job,
    )


def test_jobs_of_other_queues_that_are_held_ahead_stay_where_they_are(world: World) -> None:
    hoarding = {"COPPICE_PREFETCH_SECONDS": "60", "COPPICE_PREFETCH_MAX": "100"}
    with workers(world.url, 1, "--concurrency", "2", **hoarding) as [worker]:
        world.enqueue_all("prove.nothing", 1_000)
        ids = {
            queue: world.enqueue_all("prove.effect", 20, queue=queue, payload={"seconds": 0.2})
            for queue in ("mail", "images")
        }
        eventually(lambda: world.effect_count() > 2, "they run")
        lifecycle.pause_queue("mail")
        eventually(lambda: all(world.effects(job) for job in ids["images"]), "images go on")
        assert worker.stop() == 0

    assert {world.status(job) for job in ids["images"]} == {"completed"}
    assert world.outcomes().get("lost", 0) == 0
    world.history_is_consistent()
