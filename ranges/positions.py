"""Positions: what cursors and bounds are made of, whatever the key type.

An ordinal axis counts its keys, so a position is an int; a text axis compares by code point, so a
position is the text itself. Everything between a run's bounds and a leaf speaks in positions;
users see keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from ranges.axes.base import Axis

type Position = int | str


def position_of(axis: Axis[Any], key: Any) -> Position:
    return axis.encode(key) if axis.is_ordinal else cast(str, key)


def end_position(axis: Axis[Any], hi: Any) -> Position:
    """Of an upper bound; None is the place past the last key of the type."""
    return axis.encode_end(hi) if axis.is_ordinal else cast(str, hi)


def key_at(axis: Axis[Any], position: Position) -> Any:
    return axis.decode(cast(int, position)) if axis.is_ordinal else position


def end_key(axis: Axis[Any], position: Position) -> Any:
    """Of an upper bound; None: no key lies past it."""
    return axis.decode_end(cast(int, position)) if axis.is_ordinal else position


def width(axis: Axis[Any], lo: Position, hi: Position) -> int:
    """How many keys [lo, hi) could hold; of text a projection, good for shares only."""
    if axis.is_ordinal:
        return cast(int, hi) - cast(int, lo)
    return axis.width(lo, hi)


def midpoint(axis: Axis[Any], lo: Position, hi: Position) -> Position | None:
    """Strictly between, where the axis would cut; None when [lo, hi) cannot be cut."""
    if axis.is_ordinal:
        lo, hi = cast(int, lo), cast(int, hi)
        if hi - lo < 2:
            return None
        middle: Position = lo + (hi - lo) // 2
        if axis.name == "int":
            return middle
        chosen = axis.midpoint(axis.decode(lo), axis.decode_end(hi))
        if chosen is None:
            return None
        position: Position = axis.encode(chosen)
    else:
        chosen = axis.midpoint(lo, hi)
        if chosen is None:
            return None
        position = cast(str, chosen)
    # An axis of somebody's own is not trusted with termination.
    return position if before(lo, position) and before(position, hi) else None


def before(left: Position, right: Position) -> bool:
    """Whether one position lies before another of the same axis."""
    return left < right  # type: ignore[operator]


def least(left: Position, right: Position) -> Position:
    return right if before(right, left) else left


def greatest(left: Position, right: Position) -> Position:
    return right if before(left, right) else left
