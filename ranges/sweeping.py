"""Does a row behind the cursors need work again? Asked when nothing is left to do.

1. Only a declared `todo` can tell. Pieces of failed keys are left alone: that their rows still need
   work is known.
2. Where the right index exists it is one question for each stretch of finished nodes. Else, or where
   the answer takes too long, all keys are walked along the index of the key, a bounded piece at a
   time: one pass over the table at most. Without that index either it is one statement, as the
   table is read for each question anyway.
3. A sweep may take long, so it can stop anywhere and go on from there. It only looks: what it found
   is written by who holds the run's row, if the nodes are still those that it saw.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from ranges import guard, planting
from ranges.nodes import Nodes
from ranges.positions import Position, before, greatest
from ranges.querying import QuerySource
from ranges.sources import ProbeTimeout
from ranges.states import NodeState

TRIES = 3
PIECE = 100_000
"""So many keys are walked by one statement."""
MOST = 10_000
"""So many keys are taken from one pass over a table without an index."""

type Finished = tuple[int, str, Position, Position]


@dataclass(kw_only=True)
class Sweep:
    """How far it is, and how many nodes were found that have work again."""

    at: Position | None = None
    """Everything before was looked at; None: it has not begun."""
    found: int = 0
    is_done: bool = False
    seen: list[Finished] | None = None
    """The finished nodes, as this slice of it saw them; None: there was nothing to look for."""
    opened: list[tuple[int, Position, Position, Position]] = field(default_factory=list)
    """Of this slice: a node, its bounds, and the key from which on it has work again."""

    def write(self, nodes: Nodes) -> bool:
        """Open what was found; False if the nodes have changed, and nothing was."""
        if self.seen is not None and self.seen != _finished(nodes):
            return False
        for one in self.opened:
            planting.reopen(nodes, *one)
        return True


class Sweeper:
    def __init__(self, source: QuerySource, nodes: Nodes, sweep: Sweep) -> None:
        self._source = source
        self._nodes = nodes
        self._sweep = sweep
        self._probes = source.probing == "witness"
        self._has_index: bool | None = None

    def go_on(self, *, reopen: bool, seconds: float) -> None:
        """Look until the end, or for about so long. Without `reopen` the first find is enough."""
        ends_at = time.monotonic() + seconds
        sweep = self._sweep
        done = sweep.seen = _finished(self._nodes)
        index = 0
        while index < len(done):
            lo, hi = done[index][2], _end_of_stretch(done, index)
            at = lo if sweep.at is None else greatest(lo, sweep.at)
            while before(at, hi):
                keys, at_end = self._look(at, hi)
                for key in keys:
                    if before(key, at):
                        continue  # its node was opened already
                    while not before(key, done[index][3]):
                        index += 1
                    id, _, node_lo, node_hi = done[index]
                    sweep.found += 1
                    if not reopen:
                        sweep.is_done = True
                        return
                    sweep.opened.append((id, node_lo, node_hi, key))
                    at = node_hi
                sweep.at = at = greatest(at, at_end)
                if time.monotonic() > ends_at:
                    return
            while index < len(done) and not before(hi, done[index][3]):
                index += 1
        sweep.is_done = True

    def _look(self, lo: Position, hi: Position) -> tuple[list[Position], Position]:
        """Keys that need work, ascending, and up to where that is all of them but those behind
        each key's own.
        """
        if self._probes:
            for _ in range(TRIES):
                try:
                    witness = self._source.next_leaf(lo, hi, 1)
                except ProbeTimeout:
                    continue
                return ([], hi) if witness is None else ([witness.first], witness.first)
            self._probes = False
        if self._is_indexed():
            piece = self._source.next_leaf(lo, hi, PIECE, blind=True)
            if piece is None:
                return [], hi
            keys = self._source.keys(piece.first, piece.upto, 1)
            return keys, keys[0] if keys else piece.upto
        keys = self._source.keys(lo, hi, MOST)
        return keys, hi if len(keys) < MOST else keys[-1]

    def _is_indexed(self) -> bool:
        if self._has_index is None:
            self._has_index = guard.judge(self._source).index is not None
        return self._has_index


def _finished(nodes: Nodes) -> list[Finished]:
    return planting.in_state(nodes, NodeState.DONE, NodeState.SKIPPED)


def _end_of_stretch(done: list[Finished], index: int) -> Position:
    """Neighbours are asked about in one question."""
    while index + 1 < len(done) and done[index][3] == done[index + 1][2]:
        index += 1
    return done[index][3]
