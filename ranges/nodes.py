"""The nodes of one run, as one lane sees and changes them.

What must always be true:
1. lo <= cur <= resv <= hi, and the [lo, hi) of a run's nodes chain from its lo to its hi without a
   gap or an overlap: every change replaces nodes by others with the same union, in one transaction.
2. A node at work belongs to (lane job, lease epoch). Each write of its owner carries both, and the
   cursor as the owner knows it. What does not match changes nothing and raises `Fenced`: then the
   owner's transaction, the effects of its leaf included, is rolled back.
3. A node whose owner's job is no longer processing under that epoch is free, at once. So nothing
   here has a lease of its own, and a lane that is rescued loses its strand with its epoch.
4. Row locks are held for the length of one statement, or of a short transaction without user code.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from jobs.database import DjangoDatabase
from jobs.errors import CoppiceError
from ranges.cells import Cells
from ranges.positions import Position, before
from ranges.statements import ORDINAL, TEXT, Statements
from ranges.states import CELL_FAILED, CELL_PROCESSED, CELL_SKIPPED, NodeKind, NodeState
from ranges.timings import bucket_of
from ranges.walking import Step

OPEN = """
SELECT count(*) FILTER (WHERE n.kind = 'bisect'), count(*),
    extract(epoch FROM min(n.next_at) FILTER (WHERE n.state = 'pending') - clock_timestamp())::float8
FROM ranges_rangenode n WHERE n.run_id = %(run)s::uuid AND n.state = 'pending'
UNION ALL
SELECT count(*) FILTER (WHERE n.kind = 'bisect'), count(*), NULL
FROM ranges_rangenode n WHERE n.run_id = %(run)s::uuid AND n.state = 'running'
"""

ATTEMPTED = """
SELECT coalesce(sum(rows_ok), 0)::bigint, coalesce(sum(rows_failed), 0)::bigint
FROM ranges_rangenode WHERE run_id = %(run)s::uuid
"""

FENCED = "UPDATE ranges_rangenode SET fenced = fenced + 1 WHERE id = %(id)s"


class Fenced(CoppiceError):
    """Somebody else has the node by now: what was done for it here is void."""


@dataclass(frozen=True, kw_only=True)
class Lease:
    """Whose a node at work is: a lane job under one epoch."""

    job_id: str
    epoch: int


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


class Nodes:
    """The statements of one run for one owner."""

    def __init__(
        self,
        database: DjangoDatabase,
        run_id: str,
        cells: Cells,
        lease: Lease,
        *,
        is_ordinal: bool,
        hard_seconds: float | None = None,
    ) -> None:
        self.database = database
        self.run_id = run_id
        self.lease = lease
        self._cells = cells
        self._sql: Statements = ORDINAL if is_ordinal else TEXT
        self._is_ordinal = is_ordinal
        self._owner: dict[str, Any] = {"job": lease.job_id, "epoch": lease.epoch}
        self._hard = hard_seconds

    # Taking and giving back

    def claim(self) -> Node | None:
        """A pending node, or one whose owner is dead.

        None may also mean that rivals held the rows for a moment: ask `open` before going home.
        """
        rows = self.database.rows(
            self._sql.claim, {"run": self.run_id, "hard": self._hard, **self._owner}
        )
        return self._node(rows[0]) if rows else None

    def release(
        self, node: Node, *, delay: float | None = None, failures: int = 0, error: str = ""
    ) -> bool:
        """Give the node back with its cursor; False if it was somebody else's already."""
        return bool(
            self.database.rows(
                self._sql.release,
                {"delay": delay, "failures": failures, "error": error, **self._fence(node)},
            )
        )

    def release_orphans(self) -> int:
        """Free what dead lanes held."""
        return len(self.database.rows(self._sql.release_orphans, {"run": self.run_id}))

    def open(self) -> tuple[int, int, int, float | None]:
        """(open bisect nodes, pending nodes, running nodes, seconds until a resting one is due)."""
        (bisects, pending, due), (running_bisects, running, _) = self.database.rows(
            OPEN, {"run": self.run_id}
        )
        return bisects + running_bisects, pending, running, due

    def attempted(self) -> tuple[int, int]:
        """Items done and items failed, over the whole run."""
        done, failed = self.database.rows(ATTEMPTED, {"run": self.run_id})[0]
        return int(done), int(failed)

    def note_fenced(self, node: Node) -> None:
        self.database.run(FENCED, {"id": node.id})

    # The walk

    def reserve(self, node: Node, step: Step) -> Standing:
        """Move over what needs no work, and take the next leaf."""
        return self._move(node, step, self._sql.reserve, {}, worked=False)

    def commit(
        self, node: Node, step: Step, *, items: int, seconds: float, pace: float | None
    ) -> Standing:
        """The leaf [cur, resv) is done; take the step behind it. Raises Fenced."""
        return self._move(
            node,
            step,
            self._sql.commit,
            {
                "rows": items,
                "seconds": seconds,
                "pace": pace,
                "bucket": str(bucket_of(seconds)),
                "resv": node.resv,
            },
            worked=True,
        )

    def checkpoint(self, node: Node, upto: Position, *, items: int) -> str:
        """[cur, upto) of the leaf is done; returns the run's status. Raises Fenced."""
        changed = self._cells.mark(node.cells, node.lo, node.cur, upto, CELL_PROCESSED)
        rows = self.database.rows(
            self._sql.checkpoint,
            {
                "upto": upto,
                "rows": items,
                "cells": bytes(node.cells) if changed else None,
                **self._fence(node),
            },
        )
        if not rows:
            raise Fenced("another lane has the node")
        node.cur = upto
        return str(rows[0][0])

    def _move(
        self, node: Node, step: Step, sql: str, facts: dict[str, Any], *, worked: bool
    ) -> Standing:
        start = step.hi if step.lo is None else step.lo
        changed = False
        if worked:
            changed = self._cells.mark(node.cells, node.lo, node.cur, node.resv, CELL_PROCESSED)
        behind = node.resv if worked else node.cur
        changed |= self._cells.mark(node.cells, node.lo, behind, start, CELL_SKIPPED)
        rows = self.database.rows(
            sql,
            {
                "lo": start,
                "upto": step.hi,
                "cells": bytes(node.cells) if changed else None,
                **facts,
                **self._fence(node),
            },
        )
        if not rows:
            raise Fenced("another lane has the node")
        hi, cur, resv, state, status, concurrency = rows[0]
        node.hi, node.cur, node.resv = self._position(hi), self._position(cur), self._position(resv)
        if worked:
            node.leaves += 1
            node.attempts = node.interrupted = 0
        return Standing(status, concurrency, state != NodeState.RUNNING)

    # Stealing

    def victims(self) -> list[tuple[int, Position, Position, float | None]]:
        """Strands at work that have committed a leaf: (id, hi, resv, seconds per row)."""
        return [
            (id, self._position(hi), self._position(resv), pace)
            for id, hi, resv, pace in self.database.rows(self._sql.victims, {"run": self.run_id})
        ]

    def steal(self, victim: int, hi: Position, at: Position) -> int | None:
        """Take [at, hi) of a strand at work as a node of ours; None if it has moved on."""
        rows = self.database.rows(
            self._sql.steal,
            {
                "victim": victim,
                "hi": hi,
                "at": at,
                "cells": b"",
                **self._owner,
            },
        )
        return rows[0][0] if rows else None

    def stolen(self, id: int, at: Position, hi: Position, pace: float | None) -> Node:
        """The node that `steal` made."""
        return Node(
            id=id,
            kind=NodeKind.STRAND,
            depth=0,
            lo=at,
            hi=hi,
            cur=at,
            resv=at,
            attempts=0,
            interrupted=0,
            leaves=0,
            seconds_per_row=pace,
            cells=self._cells.blank(at, hi),
            was=at,
        )

    # Leaves that failed

    def rewrite(self, node: Node, segments: Sequence[Segment]) -> tuple[list[int], Node | None]:
        """Replace the leaf [cur, resv) by nodes of its own, one for each segment.

        The segments chain from `cur` to `resv`. What lies before stays with the node, what lies
        behind becomes a strand of the same owner, which is returned; None if there is nothing.
        Returns the segments' node ids as well. Raises Fenced. Within the caller's transaction.
        """
        assert segments[0].lo == node.cur
        assert segments[-1].hi == node.resv
        assert all(one.hi == other.lo for one, other in pairwise(segments))
        rows = self.database.rows(self._sql.hold, self._fence(node))
        if not rows:
            raise Fenced("another lane has the node")
        hi = self._position(rows[0][4])
        goes_on = before(node.resv, hi)
        has_done = before(node.lo, node.cur)
        ids: list[int] = []
        rest: Node | None = None
        if has_done:
            self._shrink(node)
        elif goes_on:
            rest = self._shift(node, hi)
        for index, segment in enumerate(segments):
            if index == 0 and not has_done and not goes_on:
                self._become(node, segment)
                ids.append(node.id)
            else:
                ids.append(self._insert(node, segment))
        if goes_on and rest is None:
            rest = self._go_on(node, hi)
        return ids, rest

    def halve(self, node: Node, at: Position, segment: Segment) -> None:
        """Part a failing leaf in two nodes, each to be tried by itself. Raises Fenced."""
        left = replace(segment, lo=node.cur, hi=at, depth=node.depth + 1)
        right = replace(segment, lo=at, hi=node.resv, depth=node.depth + 1)
        self.rewrite(node, [left, right])

    def _shrink(self, node: Node) -> None:
        """The node ends where its cursor is."""
        cells = node.cells[: self._cells.last(node.lo, node.cur) - self._cells.first(node.lo) + 1]
        state = NodeState.DONE if node.leaves else NodeState.SKIPPED
        self._write(
            node, kind=NodeKind.STRAND, state=state, lo=node.lo, hi=node.cur, cur=node.cur,
            cells=bytes(cells), depth=node.depth,
        )  # fmt: skip

    def _shift(self, node: Node, hi: Position) -> Node:
        """The node, of which nothing is done, begins behind the leaf."""
        rest = self.stolen(node.id, node.resv, hi, node.seconds_per_row)
        rest.depth = node.depth
        self._write(
            node, kind=node.kind, state=NodeState.RUNNING, lo=node.resv, hi=hi, cur=node.resv,
            cells=b"", depth=node.depth, owned=True,
        )  # fmt: skip
        return rest

    def _become(self, node: Node, segment: Segment) -> None:
        cur = segment.lo if segment.state == NodeState.PENDING else segment.hi
        # Halves of a node reach less far than it did.
        self._write(
            node, kind=NodeKind.BISECT, state=segment.state, lo=segment.lo, hi=segment.hi, cur=cur,
            cells=self._segment_cells(segment), depth=segment.depth, segment=segment,
        )  # fmt: skip

    def _go_on(self, node: Node, hi: Position) -> Node:
        rest = self.stolen(0, node.resv, hi, node.seconds_per_row)
        rest.depth = node.depth
        rest.id = self.insert(
            parent=node.id,
            kind=NodeKind.STRAND,
            state=NodeState.RUNNING,
            depth=node.depth,
            lo=node.resv,
            hi=hi,
            cur=node.resv,
            pace=node.seconds_per_row,
            **self._owner,
        )
        return rest

    def _insert(self, node: Node, segment: Segment) -> int:
        return self.insert(
            parent=node.id,
            kind=NodeKind.BISECT,
            state=segment.state,
            lo=segment.lo,
            hi=segment.hi,
            cur=segment.lo if segment.state == NodeState.PENDING else segment.hi,
            depth=segment.depth,
            pace=node.seconds_per_row,
            cells=self._segment_cells(segment),
            **self._counts(segment),
        )

    def _segment_cells(self, segment: Segment) -> bytes:
        flag = {NodeState.DONE: CELL_PROCESSED, NodeState.ERROR: CELL_FAILED}.get(
            NodeState(segment.state)
        )
        if flag is None:
            return b""
        return bytes(self._cells.flagged(segment.lo, segment.hi, flag))

    def _counts(self, segment: Segment) -> dict[str, Any]:
        is_done = segment.state == NodeState.DONE
        is_error = segment.state == NodeState.ERROR
        size = self.width(segment.lo, segment.hi)
        return {
            "attempts": segment.attempts,
            "interrupted": segment.interrupted,
            "delay": segment.delay,
            "rows_ok": segment.items if is_done else 0,
            "rows_failed": segment.items if is_error else 0,
            "width_ok": size if is_done else 0,
            "width_failed": size if is_error else 0,
            "leaves": 1 if is_done or is_error else 0,
            "retries": 0 if is_done or is_error else 1,
            "error": segment.error,
            "traceback": segment.traceback,
            "fingerprint": segment.fingerprint,
        }

    def _write(
        self,
        node: Node,
        *,
        kind: str,
        state: str,
        lo: Position,
        hi: Position,
        cur: Position,
        cells: bytes,
        depth: int,
        owned: bool = False,
        segment: Segment | None = None,
    ) -> None:
        counts = self._counts(segment) if segment is not None else _NO_COUNTS
        owner = self._owner if owned else {"job": None, "epoch": None}
        facts = {"kind": kind, "state": state, "lo": lo, "hi": hi, "cur": cur, "cells": cells}
        self.database.run(
            self._sql.rewrite,
            {"id": node.id, "depth": depth, **facts, **counts, **owner},
        )

    def insert(
        self,
        *,
        kind: str,
        state: str,
        lo: Position,
        hi: Position,
        cur: Position,
        parent: int | None = None,
        depth: int = 0,
        job: str | None = None,
        epoch: int | None = None,
        pace: float | None = None,
        cells: bytes = b"",
        **counts: Any,
    ) -> int:
        """One more node; the caller answers for the chain."""
        rows = self.database.rows(
            self._sql.insert,
            {
                "run": self.run_id,
                "parent": parent,
                "kind": kind,
                "state": state,
                "depth": depth,
                "lo": lo,
                "hi": hi,
                "cur": cur,
                "job": job,
                "epoch": epoch,
                "pace": pace,
                "cells": cells,
                **_NO_COUNTS,
                **counts,
            },
        )
        return int(rows[0][0])

    # Before and after the lanes

    def plant(self, bounds: Iterable[tuple[Position, Position]]) -> int:
        """The strands that a run begins with; returns how many."""
        count = 0
        for lo, hi in bounds:
            self.insert(kind=NodeKind.STRAND, state=NodeState.PENDING, lo=lo, hi=hi, cur=lo)
            count += 1
        return count

    def in_state(self, *states: str) -> list[tuple[int, str, Position, Position]]:
        """(id, state, lo, hi) in the order of the axis."""
        rows = self.database.rows(self._sql.nodes, {"run": self.run_id, "states": list(states)})
        return [(id, s, self._position(lo), self._position(hi)) for id, s, lo, hi in rows]

    def revive(self, id: int) -> bool:
        """Work at a failed node again."""
        return self.database.run(self._sql.revive, {"id": id, "cells": b""}) > 0

    def reopen(self, id: int, lo: Position, hi: Position, at: Position) -> None:
        """Walk [at, hi) of a finished node again. Within the caller's transaction."""
        if not before(lo, at):
            self.database.run(self._sql.reopen_all, {"id": id})
            return
        keep = self._cells.last(lo, at) - self._cells.first(lo) + 1
        size = self.width(at, hi)
        if self.database.run(self._sql.reopen, {"id": id, "at": at, "keep": keep, "width": size}):
            self.insert(
                parent=id, kind=NodeKind.STRAND, state=NodeState.PENDING, lo=at, hi=hi, cur=at
            )

    def width(self, lo: Position, hi: Position) -> int:
        """For the ledger of widths, which text does not have."""
        if isinstance(lo, int) and isinstance(hi, int):
            return hi - lo
        return 0

    def _fence(self, node: Node) -> dict[str, Any]:
        return {"id": node.id, "cur": node.cur, **self._owner}

    def _position(self, value: Any) -> Position:
        return int(value) if self._is_ordinal else str(value)

    def _node(self, row: Sequence[Any]) -> Node:
        id, kind, depth, lo, hi, cur, resv, attempts, interrupted, leaves, pace, cells, was, struck = row  # fmt: skip
        start, end = self._position(lo), self._position(hi)
        kept = bytearray(cells)
        blank = self._cells.blank(start, end)
        return Node(
            id=id,
            kind=kind,
            depth=depth,
            lo=start,
            hi=end,
            cur=self._position(cur),
            resv=self._position(resv),
            attempts=attempts,
            interrupted=interrupted,
            leaves=leaves,
            seconds_per_row=pace,
            cells=kept[: len(blank)] + blank[len(kept) :],
            was=self._position(was),
            struck=bool(struck),
        )


_NO_COUNTS: dict[str, Any] = {
    "attempts": 0,
    "interrupted": 0,
    "delay": None,
    "rows_ok": 0,
    "rows_failed": 0,
    "width_ok": 0,
    "width_failed": 0,
    "leaves": 0,
    "retries": 0,
    "error": "",
    "traceback": "",
    "fingerprint": "",
}
