"""Whole numbers: the key is its own ordinal."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from jobs.errors import InvalidInput
from ranges.axes.base import MOST_DIGITS, OrdinalAxis, number_to_json, wrong_type

_WHOLE = re.compile(rf"[+-]?[0-9]{{1,{MOST_DIGITS}}}")
_LARGEST = 10**MOST_DIGITS - 1


@dataclass(frozen=True, kw_only=True)
class IntAxis(OrdinalAxis[int]):
    """Integers of up to 999 digits; with `sql_type="bigint"` those that a column can hold.

    bigint suits the smaller integer columns too: their indexes compare with it as it is, whereas
    numeric would turn every key into another type first.
    """

    name: ClassVar[str] = "int"
    sql_type: Literal["bigint", "numeric"] = "numeric"

    @property
    def first(self) -> int:
        return -(2**63) if self.sql_type == "bigint" else -_LARGEST

    @property
    def last(self) -> int:
        return 2**63 - 1 if self.sql_type == "bigint" else _LARGEST

    def encode(self, key: int) -> int:
        if type(key) is int:
            return key
        # A column of numeric, whose model says that it holds whole numbers.
        number = int(key)
        if number != key:
            raise InvalidInput("is no whole number", field="key")
        return number

    def decode(self, ordinal: int) -> int:
        return self.require(ordinal)

    def validate(self, value: Any, field: str) -> int:
        if isinstance(value, str):
            if not _WHOLE.fullmatch(value):
                raise InvalidInput(
                    f"must be a whole number of at most {MOST_DIGITS} digits", field=field
                )
        elif isinstance(value, bool) or not isinstance(value, int):
            raise wrong_type("a whole number", value, field)
        return self.require(int(value), field)

    def to_json(self, key: int) -> str | int:
        return number_to_json(key)

    def limits_in_words(self) -> str:
        if self.sql_type == "numeric":
            return f"must be a whole number of at most {MOST_DIGITS} digits"
        return super().limits_in_words()
