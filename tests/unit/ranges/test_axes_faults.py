"""Ways in which arithmetic on keys has lost or doubled work elsewhere. None of them is possible here."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from jobs.errors import InvalidInput
from ranges.axes import (
    DateRange,
    DateTimeAxis,
    DateTimeRange,
    DecimalRange,
    FloatRange,
    IntAxis,
    IntRange,
    Span,
    TextAxis,
    TextRange,
    UUIDRange,
)

SPANS: list[Span[Any]] = [
    IntRange(-(10**39), 10**39),
    DateRange("2024-01-01", "2025-01-01"),
    DateTimeRange("2024-01-01T00:00Z", "2025-01-01T00:00Z"),
    TextRange("a", "b"),
    UUIDRange(UUID(int=0), UUID(int=2**128 - 1)),
    DecimalRange("-0.5", "0.5", 2),
    FloatRange(-0.5, 0.5),
]


# Numbers


def test_a_range_of_one_key_is_not_split_for_ever() -> None:
    assert IntAxis().midpoint(0, 1) is None
    assert IntAxis().midpoint(-1, 0) is None


def test_midpoints_beyond_two_to_the_53_are_not_rounded() -> None:
    assert IntAxis().midpoint(2**53, 2**53 + 2) == 2**53 + 1
    assert IntAxis().midpoint(2**53 + 1, 2**53 + 2) is None
    assert IntAxis().width(2**53, 2**53 + 1) == 1


def test_bounds_the_wrong_way_round_are_refused_not_straightened() -> None:
    with pytest.raises(InvalidInput, match=r"^hi: must not lie before lo"):
        IntRange(10, 0)


def test_equal_bounds_are_an_empty_range_and_no_fault() -> None:
    empty = IntRange(5, 5)

    assert empty.is_empty
    assert empty.axis.midpoint(empty.lo, empty.hi) is None


def test_the_last_key_of_an_inclusive_range_is_not_lost() -> None:
    assert IntRange(0, 9, inclusive=True) == IntRange(0, 10)
    assert IntRange(0, 0, inclusive=True).width == 1


def test_midpoints_below_zero_round_downwards() -> None:
    axis = IntAxis()

    assert axis.midpoint(-2, -1) is None
    assert axis.midpoint(-3, -1) == -2
    assert axis.midpoint(-4, -1) == -3


def test_the_size_of_a_huge_range_is_exact() -> None:
    assert IntRange(-(10**39), 10**39).width == 2 * 10**39


# What a store does to bounds


@pytest.mark.parametrize("span", SPANS, ids=lambda span: type(span).__name__)
def test_bounds_survive_json_and_can_still_be_split(span: Span[Any]) -> None:
    written = json.dumps([span.axis.to_json(span.lo), span.axis.to_json(span.hi)])
    lo, hi = (span.axis.from_json(bound) for bound in json.loads(written))

    assert (lo, hi) == (span.lo, span.hi)
    assert span.axis.midpoint(lo, hi) == span.axis.midpoint(span.lo, span.hi)


def test_json_never_holds_a_number_that_a_double_cannot() -> None:
    axis = IntAxis()

    assert axis.to_json(2**53) == 2**53
    assert axis.to_json(2**53 + 1) == "9007199254740993"
    assert axis.to_json(-(2**53) - 1) == "-9007199254740993"


# Dates


def test_the_same_bounds_mean_the_same_instants_in_every_zone() -> None:
    assert DateTimeRange("2024-03-31T00:00+01:00", "2024-04-01T00:00+02:00") == DateTimeRange(
        "2024-03-30T23:00Z", "2024-03-31T22:00Z"
    )
    with pytest.raises(InvalidInput, match=r"^lo: has no time zone"):
        DateTimeRange(datetime(2024, 1, 1), "2024-01-02T00:00Z")  # noqa: DTZ001


def test_the_last_second_of_a_day_is_not_lost() -> None:
    day = DateTimeRange("2024-01-01T00:00Z", "2024-01-02T00:00Z")
    late = DateTimeRange("2024-01-01T00:00Z", "2024-01-01T23:59:59Z", inclusive=True)

    assert day.width - late.width == 999_999
    assert DateRange("2024-01-01", "2024-01-31", inclusive=True).width == 31


def test_pieces_of_days_follow_the_calendar_not_24_hours() -> None:
    axis = DateTimeAxis(align="day", tz="Europe/Madrid")
    lo = datetime(2024, 3, 29, 23, tzinfo=UTC)

    middle = axis.midpoint(lo, lo + timedelta(hours=47))

    assert middle == datetime(2024, 3, 30, 23, tzinfo=UTC)
    assert axis.midpoint(middle, lo + timedelta(hours=47)) is None  # a day of 23 hours


def test_microseconds_at_both_ends_of_the_calendar_are_exact() -> None:
    axis, step = DateTimeAxis(), timedelta(microseconds=1)
    for key in (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC) - step):
        assert axis.encode(key + step) - axis.encode(key) == 1
        assert axis.midpoint(key, key + step) is None


# Texts


def test_the_middle_of_texts_is_carried_over_as_in_a_sum() -> None:
    middle = TextAxis().midpoint("az", "ba")

    assert middle is not None
    assert "az" < middle < "ba"


def test_a_range_of_texts_with_room_in_it_has_a_size() -> None:
    axis = TextAxis()

    assert axis.width("ab", "ba") > 0
    assert axis.width("aaa", "zzz") > 10**100
    assert axis.width("a" * 100, "a" * 99 + "b") > 0


def test_texts_are_compared_by_code_point_when_checked_and_when_split() -> None:
    assert TextRange("B", "a").lo == "B"
    with pytest.raises(InvalidInput, match=r"^hi: must not lie before lo"):
        TextRange("a", "B")


def test_no_middle_of_texts_holds_nul_or_half_of_a_surrogate_pair() -> None:
    axis = TextAxis()
    for lo, hi in [
        ("\ud7ff", "\ue000\x01"),
        ("\ud7ff", "\ue001"),
        ("", "\U0010ffff"),
        ("a", "a\x02"),
    ]:
        middle = axis.midpoint(lo, hi)
        assert middle is not None
        assert axis.validate(middle, "middle") == middle
        assert lo < middle < hi


# Mixed types


@pytest.mark.parametrize(
    ("kind", "lo", "hi"),
    [
        (IntRange, 0, date(2024, 1, 1)),
        (IntRange, 0, 10.0),
        (IntRange, 0, True),
        (IntRange, 0, Decimal(10)),
        (DateRange, date(2024, 1, 1), datetime(2025, 1, 1, tzinfo=UTC)),
        (DateRange, "2024-01-01", 10),
        (DateTimeRange, "2024-01-01T00:00Z", date(2025, 1, 1)),
        (DateTimeRange, "2024-01-01T00:00Z", 1_735_689_600_000),
        (TextRange, "a", 5),
        (UUIDRange, UUID(int=0), 5),
        (FloatRange, 0.0, Decimal(1)),
    ],
)
def test_the_second_bound_is_held_against_the_type_of_the_axis_too(
    kind: Any, lo: object, hi: object
) -> None:
    with pytest.raises(InvalidInput) as refusal:
        kind(lo, hi)

    assert refusal.value.field == "hi"
