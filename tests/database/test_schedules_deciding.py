"""What becomes of due slots: misfire and overlap, decided without a database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.schedules.deciding import Due, Plan, decide, first_slot, refuse
from jobs.timing import CronRule, IntervalRule, parse_rule

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


def due(**columns: object) -> Due:
    given = {
        "id": "a",
        "name": "a",
        "type": "test",
        "queue": "default",
        "interval_seconds": 60,
        "anchor_at": NOON,
        "cron": "",
        "time_zone": "UTC",
        "misfire": "once",
        "allow_overlap": False,
        "next_slot": NOON,
        "last_job_id": None,
    }
    return Due(**given | columns)  # type: ignore[arg-type]


def at(**length: float) -> datetime:
    return NOON + timedelta(**length)


def test_a_slot_on_time_fires_and_the_next_one_follows() -> None:
    plan = decide(due(), now=at(seconds=1), is_live=False)
    assert plan == Plan(fire=[NOON], next_slot=at(minutes=1))


def test_a_slot_is_dropped_while_the_last_job_is_live() -> None:
    plan = decide(due(), now=at(seconds=1), is_live=True)
    assert plan == Plan(fire=[], overlapped=1, next_slot=at(minutes=1))


def test_overlap_can_be_allowed() -> None:
    plan = decide(due(allow_overlap=True), now=at(seconds=1), is_live=True)
    assert plan.fire == [NOON]


@pytest.mark.parametrize(
    ("misfire", "fire", "late"),
    [
        ("once", [at(minutes=10)], 10),
        ("skip", [], 11),
        ("each", [at(minutes=n) for n in range(11)], 0),
    ],
)
def test_after_ten_minutes_of_downtime_the_misfire_policy_decides(
    misfire: str, fire: list[datetime], late: int
) -> None:
    plan = decide(
        due(misfire=misfire, allow_overlap=True), now=at(minutes=10, seconds=30), is_live=False
    )
    assert plan == Plan(fire=fire, late=late, next_slot=at(minutes=11))


def test_of_several_slots_on_time_only_the_first_fires_without_overlap() -> None:
    plan = decide(due(interval_seconds=1), now=at(seconds=2.5), is_live=False)
    assert plan == Plan(fire=[NOON], overlapped=2, next_slot=at(seconds=3))


def test_each_without_overlap_drops_nothing_and_lets_slots_wait_for_their_turn() -> None:
    start = due(misfire="each")
    now = at(minutes=2, seconds=30)
    assert decide(start, now=now, is_live=True) == Plan(next_slot=NOON)
    first = decide(start, now=now, is_live=False)
    assert first == Plan(fire=[NOON], next_slot=at(minutes=1))
    last = decide(due(misfire="each", next_slot=at(minutes=2)), now=now, is_live=False)
    assert last == Plan(fire=[at(minutes=2)], next_slot=at(minutes=3))


def test_a_stored_slot_off_the_grid_leads_back_to_the_grid() -> None:
    plan = decide(due(next_slot=at(seconds=7)), now=at(minutes=1), is_live=False)
    assert plan == Plan(fire=[at(minutes=1)], next_slot=at(minutes=2))


def test_a_refused_schedule_counts_its_slots_and_goes_on() -> None:
    plan = refuse(due(), "payload: is bad", now=at(minutes=2))
    assert plan == Plan(refused=3, error="payload: is bad", next_slot=at(minutes=3))


def test_a_schedule_without_a_rule_is_tried_again_later() -> None:
    broken = due(interval_seconds=None, cron="0 0 30 2 *")
    with pytest.raises(ValueError, match="cron"):
        decide(broken, now=NOON, is_live=False)
    plan = refuse(broken, "cron: never matches", now=NOON)
    assert plan == Plan(error="cron: never matches", next_slot=at(minutes=5))


@given(
    seconds=st.integers(1, 5_000),
    late=st.floats(0, 20_000),
    misfire=st.sampled_from(["skip", "once", "each"]),
    allow_overlap=st.booleans(),
    is_live=st.booleans(),
)
def test_every_due_slot_is_fired_or_missed_or_still_to_come(
    seconds: int, late: float, misfire: str, allow_overlap: bool, is_live: bool
) -> None:
    start = due(interval_seconds=seconds, misfire=misfire, allow_overlap=allow_overlap)
    now = NOON + timedelta(seconds=late)
    plan = decide(start, now=now, is_live=is_live)
    rule = start.rule
    decided = rule.count_between(NOON - timedelta(microseconds=1), plan.next_slot) - 1
    assert len(plan.fire) + plan.missed == decided
    assert all(NOON <= slot <= now for slot in plan.fire)
    assert plan.fire == sorted(set(plan.fire))
    assert plan.next_slot > now or misfire == "each"
    if not allow_overlap:
        assert len(plan.fire) <= (0 if is_live else 1)


def test_no_slot_lies_before_the_anchor_but_it_may_be_the_anchor() -> None:
    rule = IntervalRule(seconds=3_600, anchor=at(hours=5))
    assert first_slot(rule, anchor=at(hours=5), after=NOON) == at(hours=5)
    assert first_slot(rule, anchor=at(hours=5), after=at(hours=5)) == at(hours=6)
    noon = CronRule(cron="0 12 * * *")
    assert first_slot(noon, anchor=at(days=3), after=NOON) == at(days=3)
    assert parse_rule("every_1_minute", None, None) is not None
