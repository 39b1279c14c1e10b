"""A worker that is told to stop while jobs flow: what runs is finished, once, and nothing is lost."""

from __future__ import annotations

from tests.processes.harness import World
from tests.processes.running import amount, eventually, runworker


def test_workers_that_are_replaced_all_the_time_run_each_job_exactly_once(world: World) -> None:
    amounts = {
        "prove.effect": amount(400, thorough=4_000),
        "prove.query_async": amount(80, thorough=800),
        "prove.atomic": amount(200, thorough=2_000),
    }
    rounds, each = 3, sum(amounts.values())
    for stop in range(1, rounds + 1):
        for type, number in amounts.items():
            world.enqueue_all(type, number)
        with runworker(world.url, "--concurrency", "16") as worker:
            worker.wait_for("worker.ready")
            eventually(
                lambda stop=stop: finished(world) > stop * each // 3,  # type: ignore[misc]
                f"a third of round {stop} is done",
            )
            assert worker.stop() == 0
            assert not worker.logged("job.lost")
    with runworker(world.url, "--burst") as worker:
        assert worker.ended() == 0

    assert world.counts() == {"completed": rounds * each}
    assert set(world.outcomes()) <= {"succeeded", "handed_back"}
    assert world.outcomes()["succeeded"] == rounds * each
    assert set(world.rows("SELECT state FROM jobs_worker")) == {("stopped",)}
    assert world.effect_count() == rounds * (each - amounts["prove.query_async"])
    world.history_is_consistent()


def finished(world: World) -> int:
    return int(world.one("SELECT count(*) FROM jobs_job WHERE status = 'completed'"))


def test_after_the_signal_no_new_job_starts(world: World) -> None:
    with runworker(world.url, "--concurrency", "2") as worker:
        worker.wait_for("worker.ready")
        [long] = world.enqueue_all("prove.effect", 1, payload={"seconds": 2})
        eventually(lambda: world.effects(long) == 1, "it runs")
        worker.signal(15)
        worker.wait_for("worker.draining")
        later = world.enqueue_all("prove.effect", 5)

        assert worker.ended() == 0
    assert world.status(long) == "completed"
    assert {world.status(job) for job in later} == {"pending"}
    assert world.effect_count() == 1


def test_a_new_type_waits_unharmed_until_a_worker_comes_that_knows_it(world: World) -> None:
    """As while a new version is rolled out beside the old one."""
    with runworker(world.url) as old:
        [new] = world.enqueue_all("prove.new", 1, max_attempts=1, priority=1)
        world.enqueue_all("prove.effect", 20)
        eventually(lambda: world.unfinished() == 1, lambda: f"the others end: {world.counts()}")
        assert (world.status(new), world.attempts(new)) == ("pending", [])
        with runworker(world.url, NEW_VERSION="1") as worker:
            world.becomes(new, "completed")
            assert (worker.stop(), old.stop()) == (0, 0)

    assert world.attempts(new) == ["succeeded"]
    assert world.effects(new) == 1
