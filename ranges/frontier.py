"""What lanes do with the nodes of a run in memory: plan, claim, reserve, steal, and leaf after leaf.

Leaves that fail are for `mishaps.py`. As in `tiles.py`, whoever calls holds the run's lock.
"""

from __future__ import annotations

from typing import NamedTuple

from jobs.events import Event, heard
from ranges.bounding import least_leaf
from ranges.leaf_range import LeafRange
from ranges.mishaps import Mishaps
from ranges.positions import Position, before, width
from ranges.retrying import most_open_bisects
from ranges.sizing import LeafSizer
from ranges.splitting import (
    Victim,
    cool_down_seconds,
    halve,
    start_pieces,
    whom_to_steal_from,
)
from ranges.states import NodeKind, NodeState
from ranges.strands import Node
from ranges.tiles import Tiles, behind
from ranges.walking import Step

type BadKeys = list[tuple[Position, str]]


class Tail(NamedTuple):
    """What a strand at work has left behind its leaf."""

    id: int
    lo: Position
    hi: Position
    leaf_size: int
    seconds_per_item: float | None
    commits: int
    cool_until: float


class Theft(NamedTuple):
    id: int
    cut: Position | None


class Frontier:
    def __init__(self, tiles: Tiles, mishaps: Mishaps) -> None:
        self._tiles = tiles
        self._mishaps = mishaps

    # The start

    def pieces(self) -> list[tuple[Position, Position]]:
        """Where to cut at the start. May ask the database, so it is asked without the lock."""
        tiles = self._tiles
        if not before(*tiles.bounds):
            return []
        tiles.least = least_leaf(tiles.source, tiles.bounds, tiles.options.max_depth)
        size = LeafSizer(tiles.leaf, least=tiles.least).size()
        return start_pieces(
            tiles.source,
            *tiles.bounds,
            concurrency=tiles.concurrency,
            leaf_size=size,
        )

    def plan(self, pieces: list[tuple[Position, Position]]) -> list[Event]:
        tiles = self._tiles
        events: list[Event] = []
        for lo, hi in pieces:
            node = tiles.add(NodeKind.STRAND, lo, hi, None)
            tiles.open[node.id] = node
            events += tiles.facts("node.created", node)
        if len(pieces) > 1:
            lo, hi = tiles.bounds
            events += tiles.facts("node.split", lo=lo, hi=hi, parts=len(pieces))
        tiles.is_planned = True
        return events

    # What to do next

    def due(self, now: float) -> tuple[Node | None, float]:
        """The next pending node that is due, failed leaves first; and when the next one is."""
        tiles = self._tiles
        earliest = float("inf")
        strand: Node | None = None
        for node in tiles.open.values():
            if node.state is not NodeState.PENDING:
                continue
            if node.next_at > now:
                earliest = min(earliest, node.next_at)
            elif node.is_whole:
                return node, earliest
            elif strand is None:
                strand = node
        if tiles.open_bisects >= most_open_bisects(tiles.concurrency):
            strand = None
        return strand, earliest

    def claim(self, node: Node) -> list[Event]:
        node.claims += 1  # first: lanes look at both without the lock
        node.state = NodeState.RUNNING
        node.commits = 0
        if node.started:
            return []
        node.started = True
        return self._tiles.facts("node.started", node)

    def release(self, node: Node, claim: int) -> None:
        """A lane gives the node back with its cursor; the leaf at work was not done."""
        if node.is_held(claim):
            node.state = NodeState.PENDING
            node.resv = node.cur

    def has_running_strand(self) -> bool:
        return any(
            node.state is NodeState.RUNNING and not node.is_whole
            for node in self._tiles.open.values()
        )

    def reserve(self, node: Node, step: Step) -> tuple[LeafRange | None, int | None, list[Event]]:
        """Take the step, as far as no thief was faster. Without a leaf it was a skip."""
        tiles = self._tiles
        lo, hi, items = step
        end = node.hi
        leaf: LeafRange | None = None
        events: list[Event] = []
        if lo is None or not before(lo, end):
            events = tiles.skip(node, hi if lo is None and before(hi, end) else end)
        else:
            if lo != node.cur:
                events = tiles.skip(node, lo)
            if before(end, hi):
                hi, items = end, None
            node.resv = hi
            leaf = LeafRange(tiles.source, lo, hi)
        if node.walker.has_tally:
            tiles.count_tally(node.walker)
        return leaf, items, events

    # Stealing

    def tails(self) -> list[Tail]:
        """What the strands at work have left, as it is now."""
        return [
            Tail(
                id=node.id,
                lo=node.resv,
                hi=node.hi,
                leaf_size=node.sizer.size(),
                seconds_per_item=node.sizer.seconds_per_item,
                commits=node.commits,
                cool_until=node.cool_until,
            )
            for node in self._tiles.open.values()
            if node.state is NodeState.RUNNING and not node.is_whole and before(node.resv, node.hi)
        ]

    def victim(self, tails: list[Tail], now: float, least_seconds: float) -> Theft | None:
        """Whose tail is worth a lane, and where to cut it. May ask the database: without the lock."""
        source = self._tiles.source
        victims = {
            tail.id: Victim(
                id=tail.id,
                left=source.estimate(tail.lo, tail.hi),
                leaf_size=tail.leaf_size,
                seconds_per_item=tail.seconds_per_item,
                commits=tail.commits,
                cool_until=tail.cool_until,
            )
            for tail in tails
        }
        chosen = whom_to_steal_from(victims.values(), now=now, least_seconds=least_seconds)
        if chosen is None:
            return None
        tail = next(tail for tail in tails if tail.id == chosen.id)
        return Theft(tail.id, halve(source, tail.lo, tail.hi))

    def steal(self, theft: Theft, now: float) -> tuple[Node | None, list[Event]]:
        """Take the tail of a strand, if its lane has not got there meanwhile."""
        tiles, cut = self._tiles, theft.cut
        node = tiles.open.get(theft.id)
        if node is None or node.is_whole or node.state is not NodeState.RUNNING:
            return None, []
        node.thefts += 1
        node.cool_until = now + cool_down_seconds(node.thefts)
        if cut is None or not before(node.resv, cut) or not before(cut, node.hi):
            return None, []
        thief = tiles.add(NodeKind.STRAND, cut, node.hi, node)
        node.hi = cut
        tiles.open[thief.id] = thief
        events = tiles.facts("node.stolen", node, cut=cut, by=thief.id)
        events += tiles.facts("node.created", thief)
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
        tiles = self._tiles
        events: list[Event] = []
        lo, hi = leaf.start, leaf.end
        tiles.attempts += 1
        tiles.durations.add(seconds)
        count = width(tiles.source.axis, lo, hi) if items is None else items
        node.sizer.observe(count, seconds)
        node.commits += 1
        node.transient_tries = 0
        node.leaves += 1
        if failed is None and not tiles.source.counts_rows and node.cur == lo:
            # The usual leaf, in as few steps as can be.
            node.rows_ok += count
            node.width_ok += count
            tiles.items_ok += count
            node.cur = hi
        else:
            if not tiles.source.counts_rows:
                count = width(tiles.source.axis, node.cur, hi)
            events = self.pass_over(node, hi, count, failed or [])
        if heard("leaf.completed"):
            events += tiles.facts("leaf.completed", node, lo=lo, hi=hi, seconds=seconds)
        if not before(node.cur, node.hi):
            events += tiles.close(node)
        return events

    def pass_over(
        self,
        node: Node,
        hi: Position,
        items: int,
        failed: BadKeys,
    ) -> list[Event]:
        """[cur, hi) was done, but for single keys in it, which become nodes of their own."""
        tiles = self._tiles
        axis = tiles.source.axis
        by_key = dict(failed)
        events: list[Event] = []
        for position in sorted(by_key):
            after = behind(axis, position)
            if before(node.cur, position):
                node.width_ok += width(axis, node.cur, position)
            node.cur = position
            tiles.cut_off(node)
            bad = tiles.add(NodeKind.BISECT, position, after, node)
            bad.tries = node.tries + node.attempts + 1
            bad.allowed = tiles.options.retry.max_attempts
            # What is reserved stays so: the lane may still be at work behind its checkpoint.
            node.lo = node.cur = node.drawn = after
            events += self._mishaps.record(bad, by_key[position], "", 1)
        if before(node.cur, hi):
            node.width_ok += width(axis, node.cur, hi)
            node.cur = hi
        good = max(items - len(by_key), 0)
        node.rows_ok += good
        tiles.items_ok += good
        return events

    def handed_back(self, node: Node) -> list[Event]:
        """The leaf was done up to a checkpoint; the rest is for whoever takes the node next."""
        self._tiles.attempts += 1
        node.transient_tries = 0
        node.leaves += 1
        node.resv = node.cur
        if before(node.cur, node.hi):
            node.state = NodeState.PENDING
            return []
        return self._tiles.close(node)
