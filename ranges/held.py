"""A node at work, as the lane that holds it knows it, and what a leaf can be cut into."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from jobs.errors import CoppiceError
from ranges.positions import Position, before
from ranges.states import NodeKind


class Fenced(CoppiceError):
    """Somebody else has the node by now: what was done for it here is void."""


@dataclass(frozen=True, kw_only=True)
class Lease:
    """Whose a node at work is: a lane job under one epoch."""

    job_id: str
    epoch: int


type Place = tuple[Position, Position, Position, int, int, int, bytearray]


@dataclass(slots=True, kw_only=True)
class Node:
    """A node at work, as its owner knows it."""

    id: int
    kind: str
    depth: int
    lo: Position
    hi: Position
    cur: Position
    resv: Position
    attempts: int
    interrupted: int
    leaves: int
    seconds_per_row: float | None
    cells: bytearray
    """Never changed in place: a commit that is undone puts the old ones back."""
    was: Position
    """Up to here the leaf reached that the last owner had begun; `cur` if there was none."""
    struck: bool = False
    """That leaf was cut short by a death."""

    @property
    def is_bisect(self) -> bool:
        return self.kind == NodeKind.BISECT

    @property
    def has_leaf(self) -> bool:
        return before(self.cur, self.resv)

    def place(self) -> Place:
        """All that a commit changes."""
        return (
            self.hi, self.cur, self.resv, self.leaves, self.attempts, self.interrupted, self.cells,
        )  # fmt: skip

    def put_back(self, place: Place) -> None:
        """The commit was undone."""
        (
            self.hi, self.cur, self.resv, self.leaves, self.attempts, self.interrupted, self.cells,
        ) = place  # fmt: skip


@dataclass(frozen=True, slots=True)
class Busy:
    """A strand at work elsewhere, which has committed a leaf."""

    id: int
    hi: Position
    resv: Position
    seconds_per_row: float | None
    thefts: int
    """How often its tail was stolen."""
    cool_seconds: float
    """So long it is to be left alone."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How the run stood when a leaf was committed."""

    status: str
    concurrency: int
    is_done: bool
    """The node has no more work."""


@dataclass(frozen=True, kw_only=True)
class Segment:
    """A piece of a leaf, and what became of it."""

    lo: Position
    hi: Position
    state: str
    """done, error (its keys failed), or pending: to be tried again as a node of its own."""
    items: int = 0
    attempts: int = 0
    interrupted: int = 0
    depth: int = 0
    delay: float | None = None
    error: str = ""
    traceback: str = ""
    fingerprint: str = ""
    failures: list[Any] = field(default_factory=list)
    """What the caller wants to attach to the piece's node."""
