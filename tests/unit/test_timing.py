from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from jobs.errors import InvalidInput
from jobs.timing import (
    EPOCH,
    CronRule,
    IntervalRule,
    Misfire,
    Rule,
    due_slots,
    parse_duration,
    parse_moment,
    parse_rule,
    rule_from_columns,
)

MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def cron(expression: str, time_zone: str = "UTC") -> CronRule:
    return CronRule(cron=expression, time_zone=time_zone)


def local_times(rule: CronRule, first: str, last: str) -> list[str]:
    """The slots of the local days from first to last, as the local clock shows them."""
    start = datetime.fromisoformat(first).replace(tzinfo=rule.zone)
    end = datetime.fromisoformat(last).replace(tzinfo=rule.zone) + DAY
    slots = rule.slots_between(start.astimezone(UTC) - timedelta(seconds=1), end, 10_000)
    return [f"{slot.astimezone(rule.zone):%H:%M%z}" for slot in slots if slot < end.astimezone(UTC)]


# What is accepted


@pytest.mark.parametrize(
    ("name", "seconds", "words"),
    [
        ("every_1_minute", 60, "every minute"),
        ("every_5_minutes", 300, "every 5 minutes"),
        ("every_1_hour", 3600, "every hour"),
        ("every_1_second", 1, "every second"),
        ("every_90_seconds", 90, "every 90 seconds"),
        ("every_120_seconds", 120, "every 2 minutes"),
        ("every_36_hours", 129_600, "every 36 hours"),
        ("every_7_days", 604_800, "every 7 days"),
        ("every_3653_days", 315_619_200, "every 3653 days"),
    ],
)
def test_an_interval_is_read_from_its_name_and_told_in_words(
    name: str, seconds: int, words: str
) -> None:
    rule = parse_rule(name, None, None)
    assert isinstance(rule, IntervalRule)
    assert rule.seconds == seconds
    assert rule.describe() == words


@pytest.mark.parametrize(
    ("interval", "expression", "zone", "field"),
    [
        ("every_5_minutes", "* * * * *", None, "cron"),
        ("every_5_minutes", None, "Europe/Berlin", "time_zone"),
        (None, None, "Europe/Berlin", "time_zone"),
        ("", None, None, "recur_interval"),
        ("every_0_minutes", None, None, "recur_interval"),
        ("every_-1_minutes", None, None, "recur_interval"),
        ("every_05_minutes", None, None, "recur_interval"),
        ("every_1.5_minutes", None, None, "recur_interval"),
        ("every_5_minutes\n", None, None, "recur_interval"),
        ("every_\N{ARABIC-INDIC DIGIT FIVE}_minutes", None, None, "recur_interval"),
        ("every_5_weeks", None, None, "recur_interval"),
        ("every_3654_days", None, None, "recur_interval"),
        ("every_9999999999_days", None, None, "recur_interval"),
        ("every_" + "9" * 5000 + "_days", None, None, "recur_interval"),
        (300, None, None, "recur_interval"),
        (None, "", None, "cron"),
        (None, "* * * *", None, "cron"),
        (None, "0 * * * * *", None, "cron"),
        (None, "60 * * * *", None, "cron"),
        (None, "* * * * 8", None, "cron"),
        (None, "*/0 * * * *", None, "cron"),
        (None, "@reboot", None, "cron"),
        (None, "9" * 5000 + " * * * *", None, "cron"),
        (None, "9" * 100 + " * * * *", None, "cron"),
        (None, "\x00 * * * *", None, "cron"),
        (None, "0 0 30 2 *", None, "cron"),
        (None, "0 0 31 4,6,9,11 *", None, "cron"),
        (None, 5, None, "cron"),
        (None, "* * * * *", "Europe/Atlantis", "time_zone"),
        (None, "* * * * *", "Europe", "time_zone"),
        (None, "* * * * *", "", "time_zone"),
        (None, "* * * * *", "../../etc/passwd", "time_zone"),
        (None, "* * * * *", "/etc/localtime", "time_zone"),
        (None, "* * * * *", "localtime", "time_zone"),
        (None, "* * * * *", "zone.tab", "time_zone"),
        (None, "* * * * *", "\x00", "time_zone"),
        (None, "* * * * *", "\ud800", "time_zone"),
        (None, "* * * * *", 1, "time_zone"),
    ],
    ids=map(str, range(38)),
)
def test_a_rule_that_makes_no_sense_is_refused_by_name(
    interval: Any, expression: Any, zone: Any, field: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_rule(interval, expression, zone)
    assert refused.value.field == field
    str(refused.value).encode()


@settings(deadline=None)
@given(st.none() | st.text(), st.none() | st.text(), st.none() | st.text())
def test_any_text_gives_a_rule_or_a_refusal(
    interval: str | None, expression: str | None, zone: str | None
) -> None:
    with suppress(InvalidInput):
        parse_rule(interval, expression, zone)


cron_like = st.lists(
    st.lists(
        st.sampled_from([*"*/-,#LW0123456789", "MON", "SUN", "JAN", "10", "31", "*/2"]),
        min_size=1,
        max_size=4,
    ).map("".join),
    min_size=5,
    max_size=5,
).map(" ".join)


@settings(deadline=None, max_examples=500)
@given(cron_like)
@example("0 0 LW/2 * *")
@example("0 0 29 2 MON#5")
@example("0 0 * 2 MON#5")
@example("0 0 30 2 */2")
@example("0 0 * * 5L/2")
def test_an_accepted_expression_has_slots_and_can_be_told_in_words(expression: str) -> None:
    try:
        rule = cron(expression, "Europe/Berlin")
    except InvalidInput:
        return
    assert len(rule.upcoming(utc("2026-01-01"), 2)) == 2
    assert "Europe/Berlin" in rule.describe()


def test_nothing_asked_for_is_no_rule() -> None:
    assert parse_rule(None, None, None) is None


def test_aliases_stand_for_five_fields() -> None:
    assert cron("@hourly") == cron("0  * * * *")
    assert cron(" @Daily ").describe() == "At 00:00 every day, UTC time"
    moment = utc("2026-01-01T00:00")
    for alias, following in [
        ("@weekly", "2026-01-04"),
        ("@monthly", "2026-02-01"),
        ("@yearly", "2027-01-01"),
    ]:
        assert cron(alias).next_after(moment) == utc(following)


@settings(deadline=None)
@given(
    st.builds(
        IntervalRule,
        seconds=st.integers(1, 315_619_200),
        anchor=st.datetimes(timezones=st.just(UTC)),
    )
    | st.sampled_from([cron("0 2 * * MON", "Europe/Berlin"), cron("@hourly")])
)
def test_a_rule_comes_back_from_its_columns(rule: Rule) -> None:
    columns = rule.to_columns()
    name = columns.pop("recur_interval")
    anchor = columns.pop("anchor_at", EPOCH)
    assert rule_from_columns(**columns, anchor_at=anchor) == rule
    if isinstance(rule, IntervalRule):
        assert parse_rule(name, None, None, anchor=anchor) == rule


# Days


@pytest.mark.parametrize(
    ("expression", "days"),
    [
        ("0 0 13 * FRI", [2, 9, 13, 16, 23, 30]),
        ("0 0 13 * *", [13]),
        ("0 0 * * FRI", [2, 9, 16, 23, 30]),
        ("0 0 */1 * FRI", [2, 9, 16, 23, 30]),
        ("0 0 */10 * FRI", [1, 2, 9, 11, 16, 21, 23, 30, 31]),
        ("0 0 10 * */6", [3, 4, 10, 11, 17, 18, 24, 25, 31]),
        ("0 0 L * 7", [4, 11, 18, 25, 31]),
        ("0 0 LW * *", [30]),
        ("0 0 * * MON#2", [12]),
    ],
)
def test_a_day_that_matches_either_of_two_restrictions_is_taken(
    expression: str, days: list[int]
) -> None:
    slots = cron(expression).slots_between(utc("2025-12-31T12:00"), utc("2026-01-31T12:00"), 99)
    assert [slot.day for slot in slots] == days


def test_the_29th_of_february_is_found_across_a_century_without_one() -> None:
    assert cron("0 0 29 2 *").next_after(utc("2096-03-01")) == utc("2104-02-29")
    assert cron("0 0 * 2 MON#5").next_after(utc("2072-03-01")).year == 2112


# Clock changes


def test_an_hourly_rule_fires_once_per_real_hour_in_autumn_and_in_spring() -> None:
    rule = cron("0 * * * *", "Europe/Berlin")
    autumn = local_times(rule, "2026-10-25", "2026-10-25")
    assert len(autumn) == 25
    assert autumn[1:5] == ["01:00+0200", "02:00+0200", "02:00+0100", "03:00+0100"]
    spring = local_times(rule, "2026-03-29", "2026-03-29")
    assert len(spring) == 23
    assert spring[1:3] == ["01:00+0100", "03:00+0200"]


@pytest.mark.parametrize("expression", ["0 0-23 * * *", "0 */1 * * *", "0 0-11,12-23 * * *"])
def test_every_spelling_of_every_hour_is_hourly(expression: str) -> None:
    assert len(local_times(cron(expression, "Europe/Berlin"), "2026-10-25", "2026-10-25")) == 25


def test_a_time_that_occurs_twice_fires_the_first_time() -> None:
    for expression, times in [
        ("30 2 * * *", ["02:30+0200"]),
        ("*/20 2 * * *", ["02:00+0200", "02:20+0200", "02:40+0200"]),
        ("0 */2 * * *", ["00:00+0200", "02:00+0200", "04:00+0100"]),
    ]:
        rule = cron(expression, "Europe/Berlin")
        assert local_times(rule, "2026-10-25", "2026-10-25")[: len(times)] == times
    assert len(local_times(cron("*/20 2 * * *", "Europe/Berlin"), "2026-10-25", "2026-10-25")) == 3


def test_a_time_that_does_not_exist_fires_at_the_first_instant_after_the_gap() -> None:
    for expression, times in [
        ("30 2 * * *", ["03:00+0200"]),
        ("*/20 2 * * *", ["03:00+0200"]),
        ("0,30 2,3 * * *", ["03:00+0200", "03:30+0200"]),
        ("0 */2 * * *", ["00:00+0100", "03:00+0200", "04:00+0200"]),
    ]:
        rule = cron(expression, "Europe/Berlin")
        assert local_times(rule, "2026-03-29", "2026-03-29")[: len(times)] == times


def test_a_change_of_half_an_hour_follows_the_same_rules() -> None:
    zone = "Australia/Lord_Howe"  # 02:00 back to 01:30 on 5 April, on to 02:30 on 4 October
    assert local_times(cron("45 1 * * *", zone), "2026-04-05", "2026-04-05") == ["01:45+1100"]
    hourly = local_times(cron("45 * * * *", zone), "2026-04-05", "2026-04-05")
    assert hourly[1:3] == ["01:45+1100", "01:45+1030"]
    assert local_times(cron("15 2 * * *", zone), "2026-10-04", "2026-10-04") == ["02:30+1100"]


def test_a_day_that_a_zone_left_out_is_made_up_for_at_its_end() -> None:
    rule = cron("0 12 30 12 *", "Pacific/Apia")  # 30 December 2011 did not happen there
    assert rule.next_after(utc("2011-12-01")) == utc("2011-12-30T10:00")
    daily = cron("0 0 * * *", "Pacific/Apia").slots_between(
        utc("2011-12-29T00:00"), utc("2012-01-01T00:00"), 99
    )
    assert daily == [utc("2011-12-29T10:00"), utc("2011-12-30T10:00"), utc("2011-12-31T10:00")]


@dataclass(frozen=True)
class Fields:
    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int] | None
    weekdays: frozenset[int] | None

    def expression(self) -> str:
        parts = [self.minutes, self.hours, self.days, None, self.weekdays]
        return " ".join(
            "*" if part is None or len(part) == 60 else ",".join(map(str, sorted(part)))
            for part in parts
        )

    def match(self, wall: datetime) -> bool:
        by_day = self.days is not None and wall.day in self.days
        by_weekday = self.weekdays is not None and wall.isoweekday() % 7 in self.weekdays
        either = by_day or by_weekday or (self.days is None and self.weekdays is None)
        return wall.minute in self.minutes and wall.hour in self.hours and either


def some(least: int, most: int) -> st.SearchStrategy[frozenset[int]]:
    return st.frozensets(st.integers(least, most), min_size=1, max_size=6)


fields = st.builds(
    Fields,
    minutes=some(0, 59) | st.just(frozenset(range(60))),
    hours=some(0, 5) | some(0, 23) | st.just(frozenset(range(24))),
    days=st.none() | some(1, 28),
    weekdays=st.none() | some(0, 6),
)

CHANGES = [
    ("UTC", "2026-03-29"),
    ("Europe/Berlin", "2026-03-29"),
    ("Europe/Berlin", "2026-10-25"),
    ("America/New_York", "2026-03-08"),
    ("America/New_York", "2026-11-01"),
    ("America/St_Johns", "2006-04-02"),  # at one minute past midnight
    ("America/St_Johns", "2006-10-29"),
    ("America/Sao_Paulo", "2018-11-04"),  # at midnight, so that the day has none
    ("Australia/Lord_Howe", "2026-04-05"),
    ("Australia/Lord_Howe", "2026-10-04"),
    ("Pacific/Apia", "2011-12-30"),
    ("Pacific/Kwajalein", "1969-10-01"),  # a day back in the same month, by 23 hours
    ("Africa/Casablanca", "2026-02-15"),
    ("Asia/Kathmandu", "1986-01-01"),
]


def slots_by_walking(
    match: Callable[[datetime], bool], hourly: bool, zone: ZoneInfo, start: datetime, end: datetime
) -> list[datetime]:
    """The two clock rules as somebody with a watch would apply them, minute by minute.

    Hourly: an instant is a slot if the clock shows a matching time. Otherwise a matching time is
    over as soon as the clock has first reached it or jumped past it.
    """
    slots = []
    instant = start - 2 * DAY
    reached = instant.astimezone(zone).replace(tzinfo=None)
    while instant < end:
        instant += MINUTE
        wall = instant.astimezone(zone).replace(tzinfo=None)
        if hourly:
            passed = [wall]
        else:
            passed = [reached + step * MINUTE for step in range(1, (wall - reached) // MINUTE + 1)]
        if start < instant <= end and any(map(match, passed)):
            slots.append(instant)
        reached = max(reached, wall)
    return slots


@settings(deadline=None, max_examples=100)
@given(fields, st.sampled_from(CHANGES), st.integers(-1800, 1200))
@example(
    Fields(frozenset(range(60)), frozenset({0, 1}), None, None),
    ("Pacific/Kwajalein", "1969-10-01"),
    -602,
)
def test_the_slots_around_a_clock_change_are_those_of_somebody_with_a_watch(
    parts: Fields, change: tuple[str, str], offset: int
) -> None:
    zone, day = change
    rule = cron(parts.expression(), zone)
    start = utc(day) + offset * MINUTE
    end = start + timedelta(hours=40)
    expected = slots_by_walking(parts.match, len(parts.hours) == 24, rule.zone, start, end)
    assert rule.slots_between(start, end, 10_000) == expected
    assert rule.count_between(start, end) == len(expected)
    assert rule.latest_between(start, end) == (expected[-1] if expected else None)


# Slots in general

moments = st.datetimes(
    min_value=datetime(1980, 1, 1),  # noqa: DTZ001 - the zone is given beside it
    max_value=datetime(2100, 1, 1),  # noqa: DTZ001
    timezones=st.sampled_from([UTC, ZoneInfo("Europe/Berlin"), timezone(timedelta(hours=-9))]),
)
intervals = st.builds(
    IntervalRule,
    seconds=st.integers(1, 100_000) | st.sampled_from([60, 3600, 86_400]),
    anchor=moments,
)
crons = st.sampled_from(
    [
        cron("* * * * *", "Europe/Berlin"),
        cron("*/7 3-5 * * *", "America/New_York"),
        cron("30 2 * * *", "Europe/Berlin"),
        cron("0 0 1,15 * MON"),
        cron("0 0 29 2 *", "Asia/Kathmandu"),
    ]
)
rules: st.SearchStrategy[Rule] = intervals | crons


@settings(deadline=None)
@given(rules, moments)
def test_the_next_slot_is_after_the_moment_with_none_between(rule: Rule, moment: datetime) -> None:
    following = rule.next_after(moment)
    moment = moment.astimezone(UTC)
    assert following > moment
    assert following.tzinfo is UTC
    assert rule.next_after(moment + (following - moment) / 2) == following
    assert rule.next_after(following - timedelta(microseconds=1)) == following
    assert rule.upcoming(moment, 3)[0] == following
    assert rule.slots_between(moment, following, 5) == [following]


@settings(deadline=None)
@given(intervals, moments)
def test_an_interval_stays_on_the_grid_of_its_anchor(rule: IntervalRule, moment: datetime) -> None:
    for slot in rule.upcoming(moment, 3):
        assert (slot - rule.anchor) % timedelta(seconds=rule.seconds) == timedelta()
        assert slot >= rule.anchor


def test_the_anchor_is_the_first_slot() -> None:
    rule = IntervalRule(seconds=60, anchor=utc("2026-01-01T00:00:30"))
    assert rule.next_after(utc("2020-01-01")) == rule.anchor
    assert rule.next_after(rule.anchor) == rule.anchor + MINUTE


@pytest.mark.parametrize("rule", [IntervalRule(seconds=3600), cron("@hourly", "Asia/Tokyo")])
def test_where_the_calendar_ends_there_is_no_further_slot(rule: Rule) -> None:
    last = datetime.max.replace(tzinfo=UTC)
    with pytest.raises(InvalidInput, match="year 10000"):
        rule.next_after(last)
    assert len(rule.upcoming(last - timedelta(days=2), 100)) < 50


# Misfires

policies = st.sampled_from(Misfire)


@settings(deadline=None)
@given(
    rule=rules,
    start=moments,
    gaps=st.lists(st.floats(-0.5, 40), min_size=1, max_size=8),
    misfire=policies,
    limit=st.integers(1, 20),
    grace=st.floats(0, 20),
)
def test_every_slot_is_fired_or_counted_as_missed_exactly_once_whatever_the_ticks(
    *, rule: Rule, start: datetime, gaps: list[float], misfire: Misfire, limit: int, grace: float
) -> None:
    start = rule.next_after(start) - timedelta(microseconds=1)
    unit = rule.next_after(rule.next_after(start)) - rule.next_after(start)
    now, last, fired, missed = start, start, list[datetime](), 0
    for gap in gaps:  # of ticks, in slots; also a clock that is set back
        now += gap * unit
        due = due_slots(rule, last, now, misfire, limit, grace_seconds=grace)
        assert len(due.fire) <= limit
        assert all(last < slot <= now for slot in due.fire)
        assert due.next_slot == rule.next_after(due.decided_until)
        fired += due.fire
        missed += due.missed
        last = due.decided_until
    assert fired == sorted(set(fired))
    all_slots = rule.slots_between(start, last, 10_000)
    assert set(fired) <= set(all_slots)
    assert len(fired) + missed == len(all_slots)
    if misfire is Misfire.EACH:
        assert missed == 0


@settings(deadline=None)
@given(
    rule=rules,
    start=moments,
    outage=st.floats(0, 300),
    grace=st.floats(0, 1000),
    misfire=policies,
    limit=st.integers(1, 500),
)
def test_each_policy_fires_the_slots_that_it_says(
    *, rule: Rule, start: datetime, outage: float, grace: float, misfire: Misfire, limit: int
) -> None:
    start = rule.next_after(start)
    now = start + outage * (rule.next_after(start) - start)
    slots = rule.slots_between(start, now, 100_000)
    due = due_slots(rule, start, now, misfire, limit, grace_seconds=grace)
    in_time = [slot for slot in slots if now - slot <= timedelta(seconds=grace)]
    if misfire is Misfire.EACH or in_time == slots:
        expected = slots
    elif misfire is Misfire.SKIP:
        expected = in_time
    else:
        expected = slots[-1:]
    assert due.fire == expected[:limit]
    assert due.missed == len(slots) - len(expected)
    rest = expected[limit:]
    assert due.next_slot == (rest[0] if rest else rule.next_after(now))


def test_after_ten_minutes_of_outage_there_is_one_catch_up_by_default() -> None:
    rule, last = IntervalRule(seconds=60), utc("2026-01-01T12:00")
    now = utc("2026-01-01T12:10:20")
    once = due_slots(rule, last, now, Misfire.ONCE, 100)
    assert (once.fire, once.missed) == ([utc("2026-01-01T12:10")], 9)
    assert once.next_slot == utc("2026-01-01T12:11")
    skip = due_slots(rule, last, now, Misfire.SKIP, 100)
    assert (skip.fire, skip.missed) == ([], 10)
    each = due_slots(rule, last, now, Misfire.EACH, 100)
    assert (len(each.fire), each.missed) == (10, 0)


def test_a_slow_tick_is_no_misfire() -> None:
    rule, last = IntervalRule(seconds=1), utc("2026-01-01T12:00")
    for misfire in Misfire:
        assert len(due_slots(rule, last, last + timedelta(seconds=3.5), misfire, 100).fire) == 3


def test_a_clock_that_was_set_back_fires_nothing_again() -> None:
    rule, last = IntervalRule(seconds=60), utc("2026-01-01T12:00")
    due = due_slots(rule, last, utc("2026-01-01T11:00"), Misfire.EACH, 100)
    assert (due.fire, due.missed, due.next_slot) == ([], 0, utc("2026-01-01T12:01"))


def test_the_slots_of_fifty_years_are_counted_without_visiting_each() -> None:
    rule = cron("* * * * *", "Europe/Berlin")
    due = due_slots(rule, utc("1976-01-01"), utc("2026-01-01"), Misfire.ONCE, 10)
    assert due.fire == [utc("2026-01-01")]
    days = date(2026, 1, 1) - date(1976, 1, 1)
    assert due.missed == days.days * 1440 - 1


def test_a_limit_below_one_is_refused() -> None:
    with pytest.raises(InvalidInput):
        due_slots(IntervalRule(seconds=1), EPOCH, EPOCH, Misfire.ONCE, 0)


# Times and lengths


@settings(deadline=None)
@given(moments)
def test_a_moment_in_any_spelling_is_the_same_instant_in_utc(moment: datetime) -> None:
    for value in (moment, moment.isoformat()):
        parsed = parse_moment(value, "scheduled_at")
        assert parsed == moment.astimezone(UTC)
        assert parsed.tzinfo is UTC
    milliseconds = (moment - EPOCH) // timedelta(milliseconds=1)
    assert timedelta() <= moment - parse_moment(milliseconds, "scheduled_at") < timedelta(seconds=1)


def test_moments_are_read() -> None:
    expected = utc("2026-03-29T01:30")
    for value in (
        "2026-03-29T01:30:00Z",
        "2026-03-29T02:30:00+01:00",
        "2026-03-28 16:30:00-09:00",
        "2026-03-29t01:30z",
        "20260329T013000,000+0000",
        1_774_747_800_000,
    ):
        assert parse_moment(value, "scheduled_at") == expected


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (datetime(2026, 1, 1), "no time zone"),  # noqa: DTZ001 - that is the point
        ("2026-01-01T00:00:00", "no time zone"),
        ("2026-01-01", "no time zone"),
        ("yesterday", "ISO 8601"),
        ("", "ISO 8601"),
        ("2026-13-01T00:00:00Z", "ISO 8601"),
        ("2026-01-01T00:00:00Z\x00", "ISO 8601"),
        ("\N{ARABIC-INDIC DIGIT FIVE}026-01-01T00:00:00Z", "ISO 8601"),
        ("1774747800000", "ISO 8601"),
        ("\ud800", "ISO 8601"),
        ("0001-01-01T00:00:00+14:00", "years 1 to 9999"),
        ("9999-12-31T23:59:59-14:00", "years 1 to 9999"),
        (10**15, "years 1 to 9999"),
        (-(10**15), "years 1 to 9999"),
        (10**5000, "years 1 to 9999"),
        (True, "not bool"),
        (None, "not NoneType"),
        (1.5e12, "not float"),
        (date(2026, 1, 1), "not date"),
        ([], "not list"),
    ],
    ids=map(str, range(20)),
)
def test_a_moment_that_is_not_one_instant_is_refused(value: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as refused:
        parse_moment(value, "scheduled_at")
    assert refused.value.field == "scheduled_at"


@settings(deadline=None)
@given(st.text() | st.integers() | st.floats() | st.datetimes(timezones=st.timezones()))
def test_anything_is_a_moment_or_a_refusal(value: Any) -> None:
    with suppress(InvalidInput):
        assert parse_moment(value, "scheduled_at").tzinfo is UTC


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (0, 0),
        (-0.0, 0),
        (1.5, 1.5),
        (Decimal("0.25"), 0.25),
        (timedelta(minutes=2), 120),
        (timedelta(days=36_525), 3_155_760_000),
    ],
)
def test_a_duration_is_seconds(value: Any, seconds: float) -> None:
    parsed = parse_duration(value, "delay")
    assert parsed == seconds
    assert isinstance(parsed, float)
    assert math.copysign(1, parsed) == 1


@pytest.mark.parametrize(
    "value",
    [
        -1,
        -0.1,
        math.nan,
        math.inf,
        Decimal("NaN"),
        Decimal("sNaN"),
        Decimal("Infinity"),
        Decimal("1e999999"),
        10**5000,
        timedelta(days=36_526),
        timedelta.max,
        timedelta(seconds=-1),
        True,
        None,
        "5",
    ],
    ids=map(str, range(15)),
)
def test_a_duration_that_is_no_length_of_time_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_duration(value, "delay")
    assert refused.value.field == "delay"
