"""Double-precision numbers, counted one by one in their order.

The bits of a positive IEEE 754 double, read as an integer, grow with its value, so they number the
doubles without gaps; negative ones are counted downwards from zero. Both zeros are number 0, as
they are equal. Halving a range halves the count of doubles in it, not its length.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from math import isfinite
from typing import Any, ClassVar

from jobs.errors import InvalidInput
from ranges.axes.base import OrdinalAxis, wrong_type

_WRITTEN = re.compile(r"[+-]?[0-9]{1,400}(\.[0-9]{1,1100})?(e[+-]?[0-9]{1,4})?", re.IGNORECASE)
_MAGNITUDE = 2**63 - 1


def _ordinal(value: float) -> int:
    (bits,) = struct.unpack(">q", struct.pack(">d", value))
    return int(bits) if bits >= 0 else -(bits & _MAGNITUDE)


def _value(ordinal: int) -> float:
    (magnitude,) = struct.unpack(">d", struct.pack(">q", abs(ordinal)))
    return float(magnitude) if ordinal >= 0 else -float(magnitude)


@dataclass(frozen=True, kw_only=True)
class FloatAxis(OrdinalAxis[float]):
    """All finite doubles. NaN and the infinities have no place here."""

    name: ClassVar[str] = "float"
    sql_type: ClassVar[str] = "double precision"
    first: ClassVar[int] = -_ordinal(1.7976931348623157e308)
    last: ClassVar[int] = _ordinal(1.7976931348623157e308)

    def encode(self, key: float) -> int:
        return _ordinal(_finite(key, "key"))

    def decode(self, ordinal: int) -> float:
        return _value(self.require(ordinal))

    def validate(self, value: Any, field: str) -> float:
        if isinstance(value, str):
            if not _WRITTEN.fullmatch(value):
                raise InvalidInput("must be a number such as 12.5 or 1e-9", field=field)
        elif isinstance(value, bool) or not isinstance(value, int | float):
            raise wrong_type("a number", value, field)
        try:
            number = float(value)
        except OverflowError:
            raise InvalidInput(self.limits_in_words(), field=field) from None
        if isinstance(value, int) and int(_finite(number, field)) != value:
            raise InvalidInput("is a whole number that no double is equal to", field=field)
        return _finite(number, field) + 0.0  # no minus zero

    def to_json(self, key: float) -> str:
        """The shortest digits that are read back as the same double."""
        return repr(key)


def _finite(value: float, field: str) -> float:
    if not isfinite(value):
        raise InvalidInput("must be a finite number", field=field)
    return value
