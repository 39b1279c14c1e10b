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

What replaces a leaf that failed is in `rewriting.py`, what happens before and after the lanes in
`planting.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jobs.database import Database
from ranges.cells import Cells
from ranges.held import Busy, Fenced, Lease, Node, Standing
from ranges.positions import Position
from ranges.splitting import cool_down_seconds
from ranges.statements import ATTEMPTED, FENCED, OPEN, ORDINAL, TEXT, Statements
from ranges.states import CELL_PROCESSED, CELL_SKIPPED, NodeKind, NodeState
from ranges.timings import bucket_of
from ranges.walking import Step


class Nodes:
    """The statements of one run for one owner."""

    def __init__(
        self,
        database: Database,
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
        self.cells = cells
        self.sql: Statements = ORDINAL if is_ordinal else TEXT
        self.owner: dict[str, Any] = {"job": lease.job_id, "epoch": lease.epoch}
        self._is_ordinal = is_ordinal
        self._hard = hard_seconds

    # Taking and giving back

    def claim(self) -> Node | None:
        """A pending node, or one whose owner is dead.

        None may also mean that rivals held the rows for a moment: ask `open` before going home.
        """
        rows = self.database.rows(
            self.sql.claim, {"run": self.run_id, "hard": self._hard, **self.owner}
        )
        return self._node(rows[0]) if rows else None

    def release(
        self, node: Node, *, delay: float | None = None, failures: int = 0, error: str = ""
    ) -> bool:
        """Give the node back with its cursor; False if it was somebody else's already."""
        return bool(
            self.database.rows(
                self.sql.release,
                {"delay": delay, "failures": failures, "error": error, **self.fence(node)},
            )
        )

    def release_orphans(self) -> int:
        """Free what dead lanes held."""
        return len(self.database.rows(self.sql.release_orphans, {"run": self.run_id}))

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
        start = step.hi if step.lo is None else step.lo
        cells = self.cells.marked(node.cells, node.lo, node.cur, start, CELL_SKIPPED)
        return self._move(node, self.sql.reserve, step, start, cells, {})

    def commit(
        self, node: Node, step: Step, *, items: int, seconds: float, pace: float | None
    ) -> Standing:
        """The leaf [cur, resv) is done; take the step behind it. Raises Fenced."""
        start = step.hi if step.lo is None else step.lo
        cells = self.cells.marked(node.cells, node.lo, node.cur, node.resv, CELL_PROCESSED)
        cells = self.cells.marked(cells, node.lo, node.resv, start, CELL_SKIPPED)
        facts = {
            "rows": items,
            "seconds": seconds,
            "pace": pace,
            "bucket": str(bucket_of(seconds)),
            "resv": node.resv,
        }
        standing = self._move(node, self.sql.commit, step, start, cells, facts)
        node.leaves += 1
        node.attempts = node.interrupted = 0
        return standing

    def checkpoint(self, node: Node, upto: Position, *, items: int) -> str:
        """[cur, upto) of the leaf is done; returns the run's status. Raises Fenced."""
        cells = self.cells.marked(node.cells, node.lo, node.cur, upto, CELL_PROCESSED)
        rows = self.database.rows(
            self.sql.checkpoint,
            {
                "upto": upto,
                "rows": items,
                "cells": None if cells is node.cells else bytes(cells),
                **self.fence(node),
            },
        )
        if not rows:
            raise Fenced("another lane has the node")
        node.cur, node.cells = upto, cells
        return str(rows[0][0])

    def _move(
        self,
        node: Node,
        sql: str,
        step: Step,
        start: Position,
        cells: bytearray,
        facts: dict[str, Any],
    ) -> Standing:
        rows = self.database.rows(
            sql,
            {
                "lo": start,
                "upto": step.hi,
                "cells": None if cells is node.cells else bytes(cells),
                **facts,
                **self.fence(node),
            },
        )
        if not rows:
            raise Fenced("another lane has the node")
        hi, cur, resv, state, status, concurrency = rows[0]
        node.hi, node.cur, node.resv = self.position(hi), self.position(cur), self.position(resv)
        node.cells = cells
        return Standing(status, concurrency, state != NodeState.RUNNING)

    # Stealing

    def victims(self) -> list[Busy]:
        """Strands that may be stolen from."""
        return [
            Busy(id, self.position(hi), self.position(resv), pace, thefts, cool or 0.0)
            for id, hi, resv, pace, thefts, cool in self.database.rows(
                self.sql.victims, {"run": self.run_id}
            )
        ]

    def steal(self, victim: Busy, at: Position) -> int | None:
        """Take [at, hi) of a strand at work as a node of ours; None if it has moved on."""
        rows = self.database.rows(
            self.sql.steal,
            {
                "victim": victim.id,
                "hi": victim.hi,
                "at": at,
                "cool": cool_down_seconds(victim.thefts + 1),
                "cells": b"",
                **self.owner,
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
            cells=self.cells.blank(at, hi),
            was=at,
        )

    # Rows and values

    def fence(self, node: Node) -> dict[str, Any]:
        return {"id": node.id, "cur": node.cur, **self.owner}

    def position(self, value: Any) -> Position:
        return int(value) if self._is_ordinal else str(value)

    def _node(self, row: Sequence[Any]) -> Node:
        id, kind, depth, lo, hi, cur, resv, attempts, interrupted, leaves, pace, cells, was, struck = row  # fmt: skip
        start, end = self.position(lo), self.position(hi)
        kept = bytearray(cells)
        blank = self.cells.blank(start, end)
        return Node(
            id=id,
            kind=kind,
            depth=depth,
            lo=start,
            hi=end,
            cur=self.position(cur),
            resv=self.position(resv),
            attempts=attempts,
            interrupted=interrupted,
            leaves=leaves,
            seconds_per_row=pace,
            cells=kept[: len(blank)] + blank[len(kept) :],
            was=self.position(was),
            struck=bool(struck),
        )
