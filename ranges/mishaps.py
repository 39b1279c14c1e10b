"""Leaves that fail in a run in memory: cut off their strand, tried again, halved, recorded.

A leaf that fails becomes a node of its own, so the strand goes on behind it. As in `tiles.py`,
whoever calls holds the run's lock.
"""

from __future__ import annotations

import time
import traceback
from collections import deque
from random import Random

from jobs.events import Event, heard
from jobs.texts import describe_error
from ranges.leaf_range import HandBack
from ranges.positions import Position, before, key_at, width
from ranges.reports import FailedTry, Failure
from ranges.retrying import TRANSIENT_TRIES, crossed, most_open_bisects, transient_seconds
from ranges.sources import UnfitKey
from ranges.splitting import halve
from ranges.states import CELL_FAILED, NodeKind, NodeState
from ranges.strands import Node
from ranges.tiles import Tiles, behind, json_end

HISTORY = 10_000
"""So many failed tries are remembered, the newest."""


class Mishaps:
    def __init__(self, tiles: Tiles) -> None:
        self.failures: list[Failure] = []
        self.history: deque[FailedTry] = deque(maxlen=HISTORY)
        self._tiles = tiles
        self._forgiven = (0, 0)
        self._random = Random().random

    # What a lane brings

    def failed(
        self, node: Node, error: BaseException, items: int | None, seconds: float
    ) -> list[Event]:
        tiles = self._tiles
        policy = tiles.options.retry
        attempt = node.attempts + 1
        tiles.attempts += 1
        tiles.durations.add(seconds)
        node.error = describe_error(error)
        node.traceback = "".join(traceback.format_exception(error))[-4_000:]
        events: list[Event] = []
        if heard("leaf.failed"):
            events = tiles.facts("leaf.failed", node, lo=node.cur, hi=node.resv, error=node.error)
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
        node.error = describe_error(error)
        node.transient_tries += 1
        node.resv = node.cur
        if node.transient_tries <= TRANSIENT_TRIES and not isinstance(error, UnfitKey):
            wait = transient_seconds(node.transient_tries, self._random)
            return True, self._back_off(node, wait)
        node.state = NodeState.PENDING
        node.transient_tries = 0
        return False, []

    # What a person or the run asks

    def reopen_failed(self) -> None:
        """Everything that failed is to be tried again."""
        for node in self._tiles.nodes:
            if node.state is NodeState.ERROR:
                self._reopen(node)
        self.failures.clear()

    def forgive(self) -> None:
        """Failures so far no longer count for the threshold."""
        tiles = self._tiles
        self._forgiven = (tiles.items_failed, tiles.items_ok + tiles.items_failed)

    def has_crossed(self) -> bool:
        """Whether too large a share failed of what was attempted since it was last forgiven."""
        tiles = self._tiles
        failed = tiles.items_failed - self._forgiven[0]
        attempted = tiles.items_ok + tiles.items_failed - self._forgiven[1]
        return crossed(
            failed=failed, attempted=attempted, threshold=tiles.options.failure_threshold
        )

    # One step of each

    def _peel(self, node: Node) -> tuple[Node, list[Event]]:
        """Make the leaf [cur, resv) a node of its own, and let the strand go on behind it."""
        tiles = self._tiles
        lo, hi = node.cur, node.resv
        tiles.cut_off(node)
        failing = tiles.add(NodeKind.BISECT, lo, hi, node)
        failing.allowed = tiles.options.retry.max_attempts
        failing.error, failing.traceback = node.error, node.traceback
        failing.started = True
        tiles.open[failing.id] = failing
        tiles.open_bisects += 1
        events = tiles.facts("node.created", failing)
        node.lo = node.cur = node.resv = node.drawn = hi
        if not before(node.cur, node.hi):
            tiles.drop(node)
        elif tiles.open_bisects >= most_open_bisects(tiles.concurrency):
            node.state = NodeState.PENDING
        return failing, events

    def _after_attempt(self, node: Node, attempt: int, seconds: float) -> list[Event]:
        """A whole leaf failed once more: try again later, halve it, or record it."""
        tiles = self._tiles
        policy = tiles.options.retry
        if node.attempts < node.allowed:
            wait = policy.wait_seconds(node.attempts, self._random)
            self._remember(node, attempt, seconds, wait, transient=False)
            return self._back_off(node, wait)
        self._remember(node, attempt, seconds, None, transient=False)
        if policy.bisect and len(self.failures) < policy.bisect_budget:
            cut = halve(tiles.source, node.cur, node.hi)
            if cut is not None:
                return self._bisect(node, cut)
        items = node.items
        if items is None:
            items = max(1, tiles.source.estimate(node.cur, node.hi))
        tiles.drop(node, keep=True)
        node.tries += node.attempts
        return self.record(node, node.error, node.traceback, items)

    def _bisect(self, node: Node, cut: Position) -> list[Event]:
        """Halves are tried once each; the node becomes the left one."""
        tiles = self._tiles
        events = tiles.facts("node.bisected", node, cut=cut)
        if before(node.lo, node.cur):
            tiles.cut_off(node)
        right = tiles.add(NodeKind.BISECT, cut, node.hi, node)
        right.started = True
        right.tries = node.tries = node.tries + node.attempts
        right.error, right.traceback = node.error, node.traceback
        tiles.open[right.id] = right
        tiles.open_bisects += 1
        node.hi = cut
        node.resv = node.cur
        node.attempts, node.allowed, node.items = 0, 1, None
        node.next_at = 0.0
        node.state = NodeState.PENDING
        return events + tiles.facts("node.created", right)

    def record(self, node: Node, error: str, trace: str, items: int) -> list[Event]:
        """The node's keys failed for good."""
        tiles = self._tiles
        axis = tiles.source.axis
        is_one = node.hi == behind(axis, node.cur)
        if is_one and not tiles.source.counts_rows:
            items = 1  # the width of a text is a projection
        node.width_failed = width(axis, node.cur, node.hi)
        node.rows_failed = items
        node.state = NodeState.ERROR
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
        tiles.items_failed += items
        tiles.mark(node.cur, node.hi, CELL_FAILED)
        events = tiles.facts("node.failed", node, lo=node.cur, hi=node.hi, error=error, items=items)
        node.cur = node.resv = node.drawn = node.hi
        return events

    def _back_off(self, node: Node, wait: float) -> list[Event]:
        self._tiles.retries += 1
        node.next_at = time.monotonic() + wait
        node.state = NodeState.PENDING
        if not heard("node.retrying"):
            return []
        return self._tiles.facts("node.retrying", node, retry_in=wait, error=node.error)

    def _reopen(self, node: Node) -> None:
        tiles = self._tiles
        tiles.items_failed -= node.rows_failed
        node.cur = node.resv = node.drawn = node.lo
        node.width_failed = node.rows_failed = 0
        node.attempts, node.next_at = 0, 0.0
        node.kind = NodeKind.BISECT
        node.allowed = tiles.options.retry.max_attempts
        node.state = NodeState.PENDING
        tiles.open[node.id] = node
        tiles.open_bisects += 1

    def _remember(
        self, node: Node, attempt: int, seconds: float, wait: float | None, *, transient: bool
    ) -> None:
        axis = self._tiles.source.axis
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
