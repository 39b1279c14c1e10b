"""The nodes of one run in memory, and everything that may happen to them.

1. The nodes tile the run: whatever replaces a node has the same union.
2. A key is counted once: processed, skipped or failed, when a cursor passes it.
3. A leaf that fails is cut off its strand as a node of its own, so the strand goes on behind it.

No thread, no lock, no user code: whoever calls holds the run's lock, and tells the events that are
returned when the lock is free again.
"""

from __future__ import annotations

import time
import traceback
from collections import deque
from itertools import count
from random import Random
from typing import Any, cast

from jobs.events import Event, heard
from ranges.bounding import least_leaf
from ranges.cells import Cells
from ranges.declaring import RangeJob
from ranges.leaf_range import HandBack, LeafRange
from ranges.options import Options
from ranges.positions import Position, before, end_key, key_at, width
from ranges.reports import Durations, FailedTry, Failure
from ranges.retrying import TRANSIENT_TRIES, crossed, most_open_bisects, transient_seconds
from ranges.sizing import LeafSizer
from ranges.sources import Source
from ranges.splitting import Victim, cool_down_seconds, halve, start_pieces
from ranges.states import (
    CELL_FAILED,
    CELL_PROCESSED,
    CELL_SKIPPED,
    CELLS,
    NodeKind,
    NodeState,
)
from ranges.strands import Node, ended_state
from ranges.walking import Step, Walker

HISTORY = 10_000
"""So many failed tries are remembered, the newest."""

type BadKeys = list[tuple[Position, str]]


class Frontier:
    def __init__(
        self,
        run_id: str,
        job: RangeJob,
        options: Options,
        source: Source,
        bounds: tuple[Position, Position],
    ) -> None:
        self.run_id = run_id
        self.job = job
        self.options = options
        self.source = source
        self.bounds = bounds
        self.concurrency = options.concurrency
        self.leaf = options.leaf.on(source.axis)
        self.least = 1

        self.nodes: list[Node] = []
        self.open: dict[int, Node] = {}
        """Those that have something left."""
        self.open_bisects = 0
        self.failures: list[Failure] = []
        self.history: deque[FailedTry] = deque(maxlen=HISTORY)

        self.total = width(source.axis, *bounds)
        self.grid = Cells(source.axis, *bounds)
        self.cells = bytearray(CELLS)
        self.durations = Durations()
        self.attempts = 0
        self.retries = 0
        self.items_ok = 0
        self.items_failed = 0
        self.questions = 0
        self.prune_errors = 0
        self.probe_timeouts = 0

        self._planned = False
        self._ids = count(1)
        self._forgiven = (0, 0)
        self._ordinal = source.axis.is_ordinal
        self._random = Random().random
        self._seconds_per_item: float | None = None

    # The start

    def pieces(self) -> list[tuple[Position, Position]]:
        """Where to cut at the start. May ask the database, so it is asked without the lock."""
        if not before(*self.bounds):
            return []
        self.least = least_leaf(self.source, self.bounds, self.options.max_depth)
        size = LeafSizer(self.leaf, least=self.least).size()
        return start_pieces(self.source, *self.bounds, concurrency=self.concurrency, leaf_size=size)

    def plan(self, pieces: list[tuple[Position, Position]]) -> list[Event]:
        events: list[Event] = []
        for lo, hi in pieces:
            node = self._node(NodeKind.STRAND, lo, hi, None)
            self.open[node.id] = node
            events += self.facts("node.created", node)
        if len(pieces) > 1:
            lo, hi = self.bounds
            events += self.facts("node.split", lo=lo, hi=hi, parts=len(pieces))
        self._planned = True
        return events

    def forgive(self) -> None:
        """Failures so far no longer count for the threshold."""
        self._forgiven = (self.items_failed, self.items_ok + self.items_failed)

    def has_crossed(self) -> bool:
        """Whether too large a share failed of what was attempted since it was last forgiven."""
        failed = self.items_failed - self._forgiven[0]
        attempted = self.items_ok + self.items_failed - self._forgiven[1]
        return crossed(failed=failed, attempted=attempted, threshold=self.options.failure_threshold)

    # What to do next

    def due(self, now: float) -> tuple[Node | None, float]:
        """The next pending node that is due, failed leaves first; and when the next one is."""
        earliest = float("inf")
        strand: Node | None = None
        for node in self.open.values():
            if node.state is not NodeState.PENDING:
                continue
            if node.next_at > now:
                earliest = min(earliest, node.next_at)
            elif node.is_whole:
                return node, earliest
            elif strand is None:
                strand = node
        if self.open_bisects >= most_open_bisects(self.concurrency):
            strand = None
        return strand, earliest

    def claim(self, node: Node) -> list[Event]:
        node.state = NodeState.RUNNING
        node.commits = 0
        if node.started:
            return []
        node.started = True
        return self.facts("node.started", node)

    def release(self, node: Node) -> None:
        """A lane gives the node back with its cursor; the leaf at work was not done."""
        if node.state is NodeState.RUNNING:
            node.state = NodeState.PENDING
            node.resv = node.cur

    def has_running_strand(self) -> bool:
        return any(
            node.state is NodeState.RUNNING and not node.is_whole for node in self.open.values()
        )

    def reserve(self, node: Node, step: Step) -> tuple[LeafRange | None, int | None, list[Event]]:
        """Take the step, as far as no thief was faster. Without a leaf it was a skip."""
        lo, hi, items = step
        end = node.hi
        leaf: LeafRange | None = None
        events: list[Event] = []
        if lo is None or not before(lo, end):
            events = self._skip(node, hi if lo is None and before(hi, end) else end)
        else:
            if lo != node.cur:
                events = self._skip(node, lo)
            if before(end, hi):
                hi, items = end, None
            node.resv = hi
            leaf = LeafRange(self.source, lo, hi)
        if node.walker.has_tally:
            self._count_tally(node.walker)
        return leaf, items, events

    # Stealing

    def victims(self) -> list[Victim]:
        return [
            Victim(
                id=node.id,
                left=self.source.estimate(node.resv, node.hi),
                leaf_size=node.sizer.size(),
                seconds_per_item=node.sizer.seconds_per_item,
                commits=node.commits,
                cool_until=node.cool_until,
            )
            for node in self.open.values()
            if node.state is NodeState.RUNNING and not node.is_whole and before(node.resv, node.hi)
        ]

    def steal(
        self, victim: Victim, cut: Position | None, now: float
    ) -> tuple[Node | None, list[Event]]:
        """Take the tail of a strand, if its lane has not got there meanwhile."""
        node = self.open.get(victim.id)
        if node is None or node.is_whole or node.state is not NodeState.RUNNING:
            return None, []
        node.thefts += 1
        node.cool_until = now + cool_down_seconds(node.thefts)
        if cut is None or not before(node.resv, cut) or not before(cut, node.hi):
            return None, []
        thief = self._node(NodeKind.STRAND, cut, node.hi, node)
        node.hi = cut
        self.open[thief.id] = thief
        events = self.facts("node.stolen", node, cut=cut, by=thief.id)
        events += self.facts("node.created", thief)
        return thief, events + self.claim(thief)

    # What became of a leaf

    def done(
        self,
        node: Node,
        leaf: LeafRange,
        items: int | None,
        seconds: float,
        failed: BadKeys | None,
    ) -> list[Event]:
        """`items`: rows, if the source counts rows; None: as many as the leaf is wide."""
        events: list[Event] = []
        lo, hi = leaf.start, leaf.end
        self.attempts += 1
        self.durations.add(seconds)
        count = width(self.source.axis, lo, hi) if items is None else items
        node.sizer.observe(count, seconds)
        node.commits += 1
        node.transient_tries = 0
        node.leaves += 1
        if failed is None and not self.source.counts_rows and node.cur == lo:
            # The usual leaf, in as few steps as can be.
            node.rows_ok += count
            node.width_ok += count
            self.items_ok += count
            node.cur = hi
        else:
            if not self.source.counts_rows:
                count = width(self.source.axis, node.cur, hi)
            events = self.pass_over(node, hi, count, failed or [])
        if heard("leaf.completed"):
            events += self.facts("leaf.completed", node, lo=lo, hi=hi, seconds=seconds)
        if not before(node.cur, node.hi):
            events += self._close(node)
        return events

    def pass_over(
        self,
        node: Node,
        hi: Position,
        items: int,
        failed: BadKeys,
    ) -> list[Event]:
        """[cur, hi) was done, but for single keys in it, which become nodes of their own."""
        axis = self.source.axis
        by_key = dict(failed)
        events: list[Event] = []
        for position in sorted(by_key):
            after = behind(axis, position)
            if before(node.cur, position):
                node.width_ok += width(axis, node.cur, position)
            node.cur = position
            self._cut_off(node)
            bad = self._node(NodeKind.BISECT, position, after, node)
            bad.tries = node.tries + node.attempts + 1
            bad.allowed = self.options.retry.max_attempts
            node.lo = node.cur = node.resv = node.drawn = after
            events += self._record(bad, by_key[position], "", 1)
        if before(node.cur, hi):
            node.width_ok += width(axis, node.cur, hi)
            node.cur = hi
        good = max(items - len(by_key), 0)
        node.rows_ok += good
        self.items_ok += good
        return events

    def handed_back(self, node: Node) -> list[Event]:
        """The leaf was done up to a checkpoint; the rest is for whoever takes the node next."""
        self.attempts += 1
        node.transient_tries = 0
        node.leaves += 1
        node.resv = node.cur
        if before(node.cur, node.hi):
            node.state = NodeState.PENDING
            return []
        return self._close(node)

    def failed(
        self, node: Node, error: BaseException, items: int | None, seconds: float
    ) -> list[Event]:
        policy = self.options.retry
        attempt = node.attempts + 1
        self.attempts += 1
        self.durations.add(seconds)
        node.error = said(error)
        node.traceback = "".join(traceback.format_exception(error))[-4_000:]
        events: list[Event] = []
        if heard("leaf.failed"):
            events = self.facts("leaf.failed", node, lo=node.cur, hi=node.resv, error=node.error)
        passes = isinstance(error, HandBack) or policy.is_transient(error)
        if passes and node.transient_tries < TRANSIENT_TRIES:
            node.transient_tries += 1
            wait = transient_seconds(node.transient_tries, self._random)
            self._remember(node, attempt, seconds, wait, transient=True)
            node.sizer.halve()
            node.resv = node.cur
            return events + self._back_off(node, wait)
        node.transient_tries = 0
        failing = node
        if not node.is_whole:
            failing, created = self._peel(node)
            events += created
        failing.attempts += 1
        failing.items = items
        return events + self._after_attempt(failing, attempt, seconds)

    def stumbled(self, node: Node, error: Exception) -> tuple[bool, list[Event]]:
        """The walk itself failed: nothing is known, so nothing is skipped. False: give up."""
        node.error = said(error)
        node.transient_tries += 1
        node.resv = node.cur
        if node.transient_tries <= TRANSIENT_TRIES:
            wait = transient_seconds(node.transient_tries, self._random)
            return True, self._back_off(node, wait)
        node.state = NodeState.PENDING
        node.transient_tries = 0
        return False, []

    def reopen_failed(self) -> None:
        """Everything that failed is to be tried again."""
        for node in self.nodes:
            if node.state is NodeState.ERROR:
                self._reopen(node)
        self.failures.clear()

    def _peel(self, node: Node) -> tuple[Node, list[Event]]:
        """Make the leaf [cur, resv) a node of its own, and let the strand go on behind it."""
        lo, hi = node.cur, node.resv
        self._cut_off(node)
        failing = self._node(NodeKind.BISECT, lo, hi, node)
        failing.allowed = self.options.retry.max_attempts
        failing.error, failing.traceback = node.error, node.traceback
        failing.started = True
        self.open[failing.id] = failing
        self.open_bisects += 1
        events = self.facts("node.created", failing)
        node.lo = node.cur = node.resv = node.drawn = hi
        if not before(node.cur, node.hi):
            self._drop(node)
        elif self.open_bisects >= most_open_bisects(self.concurrency):
            node.state = NodeState.PENDING
        return failing, events

    def _after_attempt(self, node: Node, attempt: int, seconds: float) -> list[Event]:
        """A whole leaf failed once more: try again later, halve it, or record it."""
        policy = self.options.retry
        if node.attempts < node.allowed:
            wait = policy.wait_seconds(node.attempts, self._random)
            self._remember(node, attempt, seconds, wait, transient=False)
            return self._back_off(node, wait)
        self._remember(node, attempt, seconds, None, transient=False)
        if policy.bisect and len(self.failures) < policy.bisect_budget:
            cut = halve(self.source, node.cur, node.hi)
            if cut is not None:
                return self._bisect(node, cut)
        items = node.items
        if items is None:
            items = max(1, self.source.estimate(node.cur, node.hi))
        self._drop(node, keep=True)
        node.tries += node.attempts
        return self._record(node, node.error, node.traceback, items)

    def _bisect(self, node: Node, cut: Position) -> list[Event]:
        """Halves are tried once each; the node becomes the left one."""
        events = self.facts("node.bisected", node, cut=cut)
        if before(node.lo, node.cur):
            self._cut_off(node)
        right = self._node(NodeKind.BISECT, cut, node.hi, node)
        right.started = True
        right.tries = node.tries = node.tries + node.attempts
        right.error, right.traceback = node.error, node.traceback
        self.open[right.id] = right
        self.open_bisects += 1
        node.hi = cut
        node.resv = node.cur
        node.attempts, node.allowed, node.items = 0, 1, None
        node.next_at = 0.0
        node.state = NodeState.PENDING
        return events + self.facts("node.created", right)

    def _record(self, node: Node, error: str, trace: str, items: int) -> list[Event]:
        """The node's keys failed for good."""
        axis = self.source.axis
        node.width_failed = width(axis, node.cur, node.hi)
        node.rows_failed = items
        node.state = NodeState.ERROR
        is_one = node.hi == behind(axis, node.cur)
        failure = Failure(
            node_id=node.id,
            key=axis.to_json(key_at(axis, node.cur)),
            upto=None if is_one else json_end(axis, node.hi),
            items=items,
            attempts=node.tries,
            error=error,
            traceback=trace,
        )
        self.failures.append(failure)
        self.items_failed += items
        self._mark(node.cur, node.hi, CELL_FAILED)
        events = self.facts("node.failed", node, lo=node.cur, hi=node.hi, error=error, items=items)
        node.cur = node.resv = node.drawn = node.hi
        return events

    def _back_off(self, node: Node, wait: float) -> list[Event]:
        self.retries += 1
        node.next_at = time.monotonic() + wait
        node.state = NodeState.PENDING
        if not heard("node.retrying"):
            return []
        return self.facts("node.retrying", node, retry_in=wait, error=node.error)

    def _skip(self, node: Node, upto: Position) -> list[Event]:
        events: list[Event] = []
        if before(node.cur, upto):
            if heard("node.skipped"):
                events = self.facts("node.skipped", node, lo=node.cur, hi=upto)
            node.width_skipped += width(self.source.axis, node.cur, upto)
            self.draw(node)
            self._mark(node.cur, upto, CELL_SKIPPED)
            node.cur = node.resv = node.drawn = upto
        if node.cur == node.hi:
            events += self._close(node)
        return events

    # Nodes

    def _node(self, kind: NodeKind, lo: Position, hi: Position, parent: Node | None) -> Node:
        known = self._seconds_per_item if parent is None else parent.sizer.seconds_per_item
        sizer = LeafSizer(self.leaf, least=self.least, seconds_per_item=known)
        if kind is NodeKind.BISECT and parent is not None:
            walker, sizer = parent.walker, parent.sizer
        else:
            walker = self._walker(sizer)
        node = Node(next(self._ids), kind, lo, hi, walker=walker, sizer=sizer, parent=parent)
        self.nodes.append(node)
        return node

    def _walker(self, sizer: LeafSizer) -> Walker:
        return self.job.walker(self.source, self.bounds, sizer, max_depth=self.options.max_depth)

    def _cut_off(self, node: Node) -> None:
        """What the node has behind it becomes a node that has ended."""
        if not before(node.lo, node.cur):
            return
        self.draw(node)
        done = self._node(node.kind, node.lo, node.cur, node)
        node.hand_over_done_part(done)

    def _close(self, node: Node) -> list[Event]:
        """Nothing is left of the node."""
        if node.cur != node.hi:
            raise AssertionError("a node that has not reached its end cannot be done")
        node.state = ended_state(node)
        self.draw(node)
        self._drop(node, keep=True)
        if self._seconds_per_item is None:
            self._seconds_per_item = node.sizer.seconds_per_item
        name = "node.completed" if node.state is NodeState.DONE else f"node.{node.state}"
        if name == "node.skipped" or not heard(name):
            # Each skip was told already, with its bounds.
            return []
        return self.facts(name, node)

    def _drop(self, node: Node, *, keep: bool = False) -> None:
        """It is open no more. Without `keep` nothing is left of its range either."""
        if self.open.pop(node.id, None) is not None and node.is_whole:
            self.open_bisects -= 1
        if not keep:
            node.state = NodeState.DONE
            self.nodes = [each for each in self.nodes if each is not node]

    def _reopen(self, node: Node) -> None:
        self.items_failed -= node.rows_failed
        node.cur = node.resv = node.drawn = node.lo
        node.width_failed = node.rows_failed = 0
        node.attempts, node.next_at = 0, 0.0
        node.kind = NodeKind.BISECT
        node.allowed = self.options.retry.max_attempts
        node.state = NodeState.PENDING
        self.open[node.id] = node
        self.open_bisects += 1

    def _count_tally(self, walker: Walker) -> None:
        tally = walker.take_tally()
        self.questions += tally.questions
        self.prune_errors += tally.prune_errors + tally.prune_timeouts
        self.probe_timeouts += tally.probe_timeouts

    # Telling

    def facts(self, name: str, node: Node | None = None, **facts: Any) -> list[Event]:
        """The event, if anybody wants it. Bounds in their JSON form."""
        if not heard(name):
            return []
        axis = self.source.axis
        known: dict[str, Any] = {"run_id": self.run_id}
        if node is not None:
            known |= {
                "node_id": node.id, "kind": str(node.kind), "state": str(node.state),
                "attempt": node.attempts, "depth": node.depth, "lo": node.lo, "hi": node.hi,
            }  # fmt: skip
        known |= facts
        if "lo" in known:
            known["lo"] = axis.to_json(key_at(axis, known["lo"]))
            known["hi"] = json_end(axis, known["hi"])
        if known.get("cut") is not None:
            known["cut"] = axis.to_json(key_at(axis, known["cut"]))
        return [Event(name, None, self.job.name, "", known)]

    def _remember(
        self, node: Node, attempt: int, seconds: float, wait: float | None, *, transient: bool
    ) -> None:
        axis = self.source.axis
        self.history.append(
            FailedTry(
                node_id=node.id,
                lo=axis.to_json(key_at(axis, node.cur)),
                hi=json_end(axis, node.resv if before(node.cur, node.resv) else node.hi),
                attempt=attempt,
                error=node.error,
                transient=transient,
                seconds=seconds,
                retry_in=wait,
            )
        )

    def _mark(self, lo: Position, hi: Position, flag: int) -> None:
        self.grid.mark(self.cells, self.bounds[0], lo, hi, flag)

    def draw(self, node: Node) -> None:
        """Draw what the node has processed; not at each leaf, as cells are much larger."""
        if before(node.drawn, node.cur):
            self._mark(node.drawn, node.cur, CELL_PROCESSED)
        node.drawn = node.cur

    # Sums

    def tiles(self) -> bool:
        """Whether the nodes tile the range, without gap or overlap, and their sums add up."""
        axis, (at, end) = self.source.axis, self.bounds
        for node in sorted(self.nodes, key=lambda each: (each.lo, each.hi)):
            counted = node.width_ok + node.width_skipped + node.width_failed
            if node.lo != at or before(node.hi, node.lo):
                return False
            if before(node.cur, node.lo) or before(node.resv, node.cur):
                return False
            if before(node.hi, node.resv):
                return False
            if self._ordinal and counted != width(axis, node.lo, node.cur):
                return False
            at = node.hi
        return at == end or not self._planned

    def left(self) -> int:
        if not self._planned:
            return self.total
        axis = self.source.axis
        return sum(
            width(axis, node.cur, node.hi) for node in self.nodes if before(node.cur, node.hi)
        )


def behind(axis: Any, position: Position) -> Position:
    """The least position behind one that has a key."""
    return position + 1 if isinstance(position, int) else cast(str, axis.successor(position))


def json_end(axis: Any, position: Position) -> Any:
    """None: up to the last key of the type."""
    key = end_key(axis, position)
    return None if key is None else axis.to_json(key)


def said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:2_000]
