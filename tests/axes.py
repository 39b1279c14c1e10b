"""Axes under test, each with a strategy for its keys and the keys at which arithmetic goes wrong.

`COPPICE_PROPERTY_EXAMPLES` sets how many examples each property is tried with: 100 if not set.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from ranges.axes import (
    Axis,
    DateAxis,
    DateTimeAxis,
    DecimalAxis,
    FloatAxis,
    IntAxis,
    TextAxis,
    UUIDAxis,
)

many = settings(
    max_examples=int(os.environ.get("COPPICE_PROPERTY_EXAMPLES", "100")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


@dataclass(frozen=True, kw_only=True)
class Case:
    id: str
    axis: Axis[Any]
    keys: st.SearchStrategy[Any]
    extremes: Sequence[Any]  # in order

    @property
    def any_key(self) -> st.SearchStrategy[Any]:
        return self.keys | st.sampled_from(self.extremes)

    @property
    def bounds(self) -> st.SearchStrategy[tuple[Any, Any]]:
        """lo < hi, far from each other and close."""
        return (self._apart() | self._close()).filter(lambda pair: pair[0] < pair[1])

    def _apart(self) -> st.SearchStrategy[tuple[Any, Any]]:
        return st.tuples(self.any_key, self.any_key).map(lambda pair: (min(pair), max(pair)))

    def _close(self) -> st.SearchStrategy[tuple[Any, Any]]:
        if not self.axis.is_ordinal:
            tails = st.text(low_and_high, max_size=3)
            return st.tuples(self.any_key, tails, tails).map(
                lambda three: (min(three[0] + t for t in three[1:]), three[0] + max(three[1:]))
            )
        end = self.axis.encode_end(self.axis.decode_end(self.axis.encode(self.extremes[-1])))
        return st.tuples(self.any_key, st.integers(1, 9)).map(
            lambda two: (two[0], self.axis.decode(min(self.axis.encode(two[0]) + two[1], end)))
        )


low_and_high = st.sampled_from("\x01\x02ab\x7f\x80é\ud7ff\ue000\uffff\U00010000\U0010ffff")
letters = st.characters(exclude_categories=["Cs"], exclude_characters="\x00")

BIGINTS = [-(2**63), -(2**63) + 1, -(2**53) - 1, -2, -1, 0, 1, 2, 2**53, 2**53 + 1]
BIGINTS += [2**53 + 2, 2**63 - 2, 2**63 - 1]
HUGE = [-(10**999) + 1, -(10**39), *BIGINTS, 2**63, 10**39, 10**39 + 1, 10**999 - 1]
DOUBLES = [0.0, 5e-324, 1e-323, 2.2250738585072009e-308, 2.2250738585072014e-308, 0.1, 1.0]
DOUBLES += [1.0000000000000002, 2.0**53, 1.7976931348623155e308, 1.7976931348623157e308]
MICROSECOND = timedelta(microseconds=1)
FIRST, LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
INSTANTS = [
    FIRST,
    FIRST + MICROSECOND,
    datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC),
    datetime(1970, 1, 1, tzinfo=UTC),
    datetime(2024, 3, 31, 1, tzinfo=UTC),
    datetime(2024, 3, 31, 1, 0, 0, 1, UTC),
    LAST - MICROSECOND,
    LAST,
]
TEXTS = ["", "\x01", "\x01\x01", "\x02", "A", "B", "SS", "a", "a\x01", "a\x01\x01", "aaa"]
TEXTS += ["a" * 40, "a" * 40 + "\x01", "ab", "az", "ba", "i", "zzz", "ß", "e\u0301", "é", "\u0130"]
TEXTS += ["\u0131", "\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0001f600", "\U0010ffff"]
TEXTS += ["\U0010ffff" * 40]
TEXTS.sort(key=lambda text: text.encode())

CASES = [
    Case(id="int", axis=IntAxis(), keys=st.integers(-(10**40), 10**40), extremes=HUGE),
    Case(
        id="bigint",
        axis=IntAxis(sql_type="bigint"),
        keys=st.integers(-(2**63), 2**63 - 1),
        extremes=BIGINTS,
    ),
    Case(
        id="date",
        axis=DateAxis(),
        keys=st.dates(),
        extremes=[date.min, date(1970, 1, 1), date(2024, 2, 29), date(9999, 12, 30), date.max],
    ),
    Case(
        id="datetime",
        axis=DateTimeAxis(),
        keys=st.datetimes(timezones=st.just(UTC)),
        extremes=INSTANTS,
    ),
    Case(
        id="uuid",
        axis=UUIDAxis(),
        keys=st.uuids(),
        extremes=[UUID(int=n) for n in (0, 1, 2**64 - 1, 2**64, 2**127 - 1, 2**127, 2**128 - 1)],
    ),
    Case(
        id="decimal",
        axis=DecimalAxis(decimal_places=4),
        keys=st.decimals(-(10**30), 10**30, places=4),
        extremes=[Decimal(n) for n in ("-1e40", "-1", "-0.0001", "0", "0.0001", "1", "1e40")],
    ),
    Case(
        id="float",
        axis=FloatAxis(),
        keys=st.floats(allow_nan=False, allow_infinity=False).map(lambda number: number + 0.0),
        extremes=[-number for number in reversed(DOUBLES[1:])] + DOUBLES,
    ),
    Case(
        id="text",
        axis=TextAxis(),
        keys=st.text(letters, max_size=8) | st.text(low_and_high, max_size=8),
        extremes=TEXTS,
    ),
]
ORDINAL = [case for case in CASES if case.axis.is_ordinal]
