"""The nodes of one run in memory: they tile the run, and everything is counted in them.

1. The nodes tile the run: whatever replaces a node has the same union.
2. A key is counted once: processed, skipped or failed, when a cursor passes it.

No thread, no lock, no user code: whoever calls holds the run's lock, and tells the events that are
returned when the lock is free again.
"""

from __future__ import annotations

from itertools import count
from typing import Any, cast

from jobs.events import Event, heard
from ranges.cells import Cells
from ranges.declaring import RangeJob
from ranges.options import Options
from ranges.positions import Position, before, end_key, key_at, width
from ranges.reports import Durations
from ranges.sizing import LeafSizer
from ranges.sources import Source
from ranges.states import CELL_PROCESSED, CELL_SKIPPED, CELLS, NodeKind, NodeState
from ranges.strands import Node, ended_state
from ranges.walking import Walker


class Tiles:
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
        """The smallest leaf that the largest depth allows."""
        self.is_planned = False

        self.nodes: list[Node] = []
        self.open: dict[int, Node] = {}
        """Those that have something left."""
        self.open_bisects = 0

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

        self._ids = count(1)
        self._ordinal = source.axis.is_ordinal
        self._seconds_per_item: float | None = None

    # A node's life

    def add(self, kind: NodeKind, lo: Position, hi: Position, parent: Node | None) -> Node:
        """One more node; who adds it answers for the tiling."""
        known = self._seconds_per_item if parent is None else parent.sizer.seconds_per_item
        sizer = LeafSizer(self.leaf, least=self.least, seconds_per_item=known)
        if kind is NodeKind.BISECT and parent is not None:
            walker, sizer = parent.walker, parent.sizer
        else:
            walker = self._walker(sizer)
        node = Node(next(self._ids), kind, lo, hi, walker=walker, sizer=sizer, parent=parent)
        self.nodes.append(node)
        return node

    def skip(self, node: Node, upto: Position) -> list[Event]:
        """[cur, upto) needs no work."""
        events: list[Event] = []
        if before(node.cur, upto):
            if heard("node.skipped"):
                events = self.facts("node.skipped", node, lo=node.cur, hi=upto)
            node.width_skipped += width(self.source.axis, node.cur, upto)
            self.draw(node)
            self.mark(node.cur, upto, CELL_SKIPPED)
            node.cur = node.resv = node.drawn = upto
        if node.cur == node.hi:
            events += self.close(node)
        return events

    def cut_off(self, node: Node) -> None:
        """What the node has behind it becomes a node that has ended."""
        if not before(node.lo, node.cur):
            return
        self.draw(node)
        done = self.add(node.kind, node.lo, node.cur, node)
        node.hand_over_done_part(done)

    def close(self, node: Node) -> list[Event]:
        """Nothing is left of the node."""
        if node.cur != node.hi:
            raise AssertionError("a node that has not reached its end cannot be done")
        node.state = ended_state(node)
        self.draw(node)
        # Of a strand whose last key failed, nothing may be left but the end.
        self.drop(node, keep=before(node.lo, node.hi))
        if self._seconds_per_item is None:
            self._seconds_per_item = node.sizer.seconds_per_item
        name = "node.completed" if node.state is NodeState.DONE else f"node.{node.state}"
        if name == "node.skipped" or not heard(name):
            # Each skip was told already, with its bounds.
            return []
        return self.facts(name, node)

    def drop(self, node: Node, *, keep: bool = False) -> None:
        """It is open no more. Without `keep` nothing is left of its range either."""
        if self.open.pop(node.id, None) is not None and node.is_whole:
            self.open_bisects -= 1
        if not keep:
            node.state = NodeState.DONE
            self.nodes = [each for each in self.nodes if each is not node]

    def count_tally(self, walker: Walker) -> None:
        tally = walker.take_tally()
        self.questions += tally.questions
        self.prune_errors += tally.prune_errors + tally.prune_timeouts
        self.probe_timeouts += tally.probe_timeouts

    def _walker(self, sizer: LeafSizer) -> Walker:
        return self.job.walker(self.source, self.bounds, sizer, max_depth=self.options.max_depth)

    # Drawing

    def draw(self, node: Node) -> None:
        """Draw what the node has processed; not at each leaf, as cells are much larger."""
        if before(node.drawn, node.cur):
            self.mark(node.drawn, node.cur, CELL_PROCESSED)
        node.drawn = node.cur

    def mark(self, lo: Position, hi: Position, flag: int) -> None:
        self.grid.mark(self.cells, self.bounds[0], lo, hi, flag)

    # Sums

    def are_whole(self) -> bool:
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
        return at == end or not self.is_planned

    def left(self) -> int:
        if not self.is_planned:
            return self.total
        axis = self.source.axis
        return sum(
            width(axis, node.cur, node.hi) for node in self.nodes if before(node.cur, node.hi)
        )

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


def behind(axis: Any, position: Position) -> Position:
    """The least position behind one that has a key."""
    return position + 1 if isinstance(position, int) else cast(str, axis.successor(position))


def json_end(axis: Any, position: Position) -> Any:
    """None: up to the last key of the type."""
    key = end_key(axis, position)
    return None if key is None else axis.to_json(key)
