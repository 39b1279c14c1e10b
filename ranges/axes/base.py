"""What an axis promises: the arithmetic of one key type.

A range is half-open, [lo, hi). Where `hi` may be None it means that there is no upper bound: it
stands for the place one past the last key of the type, which no key can name.

1. `encode` keeps the order of the database: a < b there exactly when encode(a) < encode(b).
2. `decode(encode(key)) == key` for every valid key, if the axis is ordinal.
3. `midpoint(lo, hi)` lies strictly between, or is None; so a split never returns its own parent.
4. `lo < successor(lo)`, and no key lies between.
5. Only `validate` meets strangers' values. Everything else takes keys that it has returned, or
   keys read from the database.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Protocol

from jobs.errors import InvalidInput

# Positions are stored as numeric(1000); the place past the last one must fit as well.
MOST_DIGITS = 999


class Axis[K](Protocol):
    """The interface. `OrdinalAxis` brings half of it; any class that has it all will do."""

    @property
    def name(self) -> str: ...

    @property
    def sql_type(self) -> str:
        """The type to cast bounds to in SQL, such as bigint."""

    @property
    def collation(self) -> str | None:
        """The collation in which the database must compare keys and bounds; None: no text."""

    @property
    def is_ordinal(self) -> bool:
        """Whether `encode` is exact, so that a position is an int; else it is the key itself."""

    def encode(self, key: K) -> int: ...

    def decode(self, ordinal: int) -> K: ...

    def encode_end(self, hi: K | None) -> int:
        """`encode` for an upper bound, None included."""

    def decode_end(self, ordinal: int) -> K | None:
        """`decode` for an upper bound; None: leave the condition out."""

    def validate(self, value: Any, field: str) -> K:
        """The key that a key, or its JSON or command-line form, stands for.

        InvalidInput names the field.
        """

    def to_json(self, key: K) -> str | int: ...

    def from_json(self, value: str | int) -> K: ...

    def midpoint(self, lo: K, hi: K | None) -> K | None:
        """A key strictly between, about halfway; None: the range cannot be split."""

    def successor(self, key: K) -> K | None:
        """The least upper bound that lets the key in; None: the key is the last of its type."""

    def width(self, lo: K, hi: K | None) -> int:
        """The size of [lo, hi): zero when empty, negative when upside down."""


class OrdinalAxis[K](ABC):
    """An axis whose keys are numbered without gaps, from `first` to `last`."""

    name: ClassVar[str]
    collation: ClassVar[str | None] = None
    is_ordinal: ClassVar[bool] = True

    @property
    @abstractmethod
    def sql_type(self) -> str: ...

    @property
    @abstractmethod
    def first(self) -> int: ...

    @property
    @abstractmethod
    def last(self) -> int: ...

    @abstractmethod
    def encode(self, key: K) -> int: ...

    @abstractmethod
    def decode(self, ordinal: int) -> K: ...

    @abstractmethod
    def validate(self, value: Any, field: str) -> K: ...

    @abstractmethod
    def to_json(self, key: K) -> str | int: ...

    def from_json(self, value: str | int) -> K:
        return self.validate(value, "key")

    def encode_end(self, hi: K | None) -> int:
        return self.last + 1 if hi is None else self.encode(hi)

    def decode_end(self, ordinal: int) -> K | None:
        return None if ordinal == self.last + 1 else self.decode(ordinal)

    def midpoint(self, lo: K, hi: K | None) -> K | None:
        start, end = self.encode(lo), self.encode_end(hi)
        middle = start + (end - start) // 2
        return self.decode(middle) if start < middle < end else None

    def successor(self, key: K) -> K | None:
        return self.decode_end(self.encode(key) + 1)

    def width(self, lo: K, hi: K | None) -> int:
        return self.encode_end(hi) - self.encode(lo)

    def require(self, ordinal: int, field: str = "ordinal") -> int:
        """The ordinal, if it has a key."""
        if not self.first <= ordinal <= self.last:
            raise InvalidInput(self.limits_in_words(), field=field)
        return ordinal

    def limits_in_words(self) -> str:
        lowest, highest = (
            self.to_json(self.decode(self.first)),
            self.to_json(self.decode(self.last)),
        )
        return f"must be from {lowest} to {highest}"


def wrong_type(expected: str, value: object, field: str) -> InvalidInput:
    return InvalidInput(f"must be {expected}, not {type(value).__name__}", field=field)


def number_to_json(number: int) -> str | int:
    """JavaScript, and every reader that takes numbers for doubles, loses digits beyond 2**53."""
    return number if abs(number) <= 2**53 else str(number)
