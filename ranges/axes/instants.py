"""Instants: microseconds since 1970 in UTC, as exact integers.

With `align`, midpoints are starts of local days or hours, as the clocks of a zone show them:

- A day starts at its first midnight. If the clock jumps over midnight, the day starts where the
  jump ends; if midnight comes twice, the first one counts. So days last 23, 24 or 25 hours (or
  whatever a zone has thought of), and each instant belongs to one day.
- Hours follow real time: an hour that the clock shows twice counts twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Literal, assert_never
from zoneinfo import ZoneInfo

from jobs.errors import InvalidInput
from jobs.moments import EPOCH, parse_moment
from ranges.axes.base import OrdinalAxis, wrong_type

type Align = Literal["day", "hour"]

_MICROSECOND = timedelta(microseconds=1)
_STEPS = {"day": timedelta(days=1), "hour": timedelta(hours=1)}
FIRST_INSTANT = datetime.min.replace(tzinfo=UTC)
LAST_INSTANT = datetime.max.replace(tzinfo=UTC)
# The parser would cut them off silently.
_TOO_FINE = re.compile(r"[.,][0-9]{7}")


def _ordinal(moment: datetime) -> int:
    return (moment - EPOCH) // _MICROSECOND


@dataclass(frozen=True, kw_only=True)
class DateTimeAxis(OrdinalAxis[datetime]):
    name: ClassVar[str] = "datetime"
    sql_type: ClassVar[str] = "timestamptz"
    first: ClassVar[int] = _ordinal(FIRST_INSTANT)
    last: ClassVar[int] = _ordinal(LAST_INSTANT)

    align: Align | None = None
    tz: str | None = None
    _zone: ZoneInfo = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.align is None and self.tz is not None:
            raise InvalidInput("is only for align", field="tz")
        if self.align is not None and self.align not in _STEPS:
            raise InvalidInput("must be day or hour", field="align")
        object.__setattr__(self, "_zone", _zone("UTC" if self.tz is None else self.tz))

    def encode(self, key: datetime) -> int:
        return _ordinal(key)

    def decode(self, ordinal: int) -> datetime:
        return EPOCH + timedelta(microseconds=self.require(ordinal))

    def validate(self, value: Any, field: str) -> datetime:
        if not isinstance(value, str | datetime):
            raise wrong_type("a datetime with a time zone", value, field)
        if isinstance(value, str) and _TOO_FINE.search(value):
            raise InvalidInput("is finer than a microsecond", field=field)
        return parse_moment(value, field)

    def to_json(self, key: datetime) -> str:
        return key.astimezone(UTC).isoformat()

    def midpoint(self, lo: datetime, hi: datetime | None) -> datetime | None:
        if self.align is None:
            return super().midpoint(lo, hi)
        start, end = self.encode(lo), self.encode_end(hi)
        middle = start + (end - start) // 2
        if not start < middle < end:
            return None
        marks = set(self._marks_near(middle))
        before = [mark for mark in marks if start < mark <= middle]
        after = [mark for mark in marks if middle < mark < end]
        if before:
            return self.decode(max(before))
        return self.decode(min(after)) if after else None

    def align_down(self, moment: datetime) -> datetime:
        """The last start of a local day or hour at or before the moment."""
        if self.align is None:
            return moment
        ordinal = self.encode(moment)
        marks = [mark for mark in self._marks_near(ordinal) if self.first <= mark <= ordinal]
        return self.decode(max(marks)) if marks else moment

    def _marks_near(self, ordinal: int) -> Iterator[int]:
        """The starts around an instant: in any case the last at or before it and the next after it.

        The clock may be set by up to two steps; only jumps across the date line are more, of which
        a midpoint then knows fewer starts than there are.
        """
        assert self.align is not None
        wall, step = self._wall_clock(self.decode(ordinal)), _STEPS[self.align]
        for count in range(-3, 4):
            try:
                start = wall + count * step
            except OverflowError:  # the calendar ends
                continue
            yield from self._starts(start)

    def _wall_clock(self, moment: datetime) -> datetime:
        """The start of the day or hour that the local clock shows, without a zone."""
        assert self.align is not None
        try:
            wall = moment.astimezone(self._zone).replace(tzinfo=None, fold=0)
        except OverflowError:  # the local year is 0 or 10000
            wall = datetime.min if moment.year == 1 else datetime.max  # noqa: DTZ901
        match self.align:
            case "day":
                return wall.replace(hour=0, minute=0, second=0, microsecond=0)
            case "hour":
                return wall.replace(minute=0, second=0, microsecond=0)
            case _:
                assert_never(self.align)

    def _starts(self, wall: datetime) -> tuple[int, ...]:
        """The instants at which the local day or hour of this wall time starts."""
        first, second = self._instant(wall, fold=0), self._instant(wall, fold=1)
        if first == second:
            return (first,)
        if first < second:
            return (first,) if self.align == "day" else (first, second)
        return (self._end_of_gap(second, first),)

    def _instant(self, wall: datetime, *, fold: int) -> int:
        offset = wall.replace(tzinfo=self._zone, fold=fold).utcoffset()
        assert offset is not None
        return _ordinal(wall.replace(tzinfo=UTC)) - offset // _MICROSECOND

    def _end_of_gap(self, before: int, after: int) -> int:
        """The first instant with the new offset; `before` has the old one and `after` the new."""
        old = self._offset(before)
        while after - before > 1:
            middle = (before + after) // 2
            if self._offset(middle) == old:
                before = middle
            else:
                after = middle
        return after

    def _offset(self, ordinal: int) -> timedelta | None:
        return self.decode(ordinal).astimezone(self._zone).utcoffset()


def _zone(name: object) -> ZoneInfo:
    # "localtime" and its like depend on the machine.
    if isinstance(name, str) and name[:1].isupper():
        try:
            return ZoneInfo(name)
        except (KeyError, ValueError, OSError):
            pass
    raise InvalidInput("is not a known IANA time zone such as Europe/Berlin", field="tz")
