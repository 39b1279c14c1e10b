"""Any sequence of calls: the heap, the skip list and a plain sorted list give the same answers."""

from dataclasses import dataclass
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from jobs.order import order_key
from worker.schedulers import HeapScheduler, SkipListScheduler
from worker.schedulers import heap as heap_module
from worker.schedulers import skiplist as skiplist_module

START = 1_760_000_000.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    id: str
    priority: int
    due_at: float


class SortedList:
    """The model: sorts everything whenever it is asked."""

    def __init__(self, aging_minutes: float, aging_step: float) -> None:
        self.aging_minutes = aging_minutes
        self.aging_step = aging_step
        self.jobs: dict[str, Job] = {}

    def push(self, job: Job) -> bool:
        return self.jobs.setdefault(job.id, job) is job

    def push_many(self, jobs: list[Job]) -> int:
        before = len(self.jobs)
        for job in jobs:
            self.push(job)
        return len(self.jobs) - before

    def first(self, n: int, now: float) -> list[Job]:
        def key(job: Job) -> tuple[float, float, str]:
            return order_key(
                job.priority,
                job.due_at,
                job.id,
                now,
                aging_minutes=self.aging_minutes,
                aging_step=self.aging_step,
            )

        return sorted(self.jobs.values(), key=key)[:n]

    def pop_many(self, n: int, now: float) -> list[Job]:
        return [self.jobs.pop(job.id) for job in self.first(n, now)]


# Waits on, just before and just after the moments at which scores change, and many that are equal.
WAITS = [
    *(steps * 150.0 for steps in range(-2, 30)),
    *(steps * 600.0 + nudge for steps in range(11) for nudge in (-2e-7, 2e-7)),
]
waits = st.one_of(st.sampled_from(WAITS), st.floats(min_value=-100, max_value=6000))
ids = st.integers(min_value=0, max_value=200).map(str)
priorities = st.sampled_from([1, 2, 3, 8])
seeds = st.integers(min_value=0, max_value=2**32)


class SchedulersAgree(RuleBasedStateMachine):
    @initialize(
        aging=st.sampled_from([(10.0, 0.5), (10.0, 0.5), (2.5, 0.3), (0.0, 0.5), (10.0, 0.0)]),
        seed=seeds,
    )
    def start(self, aging: tuple[float, float], seed: int) -> None:
        minutes, step = aging
        self.now = START
        self.model = SortedList(minutes, step)
        self.heap: HeapScheduler[Job] = HeapScheduler(aging_minutes=minutes, aging_step=step)
        self.skiplist: SkipListScheduler[Job] = SkipListScheduler(
            aging_minutes=minutes, aging_step=step, random=Random(seed)
        )

    def job(self, job_id: str, priority: int, wait: float) -> Job:
        return Job(id=job_id, priority=priority, due_at=self.now - wait)

    @rule(job_id=ids, priority=priorities, wait=waits)
    def push(self, job_id: str, priority: int, wait: float) -> None:
        job = self.job(job_id, priority, wait)
        taken = self.model.push(job)
        assert self.heap.push(job) == taken
        assert self.skiplist.push(job) == taken

    @rule(size=st.integers(min_value=0, max_value=120), seed=seeds, rivals=st.booleans())
    def push_many(self, size: int, seed: int, rivals: bool) -> None:
        """Push jobs of any age, or such that their scores, whatever the priority, are close."""
        random = Random(seed)
        jobs = []
        for _ in range(size):
            priority = random.choice((1, 2, 3, 8))
            wait = random.choice(WAITS)
            if rivals:
                wait = (priority - 1) * 1200.0 + wait / 4
            jobs.append(self.job(str(random.randrange(200)), priority, wait))
        taken = self.model.push_many(jobs)
        assert self.heap.push_many(iter(jobs)) == taken
        assert self.skiplist.push_many(iter(jobs)) == taken

    @rule(
        n=st.integers(min_value=1, max_value=20),
        seconds=st.sampled_from([0.0, 0.0, 0.001, 20.0, 75.0, 150.0, 600.0, -75.0]),
    )
    def pop_while_time_moves(self, n: int, seconds: float) -> None:
        for _ in range(n):
            first = next(iter(self.model.pop_many(1, self.now)), None)
            assert self.heap.pop(self.now) == first
            assert self.skiplist.pop(self.now) == first
            self.now += seconds

    @rule(n=st.sampled_from([-1, 0, 1, 2, 5, 16, 50, 1000]))
    def pop_many(self, n: int) -> None:
        first = self.model.pop_many(max(n, 0), self.now)
        assert self.heap.pop_many(n, self.now) == first
        assert self.skiplist.pop_many(n, self.now) == first

    @rule()
    def peek(self) -> None:
        first = next(iter(self.model.first(1, self.now)), None)
        assert self.heap.peek(self.now) == first
        assert self.skiplist.peek(self.now) == first

    @rule(size=st.integers(min_value=1, max_value=60), seed=seeds)
    def discard_some(self, size: int, seed: int) -> None:
        held = sorted(self.model.jobs)
        for job_id in Random(seed).sample(held, min(size, len(held))):
            self.discard(job_id)

    @rule(job_id=ids)
    def discard(self, job_id: str) -> None:
        job = self.model.jobs.pop(job_id, None)
        assert self.heap.discard(job_id) == job
        assert self.skiplist.discard(job_id) == job

    @rule(job_id=ids, wait=waits)
    def discard_and_push_again(self, job_id: str, wait: float) -> None:
        old = self.model.jobs.get(job_id)
        if old is not None:
            self.discard(job_id)
            self.push(job_id, old.priority, self.now - old.due_at)
            self.discard(job_id)
            self.push(job_id, old.priority, wait)

    @rule(
        seconds=st.one_of(
            st.sampled_from([0.0, 1e-6, 0.02, 150.0, 600.0, 3600.0]),
            st.floats(min_value=-30, max_value=4000),
        )
    )
    def time_moves(self, seconds: float) -> None:
        self.now += seconds

    @rule(job_id=ids)
    def contains(self, job_id: str) -> None:
        assert (job_id in self.heap) == (job_id in self.skiplist) == (job_id in self.model.jobs)

    @invariant()
    def each_structure_is_sound(self) -> None:
        if hasattr(self, "model"):
            assert len(self.heap) == len(self.skiplist) == len(self.model.jobs)
            self.heap.check()
            self.skiplist.check()


class SmallNodesAgree(SchedulersAgree):
    """The same with small limits, so that nodes split and dead items are swept all the time."""

    @initialize()
    def shrink(self) -> None:
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(skiplist_module, "CAPACITY", 3)
        self.patch.setattr(heap_module, "FEW_DEAD", 2)

    def teardown(self) -> None:
        if hasattr(self, "patch"):
            self.patch.undo()


for machine in (SchedulersAgree, SmallNodesAgree):
    machine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)

TestSchedulersAgree = SchedulersAgree.TestCase
TestSmallNodesAgree = SmallNodesAgree.TestCase
