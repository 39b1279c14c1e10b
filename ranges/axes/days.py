"""Calendar days. No time zone has a part in this: a day is a number, 1 for 1 January of year 1."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, ClassVar

from jobs.errors import InvalidInput
from ranges.axes.base import OrdinalAxis, wrong_type

# The parser would also take 20240229 and 2024-W09-4.
_CANONICAL = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


@dataclass(frozen=True, kw_only=True)
class DateAxis(OrdinalAxis[date]):
    name: ClassVar[str] = "date"
    sql_type: ClassVar[str] = "date"
    first: ClassVar[int] = date.min.toordinal()
    last: ClassVar[int] = date.max.toordinal()

    def encode(self, key: date) -> int:
        return key.toordinal()

    def decode(self, ordinal: int) -> date:
        return date.fromordinal(self.require(ordinal))

    def validate(self, value: Any, field: str) -> date:
        if isinstance(value, str):
            if not _CANONICAL.fullmatch(value):
                raise InvalidInput("must be a date such as 2024-02-29", field=field)
            try:
                return date.fromisoformat(value)
            except ValueError:
                raise InvalidInput("is not a day of the years 1 to 9999", field=field) from None
        # A datetime is a date to Python, but which day it is depends on the zone.
        if isinstance(value, datetime) or not isinstance(value, date):
            raise wrong_type("a date", value, field)
        return value

    def to_json(self, key: date) -> str:
        return key.isoformat()
