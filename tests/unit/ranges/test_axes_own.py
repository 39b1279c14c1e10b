"""Key types of one's own: with the base class, and with nothing but the protocol."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.errors import InvalidInput
from ranges.axes import Axis, OrdinalAxis, Span, describe
from tests.axes import many


class Version(NamedTuple):
    major: int
    minor: int
    patch: int


@dataclass(frozen=True)
class VersionAxis(OrdinalAxis[Version]):
    """Versions such as 1.12.3, each part below 1,000, stored as one integer."""

    name: ClassVar[str] = "version"
    sql_type: ClassVar[str] = "bigint"
    first: ClassVar[int] = 0
    last: ClassVar[int] = 10**9 - 1

    def encode(self, key: Version) -> int:
        return (key.major * 1_000 + key.minor) * 1_000 + key.patch

    def decode(self, ordinal: int) -> Version:
        rest, patch = divmod(self.require(ordinal), 1_000)
        return Version(*divmod(rest, 1_000), patch)

    def validate(self, value: Any, field: str) -> Version:
        if isinstance(value, Version):
            return value
        if not isinstance(value, str) or not re.fullmatch(r"\d{1,3}(\.\d{1,3}){2}", value):
            raise InvalidInput("must be a version such as 1.12.3", field=field)
        return Version(*map(int, value.split(".")))

    def to_json(self, key: Version) -> str:
        return ".".join(map(str, key))


WEEKDAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]


class SlotAxis:
    """Slots of a week, "Mon 09" to "Sun 23"; it knows nothing of the classes of Coppice."""

    name = "slot"
    sql_type = "text"
    collation = "C"
    is_ordinal = True

    def encode(self, key: str) -> int:
        return WEEKDAYS.index(key[:3]) * 24 + int(key[4:])

    def decode(self, ordinal: int) -> str:
        return f"{WEEKDAYS[ordinal // 24]} {ordinal % 24:02}"

    def encode_end(self, hi: str | None) -> int:
        return 7 * 24 if hi is None else self.encode(hi)

    def decode_end(self, ordinal: int) -> str | None:
        return self.decode(ordinal) if ordinal < 7 * 24 else None

    def validate(self, value: Any, field: str) -> str:
        if not isinstance(value, str) or value[:3] not in WEEKDAYS or not value[4:].isdigit():
            raise InvalidInput('must be a slot such as "Mon 09"', field=field)
        return value

    def to_json(self, key: str) -> str:
        return key

    def from_json(self, value: str | int) -> str:
        return str(value)

    def midpoint(self, lo: str, hi: str | None) -> str | None:
        middle = (self.encode(lo) + self.encode_end(hi)) // 2
        return self.decode(middle) if middle > self.encode(lo) else None

    def successor(self, key: str) -> str | None:
        return self.decode_end(self.encode(key) + 1)

    def width(self, lo: str, hi: str | None) -> int:
        return self.encode_end(hi) - self.encode(lo)


versions = st.builds(Version, *[st.integers(0, 999)] * 3)


@many
@given(keys=st.tuples(versions, versions))
def test_the_base_class_does_the_arithmetic_of_an_axis_of_ones_own(
    keys: tuple[Version, Version],
) -> None:
    lo, hi = sorted(keys)
    span = Span(VersionAxis(), VersionAxis().to_json(lo), hi)
    middle = span.axis.midpoint(span.lo, span.hi)

    assert (span.lo, span.hi) == (lo, hi)
    assert middle is None or lo < middle < hi
    assert span.width == VersionAxis().encode(hi) - VersionAxis().encode(lo)


def test_a_range_on_an_axis_of_ones_own_is_checked_as_any_other() -> None:
    with pytest.raises(InvalidInput, match=r"^hi: must not lie before lo"):
        Span(VersionAxis(), "1.10.0", "1.9.9")
    with pytest.raises(InvalidInput, match=r"^lo: must be a version"):
        Span(VersionAxis(), "1.10", "1.11.0")
    assert Span(VersionAxis(), "0.0.0", "999.999.999", inclusive=True).hi is None


def test_a_class_with_nothing_but_the_protocol_is_an_axis() -> None:
    axis: Axis[str] = SlotAxis()
    week = Span(axis, "Mon 00", "Sun 23", inclusive=True)

    pieces = split(axis, week.lo, week.hi)

    assert week.width == len(pieces) == 168
    assert [lo for lo, _ in pieces] == [f"{d} {h:02}" for d in WEEKDAYS for h in range(24)]
    assert all(left[1] == right[0] for left, right in itertools.pairwise(pieces))
    assert describe(axis) == {"type": "slot"}


def split(axis: Axis[str], lo: str, hi: str | None) -> list[tuple[str, str | None]]:
    middle = axis.midpoint(lo, hi)
    if middle is None:
        return [(lo, hi)]
    return [*split(axis, lo, middle), *split(axis, middle, hi)]
