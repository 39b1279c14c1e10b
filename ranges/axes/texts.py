"""Texts in the order of their code points, which is that of COLLATE "C" over UTF-8.

A text is a fraction: its characters are the digits after the point, and what follows its end is
zeros. The digits are the code points without NUL, which PostgreSQL cannot store (so 0 is free for
"the text has ended"), and without the surrogates, which are no characters. Between two texts lies
their average, cut off as soon as it is greater than the lower one.

Between `lo` and `lo + "\\x01"` lies nothing at all; everywhere else there is always room, so
halving alone never ends. A size, a count of rows or a depth must end it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, ClassVar

from jobs.errors import InvalidInput
from ranges.axes.base import wrong_type

LONGEST = 10_000
PREFIX = 32
FIRST_SURROGATE, SURROGATES = 0xD800, 0x800
BASE = 0x110000 - SURROGATES

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_POWERS: list[int] = [BASE**places for places in range(PREFIX + 1)]
_WHOLE: int = _POWERS[PREFIX]


@dataclass(frozen=True, kw_only=True)
class TextAxis:
    """Positions are the texts themselves.

    `encode` is a projection on the first 32 characters, for drawing and for estimates: it never
    turns the order round, but it maps texts that differ only further on to the same number.
    `decode` gives the last text of at most 32 characters whose projection is not above the number.
    """

    name: ClassVar[str] = "text"
    sql_type: ClassVar[str] = "text"
    is_ordinal: ClassVar[bool] = False

    collation: str = "C"

    def encode(self, key: str) -> int:
        ordinal = 0
        for character in key[:PREFIX]:
            ordinal = ordinal * BASE + _digit(character)
        return ordinal * _POWERS[max(PREFIX - len(key), 0)]

    def decode(self, ordinal: int) -> str:
        if not 0 <= ordinal < _WHOLE:
            raise InvalidInput("lies outside the projection of texts", field="ordinal")
        digits = []
        for _ in range(PREFIX):
            ordinal, digit = divmod(ordinal, BASE)
            digits.append(digit)
        digits.reverse()
        length = digits.index(0) if 0 in digits else PREFIX
        return "".join(map(_character, digits[:length]))

    def encode_end(self, hi: str | None) -> int:
        return _WHOLE if hi is None else self.encode(hi)

    def decode_end(self, ordinal: int) -> str | None:
        return None if ordinal == _WHOLE else self.decode(ordinal)

    def validate(self, value: Any, field: str) -> str:
        if not isinstance(value, str):
            raise wrong_type("text", value, field)
        if len(value) > LONGEST:
            raise InvalidInput(f"is longer than {LONGEST:,} characters", field=field)
        return storable(value, field)

    def to_json(self, key: str) -> str:
        return key

    def from_json(self, value: str | int) -> str:
        return storable(str(value), "key")

    def midpoint(self, lo: str, hi: str | None) -> str | None:
        if hi is not None and lo >= hi:
            return None
        same = _common(lo, hi) if hi is not None else 0
        low = list(map(_digit, lo[same:]))
        high = list(map(_digit, hi[same:])) if hi is not None else [BASE]
        for place, digit in enumerate(_average(low, high)):
            floor = low[place] if place < len(low) else 0
            if digit > floor:
                return lo[: same + place] + _character(digit)
            if place >= len(low):
                # The average goes on with a zero, which no text has. Then `hi` goes on with "\x01".
                least = lo + "\x01"
                return least if least != hi else None
        raise AssertionError("the average of two texts is greater than the lower one")

    def successor(self, key: str) -> str:
        return key + "\x01"

    def width(self, lo: str, hi: str | None) -> int:
        """The difference of the projections, but never zero unless the texts are equal."""
        if hi is None:
            return max(_WHOLE - self.encode(lo), 1)
        if lo < hi:
            return max(self.encode(hi) - self.encode(lo), 1)
        return min(self.encode(hi) - self.encode(lo), -1) if hi < lo else 0


def storable(value: str, field: str) -> str:
    if _UNSTORABLE.search(value):
        raise InvalidInput("contains NUL or half of a surrogate pair", field=field)
    return str(value)


def _common(first: str, second: str) -> int:
    """The length of the beginning that both texts share."""
    for place, (one, other) in enumerate(zip(first, second, strict=False)):
        if one != other:
            return place
    return min(len(first), len(second))


def _average(low: list[int], high: list[int]) -> list[int]:
    """The digits halfway between, one more than the longer of the two has."""
    sums = [one + other for one, other in zip_longest(low, high, fillvalue=0)]
    # For the half of an odd last digit.
    sums.append(0)
    for place in range(len(sums) - 1, 0, -1):
        if sums[place] >= BASE:
            sums[place] -= BASE
            sums[place - 1] += 1
    digits, rest = [], 0
    for total in sums:
        digit, rest = divmod(rest * BASE + total, 2)
        digits.append(digit)
    return digits


def _digit(character: str) -> int:
    code = ord(character)
    return code if code < FIRST_SURROGATE else code - SURROGATES


def _character(digit: int) -> str:
    return chr(digit if digit < FIRST_SURROGATE else digit + SURROGATES)
