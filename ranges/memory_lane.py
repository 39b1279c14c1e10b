"""What one lane of a run in memory does, whoever runs it: a thread, or a task of an event loop.

A generator of what takes time, a leaf, a wait, a question; so both share every decision.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from jobs.texts import describe_error
from ranges.frontier import Tail, Theft
from ranges.leaf_range import HandBack, LeafRange
from ranges.memory_context import MemoryContext
from ranges.retrying import most_open_bisects
from ranges.states import NodeState, RunStatus
from ranges.strands import Node
from ranges.walking import Step

if TYPE_CHECKING:
    from ranges.memory import MemoryRun

LEAST_TO_STEAL_SECONDS = 0.005
IDLE_SECONDS = 0.05
LONGEST_IDLE_SECONDS = 5.0


class Wait:
    """The lane has nothing to do before something changes, or so many seconds pass."""

    __slots__ = ("seconds", "seen")

    def __init__(self, seconds: float, seen: int) -> None:
        self.seconds = seconds
        self.seen = seen


class Idle:
    """The lane may take one of these tails; if none is worth it, it waits."""

    __slots__ = ("tails", "wait")

    def __init__(self, tails: list[Tail], wait: Wait) -> None:
        self.tails = tails
        self.wait = wait


class Ask:
    """A question that may block, so an event loop must not wait for it."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[[], Any]) -> None:
        self.call = call


type Wish = MemoryContext | Wait | Ask
type Steps = Generator[Wish, Any, None]


class MemoryLane:
    def __init__(self, run: MemoryRun, index: int) -> None:
        self.index = index
        self._run = run
        self._frontier = run.frontier
        self._mishaps = run.mishaps
        self._tiles = run.tiles
        self._source = run.source
        self._is_plain = not run.is_async and not run.source.counts_rows
        # An event loop must not wait for a database.
        self._offload = run.is_async and (run.job.asks() or run.source.counts_rows)

    def steps(self) -> Steps:
        """What the lane does, until it leaves."""
        while True:
            taken = self._take()
            if taken is None:
                return
            if isinstance(taken, Wait):
                yield taken
                continue
            if isinstance(taken, Idle):
                theft = yield from self._asked(partial(self._victim, taken.tails))
                if theft is None:
                    yield taken.wait
                    continue
                stolen = self._steal(theft)
                if stolen is None:
                    continue
                taken = stolen
            claim = taken.claims
            try:
                yield from self._work(taken, claim)
            finally:
                with self._run.lock:
                    self._frontier.release(taken, claim)
                    self._run.ring()

    def _take(self) -> Node | Idle | Wait | None:
        """What this lane does next: a node, perhaps a theft, or nothing for a while; None: leave."""
        frontier, tiles = self._frontier, self._tiles
        with self._run.lock:
            if self._run.must_leave(self.index) or not tiles.open:
                return None
            now = time.monotonic()
            node, next_at = frontier.due(now)
            if node is None:
                longest = LONGEST_IDLE_SECONDS
                if frontier.has_running_strand():
                    longest = IDLE_SECONDS
                wait = Wait(min(longest, max(next_at - now, 0.0)), self._run.version)
                if tiles.open_bisects < most_open_bisects(tiles.concurrency):
                    tails = frontier.tails()
                    if tails:
                        return Idle(tails, wait)
                return wait
            events = frontier.claim(node)
        self._run.tell(events)
        return node

    def _work(self, node: Node, claim: int) -> Steps:
        """Leaf after leaf, until the node has ended or must be given back."""
        while not self._run.must_leave(self.index) and node.is_held(claim):
            try:
                if self._is_plain and not node.is_whole:
                    leaf, items = self._reserve(node, node.walker.next(node.cur, node.hi))
                else:
                    leaf, items = yield from self._find(node)
            except Exception as error:  # noqa: BLE001 - nothing is known, so nothing is skipped
                self._stumbled(node, error)
                return
            if leaf is None:
                continue
            context = MemoryContext(self._run, node, leaf, self.index)
            outcome = yield context
            self._settle(context, items, *outcome)

    def _find(self, node: Node) -> Generator[Wish, Any, tuple[LeafRange | None, int | None]]:
        """The node's next leaf, reserved, and its rows if they are known; None: it was a skip."""
        if node.is_whole:
            step = Step(node.cur, node.hi)
        else:
            step = yield from self._asked(partial(node.walker.next, node.cur, node.hi))
        leaf, items = self._reserve(node, step)
        if leaf is not None and items is None and self._source.counts_rows:
            items = yield from self._asked(leaf.queryset.count)
        return leaf, items

    def _asked[T](self, call: Callable[[], T]) -> Generator[Wish, Any, T]:
        if self._offload:
            return cast("T", (yield Ask(call)))
        return call()

    def _reserve(self, node: Node, step: Step) -> tuple[LeafRange | None, int | None]:
        with self._run.lock:
            leaf, items, events = self._frontier.reserve(node, step)
            if leaf is None:
                self._run.ring()
        if events:
            self._run.tell(events)
        return leaf, items

    def _settle(
        self,
        context: MemoryContext,
        items: int | None,
        error: BaseException | None,
        result: Any,
        seconds: float,
    ) -> None:
        node, frontier = context.node, self._frontier
        if type(result) is int and result >= 0 and self._source.counts_rows:
            items = result
        with self._run.lock:
            if error is None:
                failed = context.failed
                events = frontier.done(node, context.leaf, items, seconds, failed)
                context.keep_results()
                if failed is not None:
                    events += self._run.check_threshold()
            elif isinstance(error, HandBack) and context.progressed:
                events = frontier.handed_back(node)
            else:
                # Who hands back without getting on would do so for ever.
                events = (
                    self._mishaps.failed(node, error, items, seconds) + self._run.check_threshold()
                )
            if node.commits <= 1 or node.state is not NodeState.RUNNING:
                self._run.ring()
            now = time.monotonic()
            if self._run.pace.is_due(now) and self._run.pace.sample(now, self._tiles):
                events += self._run.sums()
        if events:
            self._run.tell(events)

    def _stumbled(self, node: Node, error: Exception) -> None:
        with self._run.lock:
            goes_on, events = self._mishaps.stumbled(node, error)
            if not goes_on and self._run.status is RunStatus.RUNNING:
                events = self._run.pause_held(f"the walk failed: {describe_error(error)}")
            self._run.ring()
        self._run.tell(events)

    def _least_to_steal(self) -> float:
        target = self._tiles.leaf.target_seconds
        return LEAST_TO_STEAL_SECONDS if target is None else 2 * target

    def _victim(self, tails: list[Tail]) -> Theft | None:
        return self._frontier.victim(tails, time.monotonic(), self._least_to_steal())

    def _steal(self, theft: Theft) -> Node | None:
        with self._run.lock:
            thief, events = self._frontier.steal(theft, time.monotonic())
        self._run.tell(events)
        return thief
