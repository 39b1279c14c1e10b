from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from jobs.errors import InvalidInput
from jobs.moments import EPOCH
from jobs.timing import CronRule, IntervalRule, Rule, parse_rule, rule_from_columns
from tests.unit.rules import DAY, MINUTE, cron, intervals, moments, rules, utc


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
