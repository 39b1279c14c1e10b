"""The nodes of a run in memory: half-open pieces that tile the run, each with a cursor.

Always lo <= cur <= resv <= hi, and
width_ok + width_skipped + width_failed + width(cur, hi) = width(lo, hi).
Only the lane that owns a node moves `cur` and `resv`; `hi` may be lowered by a thief, never below
`resv`. All of it happens under the run's lock. [drawn, cur) was processed, but is not in the cells yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranges.positions import Position
from ranges.states import NodeKind, NodeState

if TYPE_CHECKING:
    from ranges.sizing import LeafSizer
    from ranges.walking import Walker


class Node:
    """A strand, or a leaf that failed (`bisect`). Mutable, as its cursor moves at every leaf."""

    __slots__ = (
        "allowed", "attempts", "claims", "commits", "cool_until", "cur", "depth", "drawn", "error", "hi", "id", "items",
        "kind", "leaves", "lo", "next_at", "parent", "resv", "rows_failed", "rows_ok", "sizer",
        "started", "state", "thefts", "traceback", "transient_tries", "tries", "walker",
        "width_failed", "width_ok", "width_skipped",
    )  # fmt: skip

    def __init__(
        self,
        id: int,
        kind: NodeKind,
        lo: Position,
        hi: Position,
        *,
        walker: Walker,
        sizer: LeafSizer,
        parent: Node | None = None,
    ) -> None:
        self.id = id
        self.kind = kind
        self.parent = None if parent is None else parent.id
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.lo = self.cur = self.resv = self.drawn = lo
        self.hi = hi
        self.walker = walker
        self.sizer = sizer
        self.state = NodeState.PENDING
        self.claims = 0
        self.started = False
        # Of a bisect node: failed attempts at it as a whole, and how many it may have.
        self.attempts = 0
        self.allowed = 1
        # Of its keys, in this node and those that it was cut from.
        self.tries = 0
        self.transient_tries = 0
        self.next_at = 0.0
        self.commits = 0
        self.thefts = 0
        self.cool_until = 0.0
        self.items: int | None = None
        self.leaves = 0
        self.rows_ok = 0
        self.rows_failed = 0
        self.width_ok = 0
        self.width_skipped = 0
        self.width_failed = 0
        self.error = ""
        self.traceback = ""

    def is_held(self, claim: int) -> bool:
        """Whether the lane that claimed it as the `claim`th has it still: another may have it by now."""
        return self.state is NodeState.RUNNING and self.claims == claim

    @property
    def is_whole(self) -> bool:
        """Whether it is tried as one leaf, as it stands."""
        return self.kind is NodeKind.BISECT

    def hand_over_done_part(self, done: Node) -> None:
        """`done` becomes [lo, cur) with everything that was counted; this node starts anew there."""
        done.cur = done.resv = done.drawn = done.hi = self.cur
        for name in _COUNTS:
            setattr(done, name, getattr(self, name))
            setattr(self, name, 0)
        done.state = ended_state(done)
        self.lo = self.drawn = self.cur


_COUNTS = ("leaves", "rows_ok", "rows_failed", "width_ok", "width_skipped", "width_failed")


def ended_state(node: Node) -> NodeState:
    """How a node ended that has nothing left."""
    if node.width_failed:
        return NodeState.ERROR
    return NodeState.DONE if node.leaves or node.width_ok else NodeState.SKIPPED
