"""Finished neighbours become one node, so that a run in which much fails keeps few rows.

Each leaf that fails leaves nodes behind: what was done before it, its halves, what goes on behind
it. Those that ended the same way and touch are merged, with all that was counted: their union is
the same before and after. Nodes of failed keys stay, since their failures point to them.

The run's row is held meanwhile, as a step of the run holds it: so nothing is opened again under
this. Nodes at work are left alone, but for the number of a parent that is gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ranges.nodes import Nodes
from ranges.positions import Position

MOST_FINISHED = 200
"""So many finished nodes are no burden, and tell how the run went."""


class Finished(NamedTuple):
    id: int
    state: str
    lo: Position
    hi: Position
    cells: bytes


def merge(nodes: Nodes) -> int:
    """Merge what can be, if there are many; returns how many nodes are gone."""
    database, run = nodes.database, {"run": nodes.run_id}
    if database.rows(nodes.sql.finished_count, run)[0][0] <= MOST_FINISHED:
        return 0
    with database.transaction():
        if not database.rows(nodes.sql.hold_run, run):
            return 0  # somebody decides about the run just now
        rows = [
            Finished(id, state, nodes.position(lo), nodes.position(hi), bytes(cells))
            for id, state, lo, hi, cells in database.rows(nodes.sql.finished, run)
        ]
        gone: list[int] = []
        heirs: list[int] = []
        for stretch in stretches(rows):
            first, *others = stretch
            ids = [each.id for each in stretch]
            cells = _cells(nodes, stretch)
            database.run(nodes.sql.merge, {"id": first.id, "ids": ids, "cells": cells})
            gone += ids[1:]
            heirs += [first.id] * len(others)
        if gone:
            moved = {**run, "gone": gone, "heirs": heirs}
            database.run(nodes.sql.hand_children, moved)
            database.run(nodes.sql.hand_failures, moved)
            database.run(nodes.sql.remove, moved)
    return len(gone)


def stretches(rows: Sequence[Finished]) -> Iterator[list[Finished]]:
    """Two or more that touch and ended the same way, of rows in the order of the axis."""
    found: list[Finished] = []
    for row in rows:
        if found and (found[-1].hi != row.lo or found[-1].state != row.state):
            if len(found) > 1:
                yield found
            found = []
        found.append(row)
    if len(found) > 1:
        yield found


def _cells(nodes: Nodes, stretch: Sequence[Finished]) -> bytes:
    """Two nodes that meet inside a cell both have a byte for it.

    Of each only what lies within its bounds: a skip that a thief cut short left flags behind them.
    """
    grid = nodes.cells
    lo, hi = stretch[0].lo, stretch[-1].hi
    joined, start = grid.blank(lo, hi), grid.first(lo)
    for each in stretch:
        own = grid.last(each.lo, each.hi) + 1 - grid.first(each.lo) if each.lo != each.hi else 0
        for index, flags in enumerate(each.cells[:own], grid.first(each.lo) - start):
            joined[index] |= flags
    return bytes(joined)
