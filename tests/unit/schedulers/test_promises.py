"""What both schedulers promise, case by case; `test_agreement` looks for what is missing here."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

from worker.schedulers import SCHEDULERS, Scheduler

NOW = 1_760_000_000.0
MINUTE = 60.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    id: str
    priority: int = 2
    due_at: float = NOW


type MakeScheduler = Callable[..., Scheduler[Job]]


@pytest.fixture(params=sorted(SCHEDULERS))
def make_scheduler(request: pytest.FixtureRequest) -> MakeScheduler:
    make: MakeScheduler = SCHEDULERS[request.param]
    return make


@pytest.fixture
def scheduler(make_scheduler: MakeScheduler) -> Scheduler[Job]:
    return make_scheduler()


def ids(jobs: list[Job]) -> str:
    return " ".join(job.id for job in jobs)


def check(scheduler: Any) -> None:
    scheduler.check()


def test_an_empty_scheduler_gives_nothing(scheduler: Scheduler[Job]) -> None:
    assert scheduler.pop(NOW) is None
    assert scheduler.peek(NOW) is None
    assert scheduler.pop_many(5, NOW) == []
    assert scheduler.discard("a") is None
    assert len(scheduler) == 0


def test_a_job_is_held_once(scheduler: Scheduler[Job]) -> None:
    first = Job(id="a", priority=3)

    assert scheduler.push(first)
    assert not scheduler.push(Job(id="a", priority=1))
    assert scheduler.push_many([Job(id="a"), Job(id="b"), Job(id="b", priority=1)]) == 1

    assert ids(scheduler.pop_many(9, NOW)) == "b a"


def test_a_job_that_was_popped_may_come_again(scheduler: Scheduler[Job]) -> None:
    scheduler.push(Job(id="a"))
    scheduler.pop(NOW)

    assert "a" not in scheduler
    assert scheduler.push(Job(id="a"))


@pytest.mark.parametrize("low_first", [True, False])
def test_a_waiting_low_job_overtakes_fresh_high_ones_the_moment_its_score_equals_theirs(
    scheduler: Scheduler[Job], low_first: bool
) -> None:
    low = Job(id="low", priority=3, due_at=NOW - 39 * MINUTE)
    high = [Job(id=f"high{i}", priority=1, due_at=NOW + i) for i in range(5)]
    scheduler.push_many([low, *high] if low_first else [*high, low])

    popped = [scheduler.pop(NOW + seconds) for seconds in (0, 59.9, 60, 60)]

    assert ids([job for job in popped if job]) == "high0 high1 low high2"


def test_the_order_follows_a_clock_that_is_set_back(scheduler: Scheduler[Job]) -> None:
    low = [Job(id=f"low{i}", priority=3, due_at=NOW - 41 * MINUTE + i) for i in range(3)]
    scheduler.push_many([*low, Job(id="high", priority=1, due_at=NOW)])

    popped = [scheduler.pop(NOW), scheduler.pop(NOW - 2 * MINUTE)]

    assert ids([job for job in popped if job]) == "low0 high"


def test_a_late_push_of_an_older_or_more_urgent_job_comes_first(
    scheduler: Scheduler[Job],
) -> None:
    scheduler.push_many([Job(id=f"m{i}", due_at=NOW - 5 + i) for i in range(3)])
    order = [scheduler.pop(NOW)]
    scheduler.push(Job(id="older", due_at=NOW - 9))
    order.append(scheduler.pop(NOW))
    scheduler.push(Job(id="urgent", priority=1))
    order.append(scheduler.pop(NOW))

    assert ids([job for job in order if job]) == "m0 older urgent"


def test_under_a_constant_stream_of_high_jobs_a_low_one_starts_after_forty_minutes(
    scheduler: Scheduler[Job],
) -> None:
    scheduler.push(Job(id="low", priority=3, due_at=NOW))
    scheduler.push(Job(id="backlog", priority=1, due_at=NOW))

    for second in range(1, 3600):
        scheduler.push(Job(id=f"high{second}", priority=1, due_at=NOW + second))
        job = scheduler.pop(NOW + second)
        if job and job.id == "low":
            break

    assert second == 40 * 60


def test_without_aging_a_high_job_always_comes_first(make_scheduler: MakeScheduler) -> None:
    scheduler = make_scheduler(aging_minutes=0)
    scheduler.push_many([Job(id="low", priority=3, due_at=0.0), Job(id="high", priority=1)])

    assert ids(scheduler.pop_many(2, NOW)) == "high low"


def test_a_discarded_job_may_come_again_with_another_place(scheduler: Scheduler[Job]) -> None:
    scheduler.push_many([Job(id=i, due_at=NOW + n) for n, i in enumerate("abcd")])

    discarded = scheduler.discard("c")
    scheduler.push(Job(id="c", due_at=NOW - 1))

    assert discarded == Job(id="c", due_at=NOW + 2)
    assert ids(scheduler.pop_many(9, NOW)) == "c a b d"


def test_many_at_once_are_the_same_as_one_by_one(make_scheduler: MakeScheduler) -> None:
    random = Random(7)
    jobs = [
        Job(id=str(i), priority=random.randint(1, 3), due_at=NOW - 10 * random.randrange(400) * 1.5)
        for i in range(3000)
    ]
    single, bulk = make_scheduler(), make_scheduler()
    for job in jobs:
        single.push(job)
    bulk.push_many(jobs[:2000])
    bulk.push_many(jobs[2000:2050])
    bulk.push_many(jobs[2050:])

    one_by_one = [single.pop(NOW) for _ in jobs]
    at_once = [job for n in (1, 16, 500, 1000, 9999) for job in bulk.pop_many(n, NOW)]

    assert one_by_one == at_once
    assert len(single) == len(bulk) == 0


def test_discarding_leaves_no_growing_rest(scheduler: Scheduler[Job]) -> None:
    scheduler.push_many([Job(id=f"stays{i}", due_at=NOW + i * 100) for i in range(100)])

    for n in range(20_000):
        scheduler.push(Job(id=f"goes{n}", due_at=NOW + n % 10_000))
        scheduler.discard(f"goes{n}")

    check(scheduler)
    assert len(scheduler) == 100
