"""When a recurring job runs: the rules and their slots.

A slot is one nominal moment that a rule asks for, always an aware UTC datetime. Slots follow from
the rule alone, never from when somebody looked, so they neither drift nor double. There is no
clock in here: every "now" is handed in.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from copy import copy
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from jobs.errors import InvalidInput
from jobs.moments import EPOCH, INSTANT, as_utc, parse_moment, zone_named

LONGEST_INTERVAL = timedelta(days=3653)

_DAY = timedelta(days=1)
_HOUR = timedelta(hours=1)


def parse_rule(
    recur_interval: str | None,
    cron: str | None,
    time_zone: str | None,
    *,
    anchor: datetime = EPOCH,
) -> Rule | None:
    """The rule that a caller asked for, or None; InvalidInput names the field that is wrong."""
    if recur_interval is not None and cron is not None:
        raise InvalidInput("cannot be given together with recur_interval", field="cron")
    if cron is not None:
        return CronRule(cron=cron, time_zone="UTC" if time_zone is None else time_zone)
    if time_zone is not None:
        raise InvalidInput("is only for a cron expression", field="time_zone")
    if recur_interval is not None:
        return IntervalRule(seconds=_parse_interval(recur_interval), anchor=anchor)
    return None


def rule_from_columns(
    *, interval_seconds: int | None, anchor_at: datetime, cron: str, time_zone: str
) -> Rule:
    """The rule of a stored schedule."""
    if interval_seconds is not None:
        return IntervalRule(seconds=interval_seconds, anchor=anchor_at)
    return CronRule(cron=cron, time_zone=time_zone)


# Intervals

_UNITS = {"day": 86_400, "hour": 3_600, "minute": 60, "second": 1}
_INTERVAL = re.compile(r"every_([1-9][0-9]{0,9})_(second|minute|hour|day)s?")


@dataclass(frozen=True, kw_only=True)
class IntervalRule:
    """Fixed rate: the slots are `anchor`, `anchor + seconds`, `anchor + 2 * seconds` ..."""

    seconds: int
    anchor: datetime = EPOCH

    def __post_init__(self) -> None:
        if not 1 <= self.seconds <= LONGEST_INTERVAL.total_seconds():
            raise InvalidInput("must be from 1 second to 10 years", field="recur_interval")
        object.__setattr__(self, "anchor", parse_moment(self.anchor, "anchor"))

    def next_after(self, moment: datetime) -> datetime:
        """The first slot after the moment; InvalidInput where the calendar ends (year 9999)."""
        steps = self._steps(moment) + 1
        try:
            return self.anchor + steps * timedelta(seconds=self.seconds)
        except OverflowError:
            raise _calendar_ends("recur_interval") from None

    def upcoming(self, moment: datetime, count: int) -> list[datetime]:
        """The next `count` slots after the moment; fewer where the calendar ends."""
        return _upcoming(self, moment, count)

    def slots_between(self, after: datetime, until: datetime, limit: int) -> list[datetime]:
        """The slots with `after < slot <= until`, at most the first `limit` of them."""
        return _slots_between(self, after, until, limit)

    def latest_between(self, after: datetime, until: datetime) -> datetime | None:
        """The last slot with `after < slot <= until`."""
        if not self.count_between(after, until):
            return None
        return self.anchor + self._steps(until) * timedelta(seconds=self.seconds)

    def count_between(self, after: datetime, until: datetime) -> int:
        """How many slots have `after < slot <= until`."""
        return max(self._steps(until) - self._steps(after), 0)

    def describe(self) -> str:
        count, unit = self._count_and_unit()
        return f"every {unit}" if count == 1 else f"every {count} {unit}s"

    def to_columns(self) -> dict[str, Any]:
        count, unit = self._count_and_unit()
        return {
            "recur_interval": f"every_{count}_{unit}{'s' if count > 1 else ''}",
            "interval_seconds": self.seconds,
            "anchor_at": self.anchor,
            "cron": "",
            "time_zone": "UTC",
        }

    def _steps(self, moment: datetime) -> int:
        """The number of the last slot that is not after the moment; -1 before the anchor."""
        return max((moment - self.anchor) // timedelta(seconds=self.seconds), -1)

    def _count_and_unit(self) -> tuple[int, str]:
        unit = next(unit for unit, size in _UNITS.items() if self.seconds % size == 0)
        return self.seconds // _UNITS[unit], unit


def _parse_interval(text: object) -> int:
    found = _INTERVAL.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise InvalidInput(
            "must look like every_5_minutes: every_<number>_<seconds, minutes, hours or days>",
            field="recur_interval",
        )
    return int(found[1]) * _UNITS[found[2]]


# Cron

_LONGEST_CRON = 200
_ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_BARE_STAR = re.compile(r"\*(/0*1)?(,.*)?")
_PROBE = datetime(2000, 1, 1)  # noqa: DTZ001 - wall time, on purpose


@dataclass(frozen=True, kw_only=True)
class CronRule:
    """A five-field cron expression, or an alias such as @daily, read in an IANA time zone.

    Days: when both day-of-month and day-of-week are restricted, a day that matches either of them
    is taken (POSIX). Only a field that begins with a bare `*` is unrestricted; `*/2` restricts.

    Clock changes: what decides is whether the hour field allows every hour.

    - It does (`*`, `*/1`, `0-23`): the rule runs with real time and fires at every instant at which
      the local clock shows a matching time. `0 * * * *` fires 25 times on a day with a repeated
      hour and 23 times on a day with a missing one.
    - It does not: every matching local date and time stands for one instant. A time that occurs
      twice means its first occurrence. A time that does not exist means the first instant after
      the gap; should several fall there, they are one slot. So a daily rule fires exactly once
      each local day.

    An expression without a match within fifty years (30 February) is refused.
    """

    cron: str
    time_zone: str = "UTC"
    zone: ZoneInfo = field(init=False, repr=False, compare=False)
    _calendar: CronSim = field(init=False, repr=False, compare=False)
    _times: list[time] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        expression = _expand(self.cron)
        calendar = _calendar(expression)
        times = [time(hour, minute) for hour in calendar.hours for minute in calendar.minutes]
        object.__setattr__(self, "cron", expression)
        object.__setattr__(self, "zone", zone_named(self.time_zone))
        object.__setattr__(self, "_calendar", calendar)
        object.__setattr__(self, "_times", sorted(times))

    def next_after(self, moment: datetime) -> datetime:
        """The first slot after the moment; InvalidInput where the calendar ends (year 9999)."""
        try:
            moment = as_utc(moment)
            here = moment.astimezone(self.zone)
            wall = here.replace(tzinfo=None, fold=0)
            found = self._first_after(moment, wall)
            repeats = _repeated(here)
            if repeats and self._every_hour:
                # Later instants may show earlier times once more.
                found = min(found, self._first_after(moment, wall - repeats))
        except (OverflowError, StopIteration):
            raise _calendar_ends("cron") from None
        return found

    def upcoming(self, moment: datetime, count: int) -> list[datetime]:
        """The next `count` slots after the moment; fewer where the calendar ends."""
        return _upcoming(self, moment, count)

    def slots_between(self, after: datetime, until: datetime, limit: int) -> list[datetime]:
        """The slots with `after < slot <= until`, at most the first `limit` of them."""
        return _slots_between(self, after, until, limit)

    def latest_between(self, after: datetime, until: datetime) -> datetime | None:
        """The last slot with `after < slot <= until`, found by halving."""
        found = self.slots_between(after, until, 1)
        if not found:
            return None
        low, high = found[0], as_utc(until)
        while high - low > INSTANT:
            middle = low + (high - low) / 2
            later = self.slots_between(middle, until, 1)
            if later:
                low = later[0]
            else:
                high = middle
        return low

    def count_between(self, after: datetime, until: datetime) -> int:
        """How many slots have `after < slot <= until`, counted by days, not one by one."""
        total, after, until = 0, as_utc(after), as_utc(until)
        while after < until:
            end = min(after + _DAY, until)
            while not (even := self._is_even(after, end)) and end - after > _HOUR:
                end = after + (end - after) / 2
            if even:
                here, there = after.astimezone(self.zone), end.astimezone(self.zone)
                total += self._counted_to(there) - self._counted_to(here)
                if here.date() != there.date() and self._matches(here.date()):
                    total += len(self._times)
            else:
                total += len(self.slots_between(after, end, 100))
            after = end
        return total

    def describe(self) -> str:
        text = self._calendar.explain()
        if not self._calendar.day_and:
            text += " (either day is enough)"
        return f"{text}, {self.time_zone} time"

    def shows(self, local: datetime) -> bool:
        """Whether a clock with this time matches: a slot's does, unless a gap has swallowed it."""
        return self._matches(local.date()) and local.time() in self._times

    def to_columns(self) -> dict[str, Any]:
        return {
            "recur_interval": "",
            "interval_seconds": None,
            "cron": self.cron,
            "time_zone": self.time_zone,
        }

    @property
    def _every_hour(self) -> bool:
        return len(self._calendar.hours) == 24

    def _first_after(self, moment: datetime, wall: datetime) -> datetime:
        calendar = copy(self._calendar)
        calendar.dt = wall.replace(microsecond=0)
        while True:
            for instant in self._instants(next(calendar)):
                if instant > moment:
                    return instant

    def _instants(self, wall: datetime) -> tuple[datetime, ...]:
        """The instants that a matching wall time stands for, by the rules of the class."""
        first = wall.replace(tzinfo=self.zone).astimezone(UTC)
        second = wall.replace(tzinfo=self.zone, fold=1).astimezone(UTC)
        if first == second:
            return (first,)
        if first < second:
            return (first, second) if self._every_hour else (first,)
        return () if self._every_hour else (_end_of_gap(second, first, self.zone),)

    def _is_even(self, after: datetime, until: datetime) -> bool:
        """Whether the local clock runs from one to the other without a change or a repeat."""
        here, there = after.astimezone(self.zone), until.astimezone(self.zone)
        return here.utcoffset() == there.utcoffset() and not here.fold

    def _counted_to(self, here: datetime) -> int:
        """Matching times of that local day, up to and with that time."""
        if not self._matches(here.date()):
            return 0
        return bisect_right(self._times, here.time())

    def _matches(self, day: date) -> bool:
        return day.month in self._calendar.months and self._calendar.match_day(day)


def _expand(cron: object) -> str:
    """The expression in five fields with single spaces."""
    if not isinstance(cron, str):
        raise InvalidInput("must be a text of five fields", field="cron")
    if len(cron) > _LONGEST_CRON:
        raise InvalidInput(f"is longer than {_LONGEST_CRON} characters", field="cron")
    expression = _ALIASES.get(cron.strip().lower(), cron)
    fields = expression.split()
    if len(fields) != 5:
        known = ", ".join(_ALIASES)
        raise InvalidInput(
            "must have five fields (minute, hour, day of month, month, day of week) "
            f"or be one of {known}",
            field="cron",
        )
    return " ".join(fields)


def _calendar(expression: str) -> CronSim:
    """The expression as a calendar of wall times: cronsim's, without its own clock rules."""
    minute, hour, day, month, weekday = expression.split()
    # cronsim takes any field that begins with a star for unrestricted.
    if day.startswith("*") and not _BARE_STAR.fullmatch(day):
        day = day.replace("*", "1-31", 1)
    if weekday.startswith("*") and not _BARE_STAR.fullmatch(weekday):
        weekday = weekday.replace("*", "0-7", 1)
    try:
        calendar = CronSim(" ".join([minute, hour, day, month, weekday]), _PROBE)
        next(copy(calendar))
    except CronSimError as error:
        raise InvalidInput(f"{str(error).lower()} in this expression", field="cron") from None
    except StopIteration:
        raise InvalidInput("never matches", field="cron") from None
    return calendar


def _repeated(here: datetime) -> timedelta:
    """By how much the clock is set back if this wall time occurs twice, else nothing."""
    first, second = here.replace(fold=0).utcoffset(), here.replace(fold=1).utcoffset()
    if first is None or second is None:
        return timedelta()
    return max(first - second, timedelta())


def _end_of_gap(before: datetime, after: datetime, zone: ZoneInfo) -> datetime:
    """The first instant with the new offset; `before` has the old one and `after` the new."""
    old = before.astimezone(zone).utcoffset()
    while after - before > timedelta(seconds=1):
        middle = before + timedelta(seconds=(after - before) // timedelta(seconds=2))
        if middle.astimezone(zone).utcoffset() == old:
            before = middle
        else:
            after = middle
    return after


# What both kinds of rule share

type Rule = IntervalRule | CronRule


def _upcoming(rule: Rule, moment: datetime, count: int) -> list[datetime]:
    return _slots_between(rule, moment, datetime.max.replace(tzinfo=UTC), count)


def _slots_between(rule: Rule, after: datetime, until: datetime, limit: int) -> list[datetime]:
    slots: list[datetime] = []
    after, until = as_utc(after), as_utc(until)
    while len(slots) < limit and after < until:
        try:
            after = rule.next_after(after)
        except InvalidInput:  # the calendar ends
            break
        if after <= until:
            slots.append(after)
    return slots


def _calendar_ends(name: str) -> InvalidInput:
    return InvalidInput("has no further time before the year 10000", field=name)
