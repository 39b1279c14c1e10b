"""Midpoints on local midnights and hours, held against a clock that is read minute by minute."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.errors import InvalidInput
from jobs.moments import EPOCH
from ranges.axes import DateTimeAxis, DateTimeRange
from ranges.axes.instants import FIRST_INSTANT, LAST_INSTANT, Align
from tests.axes import many

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)

# A zone and a year in which its clock does something: both changes of an ordinary year, midnights
# that do not exist or come twice, changes by 30 minutes and 2 hours, a day left out.
CLOCKS = [
    ("Europe/Madrid", 2024),
    ("Asia/Beirut", 2024),
    ("Africa/Cairo", 2014),
    ("Africa/Casablanca", 2023),
    ("America/Asuncion", 2023),
    ("America/Havana", 2024),
    ("America/New_York", 2024),
    ("America/Santiago", 2024),
    ("America/Sao_Paulo", 2018),
    ("America/Scoresbysund", 2024),
    ("America/St_Johns", 2010),
    ("Antarctica/Troll", 2024),
    ("Asia/Amman", 2021),
    ("Asia/Gaza", 2023),
    ("Asia/Kathmandu", 1986),
    ("Asia/Tehran", 2022),
    ("Atlantic/Azores", 2024),
    ("Australia/Lord_Howe", 2024),
    ("Europe/Dublin", 2024),
    ("Pacific/Apia", 2011),
    ("Pacific/Chatham", 2024),
    ("UTC", 2024),
]
ALIGNS: list[Align] = ["day", "hour"]


@cache
def windows(zone_name: str, year: int) -> list[tuple[datetime, datetime]]:
    """Five days around each change of the clock in that year; without one, around its start."""
    zone, moment = ZoneInfo(zone_name), datetime(year, 1, 1, tzinfo=UTC)
    found, offset = [], moment.astimezone(zone).utcoffset()
    while moment.year == year:
        if moment.astimezone(zone).utcoffset() != offset:
            offset = moment.astimezone(zone).utcoffset()
            found.append((moment - 2 * DAY, moment + 3 * DAY))
        moment += HOUR
    start = datetime(year, 1, 1, tzinfo=UTC)
    return found or [(start, start + 5 * DAY)]


@cache
def starts(zone_name: str, window: tuple[datetime, datetime], align: Align) -> list[datetime]:
    """The starts inside a window, by looking at the clock each minute."""
    zone = ZoneInfo(zone_name)
    return list(new_days(zone, *window) if align == "day" else new_hours(zone, *window))


def new_days(zone: ZoneInfo, moment: datetime, end: datetime) -> Iterator[datetime]:
    latest = moment.astimezone(zone).date()
    while (moment := moment + MINUTE) < end:
        if moment.astimezone(zone).date() > latest:
            latest = moment.astimezone(zone).date()
            yield moment


def new_hours(zone: ZoneInfo, moment: datetime, end: datetime) -> Iterator[datetime]:
    before = moment.astimezone(zone).replace(tzinfo=None)
    while (moment := moment + MINUTE) < end:
        now = moment.astimezone(zone).replace(tzinfo=None)
        jumped_over_one = now.replace(minute=0) > before and now - before > MINUTE
        if now.minute == 0 or jumped_over_one:
            yield moment
        before = now


@pytest.mark.parametrize("align", ALIGNS)
@pytest.mark.parametrize(("zone_name", "year"), CLOCKS)
@many
@given(data=st.data())
def test_a_midpoint_is_a_start_of_the_local_clock_if_there_is_one_between(
    zone_name: str, year: int, align: Align, data: st.DataObject
) -> None:
    window = data.draw(st.sampled_from(windows(zone_name, year)))
    # Far enough inside for the reference to know each start.
    minutes = st.integers(1_440, 5 * 1_440 - 1)
    first, second = data.draw(minutes), data.draw(minutes | st.just(2 * 1_440))
    lo, hi = window[0] + min(first, second) * MINUTE, window[0] + max(first, second) * MINUTE

    middle = DateTimeAxis(align=align, tz=zone_name).midpoint(lo, hi)

    between = [start for start in starts(zone_name, window, align) if lo < start < hi]
    assert (middle is None) == (between == [])
    if middle is not None:
        nearest_before = [start for start in between if start <= lo + (hi - lo) / 2]
        assert middle == (nearest_before[-1] if nearest_before else between[0])


@pytest.mark.parametrize("align", ALIGNS)
@pytest.mark.parametrize(("zone_name", "year"), CLOCKS)
def test_splitting_at_starts_ends_in_whole_local_days_and_hours(
    zone_name: str, year: int, align: Align
) -> None:
    axis = DateTimeAxis(align=align, tz=zone_name)
    for window in windows(zone_name, year):
        expected = [start for start in starts(zone_name, window, align) if start > window[0] + DAY]
        pieces = list(split(axis, expected[0], expected[-1]))

        assert [lo for lo, _ in pieces] == expected[:-1]
        assert [hi for _, hi in pieces] == expected[1:]


def split(axis: DateTimeAxis, lo: datetime, hi: datetime) -> Iterator[tuple[datetime, datetime]]:
    middle = axis.midpoint(lo, hi)
    if middle is None:
        yield lo, hi
    else:
        yield from split(axis, lo, middle)
        yield from split(axis, middle, hi)


def days(zone_name: str, first: str, last: str) -> list[tuple[str, float]]:
    """Each local day from first to last, as it is cut: its start, and its length in hours."""
    axis, zone = DateTimeAxis(align="day", tz=zone_name), ZoneInfo(zone_name)
    lo = datetime.fromisoformat(first).replace(tzinfo=zone).astimezone(UTC)
    hi = datetime.fromisoformat(last).replace(tzinfo=zone).astimezone(UTC)
    return [
        (f"{start.astimezone(zone):%d %H:%M}", (end - start) / HOUR)
        for start, end in split(axis, lo, hi)
    ]


def test_madrid_has_a_day_of_23_hours_and_one_of_25() -> None:
    assert days("Europe/Madrid", "2024-03-30", "2024-04-02") == [
        ("30 00:00", 24),
        ("31 00:00", 23),
        ("01 00:00", 24),
    ]
    assert days("Europe/Madrid", "2024-10-26", "2024-10-29")[1] == ("27 00:00", 25)


def test_a_day_without_a_midnight_starts_where_the_clock_goes_on() -> None:
    assert days("Asia/Beirut", "2024-03-30", "2024-04-02") == [
        ("30 00:00", 24),
        ("31 01:00", 23),
        ("01 00:00", 24),
    ]


def test_a_midnight_that_comes_twice_starts_the_day_at_its_first() -> None:
    assert days("America/Havana", "2024-11-02", "2024-11-05") == [
        ("02 00:00", 24),
        ("03 00:00", 25),
        ("04 00:00", 24),
    ]


def test_a_day_that_was_left_out_is_no_piece() -> None:
    assert days("Pacific/Apia", "2011-12-29", "2012-01-01") == [("29 00:00", 24), ("31 00:00", 24)]


def test_a_range_inside_one_local_day_cannot_be_split_at_midnight() -> None:
    axis = DateTimeAxis(align="day", tz="Europe/Madrid")
    lo = datetime(2024, 5, 1, 22, tzinfo=UTC)  # midnight in Madrid

    assert axis.midpoint(lo, lo + DAY) is None
    assert axis.midpoint(lo, lo + DAY + timedelta(microseconds=1)) == lo + DAY
    assert axis.midpoint(lo - timedelta(microseconds=1), lo + DAY) == lo


@pytest.mark.parametrize("align", ALIGNS)
@pytest.mark.parametrize("zone_name", ["UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago"])
def test_alignment_holds_out_at_both_ends_of_the_calendar(zone_name: str, align: Align) -> None:
    axis = DateTimeAxis(align=align, tz=zone_name)
    for lo, hi in [
        (FIRST_INSTANT, FIRST_INSTANT + 3 * DAY),
        (LAST_INSTANT - 3 * DAY, LAST_INSTANT),
        (LAST_INSTANT - 3 * DAY, None),
        (FIRST_INSTANT, None),
    ]:
        middle = axis.midpoint(lo, hi)
        assert middle is not None
        assert lo < middle
        assert hi is None or middle < hi
    assert axis.align_down(FIRST_INSTANT) == FIRST_INSTANT
    assert LAST_INSTANT - 2 * DAY < axis.align_down(LAST_INSTANT) <= LAST_INSTANT


@many
@given(
    minutes=st.integers(-36_000_000, 68_000_000),
    zone_name=st.sampled_from([name for name, _ in CLOCKS]),
    align=st.sampled_from(ALIGNS),
)
def test_aligning_down_finds_the_start_that_a_midpoint_would(
    minutes: int, zone_name: str, align: Align
) -> None:
    moment = EPOCH + minutes * MINUTE
    axis = DateTimeAxis(align=align, tz=zone_name)
    down = axis.align_down(moment)

    assert moment - 2 * DAY <= down <= moment
    assert axis.align_down(down) == down
    if down < moment:
        assert axis.midpoint(down, moment) is None


def test_a_local_time_that_comes_twice_is_two_keys() -> None:
    zone, axis = ZoneInfo("Europe/Madrid"), DateTimeAxis()
    first = datetime(2024, 10, 27, 2, 30, tzinfo=zone)
    second = first.replace(fold=1)

    assert axis.validate(second, "lo") - axis.validate(first, "lo") == HOUR
    assert axis.encode(second) - axis.encode(first) == 3_600_000_000


def test_alignment_is_refused_without_sense() -> None:
    with pytest.raises(InvalidInput, match=r"^tz: is only for align"):
        DateTimeAxis(tz="Europe/Madrid")
    for name in ("Europe/Atlantis", "localtime", "", "../UTC", "/etc/localtime"):
        with pytest.raises(InvalidInput, match=r"^tz: is not a known IANA time zone"):
            DateTimeAxis(align="day", tz=name)
    with pytest.raises(InvalidInput, match=r"^align: must be day or hour"):
        DateTimeAxis(align="week", tz="UTC")  # type: ignore[arg-type]


def test_a_range_takes_a_zone_by_name_or_as_an_object() -> None:
    bounds = ("2024-01-01T00:00Z", "2024-02-01T00:00Z")

    assert DateTimeRange(*bounds, "day", ZoneInfo("Asia/Beirut")) == DateTimeRange(
        *bounds, align="day", tz="Asia/Beirut"
    )
