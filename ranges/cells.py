"""Where on a run's axis work was done: one byte of flags for each of at most 1,024 steps.

A node keeps the cells that its [lo, hi) touches, the first one first. Two nodes that meet inside a
cell both have a byte for it; whoever draws joins them. Pure: no Django.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ranges.positions import Position
from ranges.states import CELLS

if TYPE_CHECKING:
    from ranges.axes.base import Axis


class Cells:
    """The cutting of one run's axis. Text is measured by its projection."""

    def __init__(self, axis: Axis[Any], lo: Position, hi: Position) -> None:
        self._axis = axis
        self._start = self._measure(lo)
        self._width = max(1, self._measure(hi) - self._start)
        self.count = min(CELLS, self._width)

    def first(self, position: Position) -> int:
        """The cell that holds this position; the bounds of the run hold whatever lies outside."""
        return self._cell(self._measure(position))

    def last(self, lo: Position, hi: Position) -> int:
        """The cell of the last key before `hi`."""
        return self._cell(max(self._measure(lo), self._measure(hi) - 1))

    def blank(self, lo: Position, hi: Position) -> bytearray:
        return bytearray(self.last(lo, hi) - self.first(lo) + 1)

    def flagged(self, lo: Position, hi: Position, flag: int) -> bytearray:
        """The cells of a node of which all is of one kind."""
        return bytearray([flag]) * (self.last(lo, hi) - self.first(lo) + 1)

    def marked(
        self, cells: bytearray, node_lo: Position, lo: Position, hi: Position, flag: int
    ) -> bytearray:
        """The cells with a flag set for [lo, hi): a copy, or these themselves if it is no news."""
        if lo == hi:
            return cells
        offset = self.first(node_lo)
        first, last = self.first(lo) - offset, self.last(lo, hi) - offset
        if last < len(cells) and all(cells[index] & flag for index in range(first, last + 1)):
            return cells
        copy = bytearray(cells)
        self.mark(copy, node_lo, lo, hi, flag)
        return copy

    def mark(
        self, cells: bytearray, node_lo: Position, lo: Position, hi: Position, flag: int
    ) -> bool:
        """Set a flag for [lo, hi) in the cells of a node from `node_lo`; whether that is news."""
        if lo == hi:
            return False
        offset = self.first(node_lo)
        first, last = self.first(lo) - offset, self.last(lo, hi) - offset
        if last >= len(cells):
            cells.extend(bytes(last + 1 - len(cells)))
        changed = False
        for index in range(first, last + 1):
            if not cells[index] & flag:
                cells[index] |= flag
                changed = True
        return changed

    def _measure(self, position: Position) -> int:
        return position if isinstance(position, int) else self._axis.encode(position)

    def _cell(self, place: int) -> int:
        return min(self.count - 1, max(0, (place - self._start) * self.count // self._width))
