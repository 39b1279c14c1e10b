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
        self.aging = aging_minutes, aging_step
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
            return order_key(job.priority, job.due_at, job.id, now, *self.aging)

        return sorted(self.jobs.values(), key=key)[:n]

    def pop_many(self, n: int, now: float) -> list[Job]:
        return [self.jobs.pop(job.id) for job in self.first(n, now)]


# Waits on, just before and just after the moments at which scores change, and many that are equal.
waits = st.one_of(
    st.integers(min_value=-2, max_value=30).map(lambda steps: steps * 150.0),
    st.integers(min_value=0, max_value=10).map(lambda steps: steps * 600.0 - 2e-7),
    st.integers(min_value=0, max_value=10).map(lambda steps: steps * 600.0 + 2e-7),
    st.floats(min_value=-100, max_value=6000),
)
ids = st.integers(min_value=0, max_value=60).map(str)
priorities = st.sampled_from([1, 2, 3, 3, 3, 8])


class SchedulersAgree(RuleBasedStateMachine):
    @initialize(
        aging=st.sampled_from([(10.0, 0.5), (10.0, 0.5), (2.5, 0.3), (0.0, 0.5), (10.0, 0.0)]),
        seed=st.integers(min_value=0, max_value=1000),
    )
    def start(self, aging: tuple[float, float], seed: int) -> None:
        minutes, step = aging
        self.now = START
        self.model = SortedList(minutes, step)
        self.heap: HeapScheduler[Job] = HeapScheduler(aging_minutes=minutes, aging_step=step)
        self.skiplist: SkipListScheduler[Job] = SkipListScheduler(
            aging_minutes=minutes, aging_step=step, random=Random(seed)
        )

    def job(self, id: str, priority: int, wait: float) -> Job:
        return Job(id=id, priority=priority, due_at=self.now - wait)

    @rule(id=ids, priority=priorities, wait=waits)
    def push(self, id: str, priority: int, wait: float) -> None:
        job = self.job(id, priority, wait)
        taken = self.model.push(job)
        assert self.heap.push(job) == taken
        assert self.skiplist.push(job) == taken

    @rule(specs=st.lists(st.tuples(ids, priorities, waits), max_size=40))
    def push_many(self, specs: list[tuple[str, int, float]]) -> None:
        jobs = [self.job(*spec) for spec in specs]
        taken = self.model.push_many(jobs)
        assert self.heap.push_many(iter(jobs)) == taken
        assert self.skiplist.push_many(iter(jobs)) == taken

    @rule(n=st.integers(min_value=1, max_value=6))
    def pop(self, n: int) -> None:
        for _ in range(n):
            first = next(iter(self.model.pop_many(1, self.now)), None)
            assert self.heap.pop(self.now) == first
            assert self.skiplist.pop(self.now) == first

    @rule(n=st.integers(min_value=-1, max_value=70))
    def pop_many(self, n: int) -> None:
        first = self.model.pop_many(max(n, 0), self.now)
        assert self.heap.pop_many(n, self.now) == first
        assert self.skiplist.pop_many(n, self.now) == first

    @rule()
    def peek(self) -> None:
        first = next(iter(self.model.first(1, self.now)), None)
        assert self.heap.peek(self.now) == first
        assert self.skiplist.peek(self.now) == first

    @rule(id=ids)
    def discard(self, id: str) -> None:
        job = self.model.jobs.pop(id, None)
        assert self.heap.discard(id) == job
        assert self.skiplist.discard(id) == job

    @rule(id=ids, wait=waits)
    def discard_and_push_again(self, id: str, wait: float) -> None:
        old = self.model.jobs.get(id)
        if old is not None:
            self.discard(id)
            self.push(id, old.priority, self.now - old.due_at)
            self.discard(id)
            self.push(id, old.priority, wait)

    @rule(
        seconds=st.one_of(
            st.sampled_from([0.0, 1e-6, 0.02, 150.0, 600.0, 3600.0]),
            st.floats(min_value=-30, max_value=4000),
        )
    )
    def time_moves(self, seconds: float) -> None:
        self.now += seconds

    @rule(id=ids)
    def contains(self, id: str) -> None:
        assert (id in self.heap) == (id in self.skiplist) == (id in self.model.jobs)

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
