"""Keys that only the database can put in order: citext, and text in a language's collation.

Python knows neither which of two keys is greater nor what lies between, and it must not guess: two
orders for one key leave rows out and do others twice. Bounds are keys read from the index.
"""

# ruff: noqa: ARG002 - the interface hands these over; there is nothing to do with them.

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

from jobs.errors import InvalidInput
from ranges.axes.base import wrong_type
from ranges.axes.texts import LONGEST, storable


@dataclass(frozen=True, kw_only=True)
class DataAxis:
    """`midpoint` and `successor` are None: the database has to be asked.

    Whatever needs an order in Python raises TypeError.
    """

    name: ClassVar[str] = "data"
    is_ordinal: ClassVar[bool] = False

    sql_type: str = "text"
    collation: str | None = None

    def encode(self, key: str) -> NoReturn:
        raise _unordered()

    def decode(self, ordinal: int) -> NoReturn:
        raise _unordered()

    def encode_end(self, hi: str | None) -> NoReturn:
        raise _unordered()

    def decode_end(self, ordinal: int) -> NoReturn:
        raise _unordered()

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
        return None

    def successor(self, key: str) -> str | None:
        return None

    def width(self, lo: str, hi: str | None) -> NoReturn:
        raise _unordered()


def _unordered() -> TypeError:
    return TypeError("only the database can put these keys in order")
