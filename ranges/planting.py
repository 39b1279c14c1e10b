"""The nodes of a run before its lanes and after them: planted, revived, and opened again."""

from __future__ import annotations

from collections.abc import Iterable

from ranges.nodes import Nodes
from ranges.positions import Position, before
from ranges.rewriting import insert, width
from ranges.states import NodeKind, NodeState
from ranges.walking import Step


def plant(nodes: Nodes, bounds: Iterable[tuple[Position, Position]]) -> int:
    """The strands that a run begins with; returns how many."""
    count = 0
    for lo, hi in bounds:
        insert(nodes, kind=NodeKind.STRAND, state=NodeState.PENDING, lo=lo, hi=hi, cur=lo)
        count += 1
    return count


def pass_over(nodes: Nodes, lo: Position, hi: Position) -> None:
    """A run in which nothing needs work is one node, skipped, before any lane was made."""
    plant(nodes, [(lo, hi)])
    node = nodes.claim()
    assert node is not None  # the caller holds the run, and there is no lane yet
    nodes.reserve(node, Step(None, hi))


def in_state(nodes: Nodes, *states: str) -> list[tuple[int, str, Position, Position]]:
    """(id, state, lo, hi) in the order of the axis."""
    rows = nodes.database.rows(nodes.sql.nodes, {"run": nodes.run_id, "states": list(states)})
    return [(id, s, nodes.position(lo), nodes.position(hi)) for id, s, lo, hi in rows]


def revive(nodes: Nodes, id: int) -> bool:
    """Work at a failed node again."""
    return nodes.database.run(nodes.sql.revive, {"id": id, "cells": b""}) > 0


def reopen(nodes: Nodes, id: int, lo: Position, hi: Position, at: Position) -> None:
    """Walk [at, hi) of a finished node again. Within the caller's transaction."""
    if not before(lo, at):
        nodes.database.run(nodes.sql.reopen_all, {"id": id})
        return
    keep = nodes.cells.last(lo, at) - nodes.cells.first(lo) + 1
    size = width(at, hi)
    if nodes.database.run(nodes.sql.reopen, {"id": id, "at": at, "keep": keep, "width": size}):
        insert(
            nodes,
            parent=id, kind=NodeKind.STRAND, state=NodeState.PENDING, lo=at, hi=hi, cur=at,
        )  # fmt: skip
