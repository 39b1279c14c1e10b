from __future__ import annotations

import math
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.errors import InvalidInput
from jobs.moments import EPOCH, parse_duration, parse_moment
from tests.unit.rules import moments, utc


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
