"""Ranges as values: an axis and two checked bounds, half-open."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from jobs.errors import InvalidInput
from ranges.axes.base import Axis
from ranges.axes.days import DateAxis
from ranges.axes.decimals import DecimalAxis
from ranges.axes.floats import FloatAxis
from ranges.axes.instants import Align, DateTimeAxis
from ranges.axes.integers import IntAxis
from ranges.axes.texts import TextAxis
from ranges.axes.uuids import UUIDAxis


def check_bounds[K](
    axis: Axis[K],
    lo: Any,
    hi: Any,
    *,
    inclusive: bool = False,
    names: tuple[str, str] = ("lo", "hi"),
) -> tuple[K, K | None]:
    """Both bounds as keys of one type, in order; InvalidInput uses the names.

    `inclusive` says that `hi` itself belongs to the range; a returned None then means that nothing
    lies behind it. Equal bounds are an empty range, which is no fault.
    """
    start, end = axis.validate(lo, names[0]), axis.validate(hi, names[1])
    if axis.width(start, end) < 0:
        raise InvalidInput(f"must not lie before {names[0]}", field=names[1])
    return start, axis.successor(end) if inclusive else end


@dataclass(frozen=True, init=False)
class Span[K]:
    """[lo, hi) on an axis; `hi` None: up to the last key of the type, included."""

    axis: Axis[K]
    lo: K
    hi: K | None

    def __init__(self, axis: Axis[K], lo: Any, hi: Any, *, inclusive: bool = False) -> None:
        start, end = check_bounds(axis, lo, hi, inclusive=inclusive)
        object.__setattr__(self, "axis", axis)
        object.__setattr__(self, "lo", start)
        object.__setattr__(self, "hi", end)

    @property
    def width(self) -> int:
        return self.axis.width(self.lo, self.hi)

    @property
    def is_empty(self) -> bool:
        return self.width == 0


class IntRange(Span[int]):
    def __init__(self, lo: int | str, hi: int | str, *, inclusive: bool = False) -> None:
        super().__init__(IntAxis(), lo, hi, inclusive=inclusive)


class DateRange(Span[date]):
    def __init__(self, lo: date | str, hi: date | str, *, inclusive: bool = False) -> None:
        super().__init__(DateAxis(), lo, hi, inclusive=inclusive)


class DateTimeRange(Span[datetime]):
    """`align` puts midpoints on the starts of days or hours in the zone, UTC if none is given."""

    def __init__(
        self,
        lo: datetime | str,
        hi: datetime | str,
        align: Align | None = None,
        tz: str | ZoneInfo | None = None,
        *,
        inclusive: bool = False,
    ) -> None:
        name = tz.key if isinstance(tz, ZoneInfo) else tz
        super().__init__(DateTimeAxis(align=align, tz=name), lo, hi, inclusive=inclusive)


class TextRange(Span[str]):
    def __init__(self, lo: str, hi: str, *, inclusive: bool = False) -> None:
        super().__init__(TextAxis(), lo, hi, inclusive=inclusive)


class UUIDRange(Span[UUID]):
    def __init__(self, lo: UUID | str, hi: UUID | str, *, inclusive: bool = False) -> None:
        super().__init__(UUIDAxis(), lo, hi, inclusive=inclusive)


class DecimalRange(Span[Decimal]):
    def __init__(
        self,
        lo: Decimal | int | str,
        hi: Decimal | int | str,
        places: int,
        *,
        inclusive: bool = False,
    ) -> None:
        super().__init__(DecimalAxis(decimal_places=places), lo, hi, inclusive=inclusive)


class FloatRange(Span[float]):
    def __init__(self, lo: float | str, hi: float | str, *, inclusive: bool = False) -> None:
        super().__init__(FloatAxis(), lo, hi, inclusive=inclusive)
