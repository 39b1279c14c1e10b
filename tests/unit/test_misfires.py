from __future__ import annotations

from datetime import date, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.errors import InvalidInput
from jobs.misfires import Misfire, due_slots
from jobs.moments import EPOCH
from jobs.timing import IntervalRule, Rule
from tests.unit.rules import cron, moments, rules, utc

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
