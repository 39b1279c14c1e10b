"""The bounds of a run, fixed once, from what the user asked for and what there is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from jobs.errors import InvalidInput
from ranges.positions import Position, before, position_of
from ranges.sizing import least_size
from ranges.sources import PlainSource, Source

if TYPE_CHECKING:
    from ranges.axes.base import Axis


def bounds_of(source: Source, start: Any, end: Any) -> tuple[Position, Position]:
    """The run's [lo, hi), fixed once, from what the user asked for.

    `end` is exclusive. None: from the first key, up to and with the last one. InvalidInput names
    `start` or `end`. Nothing to do is an empty range, lo = hi, which is no fault.
    """
    axis = source.axis
    lo = None if start is None else position_of(axis, axis.validate(start, "start"))
    hi = None if end is None else position_of(axis, axis.validate(end, "end"))
    if lo is not None and hi is not None and before(hi, lo):
        raise InvalidInput("must not lie before start", field="end")
    if not source.counts_rows:
        return _inside(source, lo, hi)
    if lo is None or hi is None:
        limits = source.limits(lo, hi)
        if limits is None:
            nothing = lo if lo is not None else hi if hi is not None else _any_position(axis)
            return nothing, nothing
        return (limits[0] if lo is None else lo), (limits[1] if hi is None else hi)
    return lo, hi


def least_leaf(source: Source, bounds: tuple[Position, Position], max_depth: int | None) -> int:
    """The smallest leaf size that a largest depth allows."""
    if max_depth is None or not before(*bounds):
        return 1
    return least_size(source.estimate(*bounds), max_depth)


class OpenSource(PlainSource):
    """An axis alone: every run says its own bounds."""

    def __init__(self, axis: Axis[Any], *, depth: int | None) -> None:
        place = _any_position(axis)
        super().__init__(axis, place, place, depth=depth)


def _inside(source: Source, lo: Position | None, hi: Position | None) -> tuple[Position, Position]:
    if isinstance(source, OpenSource):
        if lo is None or hi is None:
            raise InvalidInput("is needed", field="start" if lo is None else "end")
        source.open(lo, hi)
        return lo, hi
    limits = source.limits()
    if limits is None:
        place = lo if lo is not None else hi if hi is not None else _any_position(source.axis)
        return place, place
    first, last = limits
    for place_asked, field in ((lo, "start"), (hi, "end")):
        if place_asked is not None and (before(place_asked, first) or before(last, place_asked)):
            raise InvalidInput("lies outside the declared range", field=field)
    return (first if lo is None else lo), (last if hi is None else hi)


def _any_position(axis: Axis[Any]) -> Position:
    if not axis.is_ordinal:
        return ""
    try:
        axis.decode(0)
    except (ValueError, OverflowError):
        return cast(int, getattr(axis, "first", 0))
    return 0
