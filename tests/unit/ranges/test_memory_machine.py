"""Lanes are driven by hand, in any order, with any outcome; the books must balance at every step.

In the suite some dozens of sequences; ten thousand of two hundred steps:

COPPICE_PROPERTY_EXAMPLES=50000 COPPICE_PROPERTY_STEPS=200 pytest tests/unit/ranges/test_memory_machine.py
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ranges import (
    Block,
    IntRange,
    Leaf,
    LeafRange,
    MemoryRun,
    RangeJob,
    RetryPolicy,
    fixed,
    frontier,
    memory_lane,
    mishaps,
)
from ranges.memory_context import MemoryContext
from ranges.states import ENDED, NodeState, RunStatus

EXAMPLES = int(os.environ.get("COPPICE_PROPERTY_EXAMPLES", "300"))
STEPS = int(os.environ.get("COPPICE_PROPERTY_STEPS", "50"))
WIDTH = 300


class Lanes(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(memory_lane, "LEAST_TO_STEAL_SECONDS", 0.0)
        self.patch.setattr(mishaps, "transient_seconds", lambda tries, random: 0.0)
        self.patch.setattr(frontier, "cool_down_seconds", lambda thefts: 0.0)
        self.lanes: dict[int, Any] = {}
        self.wishes: dict[int, Any] = {}
        self.done: Counter[int] = Counter()
        self.skipped: set[int] = set()
        self.bad: set[int] = set()

    @initialize(
        size=st.integers(1, 80),
        lanes=st.integers(1, 5),
        attempts=st.integers(1, 3),
        bad=st.sets(st.integers(0, WIDTH - 1), max_size=6),
        skip=st.sets(st.integers(0, 9), max_size=9),
        bisect=st.booleans(),
    )
    def begin(
        self, size: int, lanes: int, attempts: int, bad: set[int], skip: set[int], bisect: bool
    ) -> None:
        class Job(RangeJob):
            over = IntRange(0, WIDTH)
            leaf = Leaf(max_size=size)
            concurrency = lanes
            atomic = False
            failure_threshold = None
            retry = RetryPolicy(max_attempts=attempts, backoff=fixed(0), bisect=bisect)

            def process(self, leaf: LeafRange, context: Any) -> None: ...

        def ask(lo: int, hi: int, node: Block) -> bool:
            return not all(key // 30 in skip for key in range(lo, hi))

        job = Job()
        if skip:
            self.patch.setattr(Job, "should_process", staticmethod(ask), raising=False)
        self.skipped = {key for key in range(WIDTH) if key // 30 in skip} if skip else set()
        self.bisect = bisect
        self.bad = bad
        self.run = MemoryRun(job, Job.options())
        self.patch.setattr(self.run._crew, "start", self.man)
        self.run.start()

    def man(self, missing: Sequence[int]) -> None:
        for index in missing:
            assert index not in self.lanes
            self.lanes[index] = memory_lane.MemoryLane(self.run, index).steps()
            self.wishes[index] = None

    def move(self, index: int, answer: Any) -> None:
        try:
            self.wishes[index] = self.lanes[index].send(answer)
        except StopIteration:
            self.dismiss(index)

    def dismiss(self, index: int) -> None:
        del self.lanes[index]
        self.run.leave(index)

    @precondition(lambda self: self.lanes)
    @rule(
        data=st.data(),
        luck=st.sampled_from(["good", "good", "good", "transient", "failed", "part"]),
    )
    def work(self, data: st.DataObject, luck: str) -> None:
        index = data.draw(st.sampled_from(sorted(self.lanes)))
        wish = self.wishes[index]
        if not isinstance(wish, MemoryContext):
            self.move(index, None)
            return
        if luck == "part" and wish.leaf.hi - wish.leaf.lo > 1:
            upto = data.draw(st.integers(wish.leaf.lo + 1, wish.leaf.hi - 1))
            cur = cast(int, wish.node.cur)
            if not self.bad & set(range(cur, upto)) and upto > cur:
                self.done.update(range(cur, upto))
                wish.checkpoint(upto)
            return
        self.finish(index, wish, luck)

    def finish(self, index: int, wish: MemoryContext, luck: str) -> None:
        rest = range(cast(int, wish.node.cur), wish.leaf.hi)
        error: Exception | None = None
        if luck == "transient":
            error = ConnectionError("it passes")
        elif self.bad & set(rest):
            error = ValueError("a bad key")
        else:
            self.done.update(rest)
        self.move(index, (error, None, 0.001))

    @precondition(lambda self: self.lanes)
    @rule(data=st.data())
    def lose_a_lane(self, data: st.DataObject) -> None:
        """Its leaf was not done, and another lane takes its node."""
        index = data.draw(st.sampled_from(sorted(self.lanes)))
        self.lanes[index].close()
        self.dismiss(index)
        self.man(self.run._missing() if self.run.status is RunStatus.RUNNING else [])

    @precondition(lambda self: self.run.status is RunStatus.RUNNING)
    @rule()
    def pause(self) -> None:
        self.run.pause()

    @precondition(lambda self: self.run.status is RunStatus.PAUSED)
    @rule()
    def resume(self) -> None:
        self.run.resume()

    @precondition(lambda self: self.run.status not in ENDED)
    @rule(concurrency=st.integers(1, 6))
    def retune(self, concurrency: int) -> None:
        self.run.retune(concurrency=concurrency)

    @rule(depth=st.integers(0, 4))
    def look_at_the_tree(self, depth: int) -> None:
        tree = self.run.tree(depth)
        assert tree["processed"] + tree["skipped"] + tree["failed"] + tree["left"] == WIDTH

    @invariant()
    def the_books_balance(self) -> None:
        if not hasattr(self, "run"):
            return
        assert self.run.verify()
        at_work = [
            w.node.id
            for i, w in self.wishes.items()
            if i in self.lanes and isinstance(w, MemoryContext)
        ]
        assert len(at_work) == len(set(at_work))
        running = {node.id for node in self.run.nodes if node.state is NodeState.RUNNING}
        assert set(at_work) <= running
        assert not [key for key, times in self.done.items() if times > 1]
        statistics = self.run.statistics()
        assert (
            statistics.total
            == WIDTH
            == (statistics.processed + statistics.skipped + statistics.failed + statistics.left)
        )

    def teardown(self) -> None:
        try:
            if hasattr(self, "run"):
                self.come_to_an_end()
        finally:
            self.patch.undo()

    def come_to_an_end(self) -> None:
        if self.run.status is RunStatus.PAUSED:
            self.run.resume()
        for _ in range(20_000):
            if not self.lanes:
                break
            for index in sorted(self.lanes):
                wish = self.wishes[index]
                if isinstance(wish, MemoryContext):
                    self.finish(index, wish, "good")
                else:
                    self.move(index, None)
        assert self.run.status in ENDED
        failed = {
            key
            for failure in self.run.failures
            for key in range(failure.key, failure.key + 1 if failure.upto is None else failure.upto)
        }
        worked = set(self.done)
        assert not worked & failed
        assert worked | failed | self.skipped == set(range(WIDTH))
        assert self.bad - self.skipped <= failed
        if self.bisect and not self.transient_failures():
            assert failed <= self.bad
        assert self.run.statistics().left == 0

    def transient_failures(self) -> bool:
        """Transient errors without end count as real ones, so good keys may fail too."""
        return any("it passes" in failure.error for failure in self.run.failures)


Lanes.TestCase.settings = settings(
    max_examples=max(20, EXAMPLES // 5),
    stateful_step_count=STEPS,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestLanes = Lanes.TestCase
