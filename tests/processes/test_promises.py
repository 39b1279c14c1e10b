"""Cancel sticks, unique jobs keep their retries, low priority does not starve, aging holds."""

from __future__ import annotations

import signal
import time

import pytest

from jobs import lifecycle
from tests.processes.harness import World, send, workers
from tests.processes.running import eventually, runworker

# Cancel


def test_a_cancel_sticks_although_the_handler_heeds_nothing(world: World) -> None:
    with runworker(world.url, "--concurrency", "4") as worker:
        worker.wait_for("worker.ready")
        jobs = {
            then: world.enqueue_all("prove.stubborn", 1, max_attempts=5, payload={"then": then})[0]
            for then in ("raise", "retry", "return")
        }
        eventually(lambda: world.effect_count("started") == 3, "they run")
        for job in jobs.values():
            lifecycle.cancel(job)
        # They cannot be stopped, only be asked.
        assert {world.status(job) for job in jobs.values()} == {"processing"}
        world.leave_effect(jobs["return"], "let go")
        world.all_ended()
        # Not for a retry, a rescue or anything else do they come back.
        world.enqueue_all("prove.effect", 5)
        world.all_ended()
        assert worker.stop() == 0

    assert {then: world.status(job) for then, job in jobs.items()} == {
        "raise": "cancelled",
        "retry": "cancelled",
        "return": "completed",
    }
    assert world.effect_count("started") == 3


@pytest.mark.parametrize("how", ["killed", "stopped", "frozen"])
def test_a_cancelled_job_is_not_brought_back_by_a_rescue_or_a_hand_back(
    world: World, how: str
) -> None:
    with runworker(world.url, "--graceful-timeout", "0.5") as worker:
        worker.wait_for("worker.ready")
        [job] = world.enqueue_all("prove.stubborn", 1, max_attempts=5)
        eventually(lambda: world.effects(job, "started") == 1, "it runs")
        child = world.pid_of(job)
        with runworker(world.url) as other:
            other.wait_for("worker.ready")
            lifecycle.cancel(job)
            match how:
                case "killed":
                    send(signal.SIGKILL, child)
                case "stopped":
                    send(signal.SIGTERM, worker.process.pid)
                case "frozen":
                    send(signal.SIGSTOP, child)
            world.becomes(job, "cancelled")
            send(signal.SIGCONT, child)
            later = world.enqueue_all("prove.effect", 20)
            eventually(lambda: world.status(later[-1]) == "completed", "others go on")
            assert other.stop() == 0

    assert world.status(job) == "cancelled"
    assert world.effects(job, "started") == 1
    assert world.one("SELECT next_retry_at FROM jobs_job WHERE id = %s", job) is None


def test_a_job_that_waits_for_a_slot_is_cancelled_before_it_starts(world: World) -> None:
    with runworker(world.url, "--concurrency", "1") as worker:
        [long] = world.enqueue_all("prove.effect", 1, payload={"seconds": 4})
        eventually(lambda: world.effects(long) == 1, "the slot is taken")
        waiting = world.enqueue_all("prove.effect", 3)
        for job in waiting:
            lifecycle.cancel(job)
        world.all_ended()
        assert worker.stop() == 0

    assert {world.status(job) for job in waiting} == {"cancelled"}
    assert all(world.effects(job) == 0 for job in waiting)


def test_a_job_that_snoozes_for_ever_can_be_cancelled(world: World) -> None:
    with runworker(world.url) as worker:
        [job] = world.enqueue_all("prove.snooze", 1, payload={"seconds": 0.2})
        eventually(lambda: world.effects(job) >= 3, "it comes again and again")
        lifecycle.cancel(job)
        world.becomes(job, "cancelled")
        ran = world.effects(job)
        world.enqueue_all("prove.effect", 5)
        world.all_ended()
        assert worker.stop() == 0

    assert world.status(job) == "cancelled"
    assert world.effects(job) - ran <= 1
    assert world.one("SELECT attempt_count FROM jobs_job WHERE id = %s", job) <= 1


# Unique keys


def test_a_unique_job_is_retried_to_its_limit_and_no_conflict_stops_others(world: World) -> None:
    columns = {"max_attempts": 3, "payload": {"fails": 99}}
    unique = [
        world.enqueue_all("prove.retry", 1, unique_key=f"key {n}", **columns)[0] for n in range(5)
    ]
    # A dead letter whose key a live job has: it can be retried by nobody, and hurts nobody.
    [dead] = world.enqueue_all(
        "prove.retry", 1, unique_key="key 0", status="failed", failed_at="now", max_attempts=3
    )
    plain = world.enqueue_all("prove.retry", 5, max_attempts=3, payload={"fails": 1})
    with workers(world.url, 2) as running:
        world.all_ended()
        for worker in running:
            assert worker.stop() == 0

    assert [world.attempts(job) for job in unique] == [["failed"] * 3] * 5
    assert {world.status(job) for job in unique} == {"failed"}
    assert [world.attempts(job) for job in plain] == [["failed", "succeeded"]] * 5
    assert world.attempts(dead) == []


# Priority


def test_a_low_job_starts_within_the_time_of_the_aging_rule_however_much_urgent_work_comes(
    world: World,
) -> None:
    """Aged by 0.5 each 1.2 s, a low job equals a fresh high one after 4 steps: 4.8 s."""
    with runworker(
        world.url, "--concurrency", "2", COPPICE_AGING_MINUTES="0.02", COPPICE_POLL_SECONDS="0.1"
    ) as worker:
        worker.wait_for("worker.ready")
        world.enqueue_all("prove.effect", 20, priority=1, payload={"seconds": 0.1})
        [low] = world.enqueue_all("prove.effect", 1, priority=3)
        begun = time.monotonic()
        while not world.effects(low) and time.monotonic() - begun < 60:
            # Always more fresh urgent work than the slots can take.
            world.enqueue_all("prove.effect", 10, priority=1, payload={"seconds": 0.1})
            time.sleep(0.2)
        waited = world.one(
            "SELECT at - due_at FROM effect JOIN jobs_job ON id = job_id WHERE job_id = %s", low
        ).total_seconds()
        ahead = world.one(
            "SELECT count(*) FROM effect WHERE n < (SELECT n FROM effect WHERE job_id = %s)", low
        )
        assert worker.stop() == 0

    assert ahead >= 20  # it did wait its turn
    # What was due before the low job had aged comes first as well, and that keeps growing; but
    # nothing that came 4.8 s later than it does.
    assert not world.rows(
        "SELECT e.job_id FROM effect e JOIN jobs_job j ON j.id = e.job_id,"
        " (SELECT n, due_at FROM effect JOIN jobs_job ON id = job_id WHERE job_id = %s) low"
        " WHERE e.n < low.n - 4 AND j.due_at > low.due_at + interval '6 seconds'",
        low,
    )
    assert waited > 1


def test_without_aging_the_order_is_strictly_that_of_priorities(world: World) -> None:
    low = world.enqueue_all("prove.effect", 5, priority=3, due_at="2020-01-01")
    high = world.enqueue_all("prove.effect", 5, priority=1)
    with runworker(world.url, "--concurrency", "1", "--burst", COPPICE_AGING_MINUTES="0") as worker:
        assert worker.ended() == 0

    order = [str(row[0]) for row in world.rows("SELECT job_id FROM effect ORDER BY n")]
    assert set(order[:5]) == set(high)
    assert set(order[5:]) == set(low)


def test_an_urgent_job_waits_for_at_most_one_slot(world: World) -> None:
    with runworker(world.url, "--concurrency", "2") as worker:
        worker.wait_for("worker.ready")
        world.enqueue_all("prove.effect", 40, priority=3, payload={"seconds": 0.3})
        eventually(lambda: world.effect_count() >= 4, "the low ones run")
        before = world.effect_count()
        [urgent] = world.enqueue_all("prove.effect", 1, priority=1)
        eventually(lambda: world.effects(urgent) == 1, "the urgent one runs")
        place = world.one("SELECT n FROM effect WHERE job_id = %s", urgent)
        ahead = world.one("SELECT count(*) FROM effect WHERE n < %s", place) - before
        assert worker.stop() == 0

    # Those that were running, and what was started until the next poll.
    assert ahead <= 10
    assert world.unfinished() > 10
