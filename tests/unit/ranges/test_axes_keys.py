"""What is taken for a key, and what each axis does at its corners."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal, localcontext
from math import inf, nan
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.errors import InvalidInput
from ranges.axes import (
    Axis,
    DataAxis,
    DateAxis,
    DateTimeAxis,
    DecimalAxis,
    DecimalRange,
    FloatAxis,
    FloatRange,
    IntAxis,
    IntRange,
    TextAxis,
    UUIDAxis,
    UUIDRange,
    check_bounds,
    describe,
    restore,
)
from tests.axes import letters, many

INT, BIGINT, TEXT = IntAxis(), IntAxis(sql_type="bigint"), TextAxis()
CENTS = DecimalAxis(decimal_places=2)


@pytest.mark.parametrize(
    ("axis", "given", "key"),
    [
        (INT, "-42", -42),
        (INT, "+7", 7),
        (INT, str(10**39), 10**39),
        (DateAxis(), "2024-02-29", date(2024, 2, 29)),
        (
            DateTimeAxis(),
            "2024-02-29T12:00:00.5+02:00",
            datetime(2024, 2, 29, 10, 0, 0, 500_000, UTC),
        ),
        (DateTimeAxis(), "2024-02-29t12:00z", datetime(2024, 2, 29, 12, tzinfo=UTC)),
        (UUIDAxis(), "0" * 31 + "A", UUID(int=10)),
        (UUIDAxis(), "00000000-0000-0000-0000-00000000000A", UUID(int=10)),
        (CENTS, "12.5", Decimal("12.50")),
        (CENTS, "12.5000", Decimal("12.50")),
        (CENTS, 12, Decimal("12.00")),
        (CENTS, Decimal("-0.0"), Decimal(0)),
        (FloatAxis(), "1e-9", 1e-9),
        (FloatAxis(), 3, 3.0),
        (FloatAxis(), "5e-324", 5e-324),
        (TEXT, "", ""),
        (TEXT, " é\U0001f600", " é\U0001f600"),
    ],
)
def test_a_key_is_read_from_its_usual_forms(axis: Axis[Any], given: Any, key: Any) -> None:
    read = axis.validate(given, "start")

    assert read == key
    assert type(read) is type(key)


@pytest.mark.parametrize(
    ("axis", "given", "reason"),
    [
        (INT, "1_000", "whole number"),
        (INT, " 1", "whole number"),
        (INT, "1.0", "whole number"),
        (INT, "\u0661", "whole number"),
        (INT, "", "whole number"),
        (INT, "9" * 1_000, "999 digits"),
        (INT, 10**999, "999 digits"),
        (BIGINT, 2**63, "from -9223372036854775808 to 9223372036854775807"),
        (BIGINT, str(-(2**63) - 1), "from -9223372036854775808"),
        (DateAxis(), "2024-02-30", "years 1 to 9999"),
        (DateAxis(), "0000-01-01", "years 1 to 9999"),
        (DateAxis(), "20240229", "such as 2024-02-29"),
        (DateAxis(), "2024-W09-4", "such as 2024-02-29"),
        (DateAxis(), "infinity", "such as 2024-02-29"),
        (DateTimeAxis(), "infinity", "not an ISO 8601 time"),
        (DateTimeAxis(), "-infinity", "not an ISO 8601 time"),
        (DateTimeAxis(), "2024-01-01", "has no time zone"),
        (DateTimeAxis(), "2024-01-01T00:00:00.1234567Z", "finer than a microsecond"),
        (DateTimeAxis(), "0001-01-01T00:00+14:00", "years 1 to 9999"),
        (DateTimeAxis(), datetime.max.replace(tzinfo=timezone(timedelta(hours=-1))), "years 1 to"),
        (UUIDAxis(), "{00000000-0000-0000-0000-000000000000}", "not a UUID"),
        (UUIDAxis(), "0" * 33, "not a UUID"),
        (CENTS, "0.001", "more than 2 decimal places"),
        (CENTS, Decimal("1E-999999"), "more than 2 decimal places"),
        (CENTS, Decimal("1E+999999"), "at most 999 digits"),
        (CENTS, 10**999, "at most 999 digits"),
        (CENTS, Decimal("NaN"), "finite"),
        (CENTS, Decimal("sNaN"), "finite"),
        (CENTS, Decimal("-Infinity"), "finite"),
        (CENTS, "NaN", "decimal number"),
        (CENTS, 0.5, "decimal number"),
        (FloatAxis(), nan, "finite"),
        (FloatAxis(), inf, "finite"),
        (FloatAxis(), -inf, "finite"),
        (FloatAxis(), "nan", "must be a number"),
        (FloatAxis(), "inf", "must be a number"),
        (FloatAxis(), "1e999", "finite"),
        (FloatAxis(), 2**53 + 1, "no double is equal"),
        (FloatAxis(), 10**400, "from -1.79"),
        (TEXT, "a\x00", "NUL"),
        (TEXT, "\ud83d", "surrogate"),
        (TEXT, "a" * 10_001, "longer than 10,000"),
        (DataAxis(), "a\x00", "NUL"),
        (DataAxis(), 1, "must be text"),
    ],
)
def test_what_has_no_place_on_the_axis_is_refused(axis: Axis[Any], given: Any, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason) as refusal:
        axis.validate(given, "start")

    assert refusal.value.field == "start"


def test_values_from_a_table_that_have_no_place_are_not_given_one() -> None:
    for value in (nan, inf):
        with pytest.raises(InvalidInput):
            FloatAxis().encode(value)
    for amount in ("NaN", "0.001"):
        with pytest.raises(InvalidInput):
            CENTS.encode(Decimal(amount))
    with pytest.raises(TypeError):
        DateTimeAxis().encode(datetime(2024, 1, 1))  # noqa: DTZ001


def test_both_zeros_are_one_key() -> None:
    assert FloatAxis().encode(-0.0) == FloatAxis().encode(0.0) == 0
    assert str(FloatAxis().validate(-0.0, "lo")) == "0.0"
    assert FloatRange(-0.0, 0.0).is_empty


def test_the_smallest_doubles_are_neighbours_of_zero() -> None:
    axis = FloatAxis()

    assert axis.successor(0.0) == 5e-324
    assert axis.successor(-5e-324) == 0.0
    assert axis.midpoint(-5e-324, 5e-324) == 0.0
    assert axis.midpoint(0.0, 5e-324) is None


def test_decimals_do_not_depend_on_the_precision_of_the_thread() -> None:
    axis, key = DecimalAxis(decimal_places=6), Decimal("123456789012345678901234567890.123456")
    with localcontext(prec=3):
        assert axis.validate(key, "lo") == key
        assert axis.decode(axis.encode(key)) == key
        assert axis.to_json(key) == "123456789012345678901234567890.123456"


def test_the_places_of_a_decimal_are_checked() -> None:
    for places in (-1, 999, True, 2.0, None):
        with pytest.raises(InvalidInput, match=r"^decimal_places: "):
            DecimalRange(0, 1, places)  # type: ignore[arg-type]


def test_everything_up_to_the_last_uuid_can_be_asked_for() -> None:
    everything = UUIDRange(UUID(int=0), UUID(int=2**128 - 1), inclusive=True)

    assert everything.hi is None
    assert everything.width == 2**128
    assert everything.axis.midpoint(everything.lo, everything.hi) == UUID(int=2**127)


# Texts


@pytest.mark.parametrize(
    ("lo", "hi", "middle"),
    [
        ("", "\x01", None),
        ("a", "a\x01", None),
        ("a", "a\x02", "a\x01"),
        ("a", "a\x01\x01", "a\x01"),
        ("a", "c", "b"),
        ("ab", "ad", "ac"),
        ("ax", "cx", "b"),
        ("a\U0010ffff", "b", "a\U0010ffff\U00088400"),
    ],
)
def test_the_middle_of_texts_is_the_shortest_beginning_of_their_average(
    lo: str, hi: str, middle: str | None
) -> None:
    assert TEXT.midpoint(lo, hi) == middle


@many
@given(texts=st.tuples(st.text(letters), st.text(letters)))
def test_a_middle_of_texts_can_be_stored_and_is_at_most_one_longer(texts: tuple[str, str]) -> None:
    lo, hi = sorted(texts)
    middle = TEXT.midpoint(lo, hi)

    if middle is not None:
        assert TEXT.validate(middle, "middle") == middle
        assert len(middle) <= max(len(lo), len(hi)) + 1


@many
@given(texts=st.tuples(st.text(letters), st.text(letters)))
def test_code_points_are_in_the_order_of_utf_8_bytes(texts: tuple[str, str]) -> None:
    one, other = texts

    assert (one < other) == (one.encode() < other.encode())


@many
@given(texts=st.tuples(st.text(letters, max_size=40), st.text(letters, max_size=40)))
def test_the_projection_of_texts_never_turns_their_order_round(texts: tuple[str, str]) -> None:
    lo, hi = sorted(texts)

    assert TEXT.encode(lo) <= TEXT.encode(hi) < TEXT.encode_end(None)
    assert TEXT.decode(TEXT.encode(lo)) == lo[:32]
    if lo[:32] != hi[:32]:
        assert TEXT.encode(lo) < TEXT.encode(hi)


@many
@given(ordinal=st.integers(0, TEXT.encode_end(None) - 1))
def test_any_number_of_the_projection_is_drawn_at_a_text_not_above_it(ordinal: int) -> None:
    text = TEXT.decode(ordinal)

    assert TEXT.validate(text, "text") == text
    assert TEXT.encode(text) <= ordinal


def test_long_texts_are_halved_in_a_moment() -> None:
    lo, hi = "a" * 10_000, "a" * 9_999 + "b"
    middle = TEXT.midpoint(lo, hi)

    assert middle is not None
    assert lo < middle < hi


# Keys that only the database can order


def test_nothing_in_python_puts_the_keys_of_a_language_in_order() -> None:
    axis = DataAxis(collation="de-x-icu")

    assert axis.midpoint("a", "z") is None
    assert axis.successor("a") is None
    questions: list[Callable[[], object]] = [
        lambda: axis.encode("a"),
        lambda: axis.encode_end("a"),
        lambda: axis.decode(1),
        lambda: axis.decode_end(1),
        lambda: axis.width("a", "b"),
    ]
    for question in questions:
        with pytest.raises(TypeError, match="only the database"):
            question()


# Bounds and storage


def test_bounds_are_refused_by_the_names_that_the_caller_uses() -> None:
    with pytest.raises(InvalidInput, match=r"^end: must not lie before start"):
        check_bounds(INT, 2, 1, names=("start", "end"))
    with pytest.raises(InvalidInput, match=r"^start: "):
        check_bounds(INT, "x", 1, names=("start", "end"))


def test_ranges_are_values() -> None:
    assert IntRange("0", 10) == IntRange(0, "10")
    assert len({IntRange(0, 10), IntRange(0, 10), IntRange(0, 11)}) == 2
    with pytest.raises(AttributeError):
        IntRange(0, 10).lo = 5  # type: ignore[misc]


@pytest.mark.parametrize(
    "axis",
    [BIGINT, CENTS, DateTimeAxis(align="hour", tz="Asia/Beirut"), DataAxis(sql_type="citext")],
)
def test_the_options_of_an_axis_are_stored_with_it(axis: Axis[Any]) -> None:
    assert restore(describe(axis)) == axis


def test_an_axis_that_is_not_known_is_refused() -> None:
    for description in ({"type": "semver"}, {}, {"type": "int", "base": 7}):
        with pytest.raises(InvalidInput, match=r"^axis: "):
            restore(description)


def test_axes_bring_no_django_in() -> None:
    code = "import sys, ranges.axes; sys.exit('django' in sys.modules or 'psycopg' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
