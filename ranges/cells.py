"""The strip of a run: its axis cut once into at most 1,024 cells, one byte of flags each.

A strand holds only sums; the cells say where. A piece marks the cells that it touches, so a cell
may show several things at once. Of text the cells lie on the projection of the first characters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ranges.positions import Position, key_at
from ranges.states import CELLS

if TYPE_CHECKING:
    from ranges.axes.base import Axis


class Grid:
    """Which cells of the run's [lo, hi) a piece touches."""

    __slots__ = ("_axis", "_ordinal", "_start", "_width", "count")

    def __init__(self, axis: Axis[Any], lo: Position, hi: Position) -> None:
        self._axis = axis
        self._ordinal = axis.is_ordinal
        self._start = self._place(lo)
        self._width = max(self._place(hi) - self._start, 1)
        self.count = min(CELLS, self._width)

    def first(self, lo: Position) -> int:
        """The cell that a piece starts in."""
        cell = (self._place(lo) - self._start) * self.count // self._width
        return max(0, min(cell, self.count - 1))

    def past(self, hi: Position) -> int:
        """The cell behind the last one that a piece touches."""
        cell = -((self._start - self._place(hi)) * self.count // self._width)
        return max(1, min(cell, self.count))

    def length(self, lo: Position, hi: Position) -> int:
        """How many cells a piece touches: what a node of [lo, hi) stores."""
        return max(self.past(hi) - self.first(lo), 1)

    def mark(self, cells: bytearray, offset: int, lo: Position, hi: Position, flag: int) -> None:
        """Set the flag in all cells that [lo, hi) touches; `cells` begins with cell `offset`."""
        first, past = self.first(lo) - offset, self.past(hi) - offset
        if past <= first + 1:
            cells[first] |= flag
            return
        for cell in range(first, min(past, len(cells))):
            cells[cell] |= flag

    def bounds(self, cell: int) -> tuple[int, int]:
        """The places of a cell on the axis: [lo, hi) as ordinals (of text: of the projection)."""
        lo = self._start - (-cell * self._width // self.count)
        hi = self._start - (-(cell + 1) * self._width // self.count)
        return lo, hi

    def _place(self, position: Position) -> int:
        if self._ordinal:
            assert isinstance(position, int)
            return position
        return self._axis.encode(key_at(self._axis, position))
