"""A leaf replaced by nodes of its own: what failed is tried alone, and the strand goes on behind it.

    [ done )[ leaf )[ ahead )   ->   strand, done | one node for each segment | strand, of the owner

One transaction, and the caller's: the union of the nodes is the same before and after.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from ranges.held import Fenced, Node, Segment
from ranges.nodes import Nodes
from ranges.positions import Position, before
from ranges.states import CELL_FAILED, CELL_PROCESSED, NodeKind, NodeState


def rewrite(nodes: Nodes, node: Node, segments: Sequence[Segment]) -> tuple[list[int], Node | None]:
    """Replace the leaf [cur, resv) by nodes of its own, one for each segment.

    The segments chain from `cur` to `resv`. What lies before stays with the node, what lies behind
    becomes a strand of the same owner, which is returned; None if there is nothing. Returns the
    segments' node ids as well. Raises Fenced.
    """
    assert segments[0].lo == node.cur
    assert segments[-1].hi == node.resv
    assert all(one.hi == other.lo for one, other in pairwise(segments))
    rows = nodes.database.rows(nodes.sql.hold, nodes.fence(node))
    if not rows:
        raise Fenced("another lane has the node")
    hi = nodes.position(rows[0][4])
    goes_on = before(node.resv, hi)
    has_done = before(node.lo, node.cur)
    ids: list[int] = []
    rest: Node | None = None
    if has_done:
        _shrink(nodes, node)
    elif goes_on:
        rest = _shift(nodes, node, hi)
    for index, segment in enumerate(segments):
        if index == 0 and not has_done and not goes_on:
            _become(nodes, node, segment)
            ids.append(node.id)
        else:
            ids.append(_insert_segment(nodes, node, segment))
    if goes_on and rest is None:
        rest = _go_on(nodes, node, hi)
    return ids, rest


def insert(
    nodes: Nodes,
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
    rows = nodes.database.rows(
        nodes.sql.insert,
        {
            "run": nodes.run_id,
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


def width(lo: Position, hi: Position) -> int:
    """For the ledger of widths, which text does not have."""
    if isinstance(lo, int) and isinstance(hi, int):
        return hi - lo
    return 0


# The old node


def _shrink(nodes: Nodes, node: Node) -> None:
    """The node ends where its cursor is."""
    cells = node.cells[: nodes.cells.last(node.lo, node.cur) - nodes.cells.first(node.lo) + 1]
    state = NodeState.DONE if node.leaves else NodeState.SKIPPED
    _write(
        nodes, node, kind=NodeKind.STRAND, state=state, lo=node.lo, hi=node.cur, cur=node.cur,
        cells=bytes(cells), depth=node.depth,
    )  # fmt: skip


def _shift(nodes: Nodes, node: Node, hi: Position) -> Node:
    """The node, of which nothing is done, begins behind the leaf."""
    rest = nodes.stolen(node.id, node.resv, hi, node.seconds_per_row)
    rest.depth = node.depth
    _write(
        nodes, node, kind=node.kind, state=NodeState.RUNNING, lo=node.resv, hi=hi, cur=node.resv,
        cells=b"", depth=node.depth, owned=True,
    )  # fmt: skip
    return rest


def _become(nodes: Nodes, node: Node, segment: Segment) -> None:
    """The node, which is nothing but the leaf, becomes its first segment."""
    _write(
        nodes, node, kind=NodeKind.BISECT, state=segment.state, lo=segment.lo, hi=segment.hi,
        cur=_cursor(segment), cells=_cells(nodes, segment), depth=segment.depth, segment=segment,
    )  # fmt: skip


def _write(
    nodes: Nodes,
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
    counts = _counts(segment) if segment is not None else _NO_COUNTS
    owner = nodes.owner if owned else {"job": None, "epoch": None}
    facts = {"kind": kind, "state": state, "lo": lo, "hi": hi, "cur": cur, "cells": cells}
    nodes.database.run(
        nodes.sql.rewrite, {"id": node.id, "depth": depth, **facts, **counts, **owner}
    )


# The new ones


def _go_on(nodes: Nodes, node: Node, hi: Position) -> Node:
    rest = nodes.stolen(0, node.resv, hi, node.seconds_per_row)
    rest.depth = node.depth
    rest.id = insert(
        nodes,
        parent=node.id,
        kind=NodeKind.STRAND,
        state=NodeState.RUNNING,
        depth=node.depth,
        lo=node.resv,
        hi=hi,
        cur=node.resv,
        pace=node.seconds_per_row,
        **nodes.owner,
    )
    return rest


def _insert_segment(nodes: Nodes, node: Node, segment: Segment) -> int:
    return insert(
        nodes,
        parent=node.id,
        kind=NodeKind.BISECT,
        state=segment.state,
        lo=segment.lo,
        hi=segment.hi,
        cur=_cursor(segment),
        depth=segment.depth,
        pace=node.seconds_per_row,
        cells=_cells(nodes, segment),
        **_counts(segment),
    )


def _cursor(segment: Segment) -> Position:
    return segment.lo if segment.state == NodeState.PENDING else segment.hi


def _cells(nodes: Nodes, segment: Segment) -> bytes:
    flag = {NodeState.DONE: CELL_PROCESSED, NodeState.ERROR: CELL_FAILED}.get(
        NodeState(segment.state)
    )
    if flag is None:
        return b""
    return bytes(nodes.cells.flagged(segment.lo, segment.hi, flag))


def _counts(segment: Segment) -> dict[str, Any]:
    is_done = segment.state == NodeState.DONE
    is_error = segment.state == NodeState.ERROR
    size = width(segment.lo, segment.hi)
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
