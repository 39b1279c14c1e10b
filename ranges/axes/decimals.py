"""Decimals with a fixed number of places: the ordinal is the number without its point.

Decimal's own arithmetic rounds to the digits of the current context, so none of it is used.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar

from jobs.errors import InvalidInput
from ranges.axes.base import MOST_DIGITS, OrdinalAxis, wrong_type

_WRITTEN = re.compile(rf"[+-]?[0-9]{{1,{MOST_DIGITS}}}(\.[0-9]{{1,{MOST_DIGITS}}})?")
_LARGEST = 10**MOST_DIGITS - 1


@dataclass(frozen=True, kw_only=True)
class DecimalAxis(OrdinalAxis[Decimal]):
    name: ClassVar[str] = "decimal"
    sql_type: ClassVar[str] = "numeric"
    first: ClassVar[int] = -_LARGEST
    last: ClassVar[int] = _LARGEST

    decimal_places: int

    def __post_init__(self) -> None:
        places = self.decimal_places
        if isinstance(places, bool) or not isinstance(places, int) or not 0 <= places < MOST_DIGITS:
            raise InvalidInput(
                f"must be a whole number from 0 to {MOST_DIGITS - 1}", field="decimal_places"
            )

    def encode(self, key: Decimal) -> int:
        return self._ordinal(key, "key")

    def decode(self, ordinal: int) -> Decimal:
        digits = tuple(map(int, str(abs(self.require(ordinal)))))
        return Decimal((int(ordinal < 0), digits, -self.decimal_places))

    def validate(self, value: Any, field: str) -> Decimal:
        if isinstance(value, str):
            if not _WRITTEN.fullmatch(value):
                raise InvalidInput("must be a decimal number such as 12.50", field=field)
            value = Decimal(value)
        # A float is refused: 0.1 is not a tenth, and nobody knows which of the two was meant.
        elif isinstance(value, int) and not isinstance(value, bool):
            if abs(value) > _LARGEST:
                raise InvalidInput(self.limits_in_words(), field=field)
            value = Decimal(value)
        elif not isinstance(value, Decimal):
            raise wrong_type("a decimal number", value, field)
        return self.decode(self._ordinal(value, field))

    def to_json(self, key: Decimal) -> str:
        return format(self.decode(self.encode(key)), "f")

    def limits_in_words(self) -> str:
        return f"must have at most {MOST_DIGITS} digits"

    def _ordinal(self, value: Decimal, field: str) -> int:
        if not value.is_finite():
            raise InvalidInput("must be a finite number", field=field)
        if not value:
            return 0
        # Looked at first: 1E+999999999 must not be written out.
        if value.adjusted() + self.decimal_places >= MOST_DIGITS:
            raise InvalidInput(self.limits_in_words(), field=field)
        if value.adjusted() >= -self.decimal_places:
            over, under = value.as_integer_ratio()
            scale: int = 10**self.decimal_places
            ordinal, rest = divmod(over * scale, under)
            if not rest:
                return ordinal
        raise InvalidInput(f"has more than {self.decimal_places} decimal places", field=field)
