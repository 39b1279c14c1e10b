"""How large the next leaf is: a fixed size, or what takes about the target time.

    rows_next = rows_prev * clamp(target / elapsed, 0.5, 1.5)

on an average of seconds per row, so that one odd leaf changes little. Pure: times are handed in.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Self

from jobs.errors import InvalidInput
from jobs.moments import parse_duration

if TYPE_CHECKING:
    from ranges.axes.base import Axis

DEFAULT_TARGET_SECONDS = 1.0
FIRST_SIZE = 100

_NEWEST = 0.4
"""The weight of the last leaf in the average of seconds per row."""

_ROWS = (1, 50_000)
_LARGEST = 10**18
_UNITS = {"date": timedelta(days=1), "datetime": timedelta(microseconds=1)}


@dataclass(frozen=True, kw_only=True)
class Leaf:
    """How much one step of the walk takes: rows of a queryset, or width of a plain range.

    `max_size`: always so much (dates and datetimes also take a timedelta). Or `target_seconds`:
    adapt the size, between the two of `rows`, so that a leaf takes about so long; pausing,
    cancelling and stealing react within one leaf. `hard_timeout`: seconds after which a leaf that
    still runs is taken away from its lane.
    """

    max_size: int | timedelta | None = None
    target_seconds: float | None = None
    rows: tuple[int, int] = _ROWS
    hard_timeout: float | timedelta | None = None

    def __post_init__(self) -> None:
        if self.max_size is None:
            target = DEFAULT_TARGET_SECONDS if self.target_seconds is None else self.target_seconds
            seconds = parse_duration(target, "leaf.target_seconds")
            if seconds <= 0:
                raise InvalidInput("must be more than 0", field="leaf.target_seconds")
            object.__setattr__(self, "target_seconds", seconds)
        elif self.target_seconds is not None:
            raise InvalidInput("is either fixed or adapted to a time", field="leaf.max_size")
        elif isinstance(self.max_size, timedelta):
            if self.max_size <= timedelta(0):
                raise InvalidInput("must be more than 0", field="leaf.max_size")
        else:
            _size(self.max_size, "leaf.max_size")
        self._check_rows()
        if self.hard_timeout is not None:
            seconds = parse_duration(self.hard_timeout, "leaf.hard_timeout")
            if seconds <= 0:
                raise InvalidInput("must be more than 0", field="leaf.hard_timeout")
            object.__setattr__(self, "hard_timeout", seconds)

    def on(self, axis: Axis[Any]) -> Leaf:
        """The same with `max_size` counted in keys of the axis."""
        if not isinstance(self.max_size, timedelta):
            return self
        unit = _UNITS.get(axis.name)
        if unit is None:
            raise InvalidInput(
                f"is a duration, but keys are of type {axis.name}", field="leaf.max_size"
            )
        if self.max_size % unit:
            raise InvalidInput("must be whole days for dates", field="leaf.max_size")
        return Leaf(max_size=self.max_size // unit, rows=self.rows, hard_timeout=self.hard_timeout)

    def to_json(self) -> dict[str, Any]:
        """Of a leaf that is `on` an axis."""
        if isinstance(self.max_size, timedelta):
            raise TypeError("a duration has no size before it is on an axis")
        values: dict[str, Any] = {"hard_timeout": self.hard_timeout}
        if self.max_size is not None:
            values["max_size"] = self.max_size
        else:
            values |= {"target_seconds": self.target_seconds, "rows": list(self.rows)}
        return {name: value for name, value in values.items() if value is not None}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        known = dict(values)
        if "rows" in known:
            known["rows"] = tuple(known["rows"])
        unknown = sorted(set(known) - {"max_size", "target_seconds", "rows", "hard_timeout"})
        if unknown:
            raise InvalidInput(f"has no option {unknown[0]!r}", field="leaf")
        return cls(**known)

    def _check_rows(self) -> None:
        pair = tuple(self.rows) if isinstance(self.rows, list | tuple) else ()
        if len(pair) != 2:
            raise InvalidInput("must be the smallest and the largest size", field="leaf.rows")
        for number in pair:
            _size(number, "leaf.rows")
        if pair[0] > pair[1]:
            raise InvalidInput("must have the smaller size first", field="leaf.rows")
        if self.max_size is not None and pair != _ROWS:
            raise InvalidInput("is for leaves that adapt to a time", field="leaf.rows")
        object.__setattr__(self, "rows", pair)


class LeafSizer:
    """The size of the next leaf of one strand.

    `least` comes from a largest depth: smaller leaves would need a deeper tree. `seconds_per_item`
    is what the run knows already, for a strand that starts.
    """

    __slots__ = ("_exact", "_fixed", "_least", "_most", "_size", "_target", "seconds_per_item")

    def __init__(
        self, leaf: Leaf, *, least: int = 1, seconds_per_item: float | None = None
    ) -> None:
        self.seconds_per_item = seconds_per_item
        self._fixed = leaf.max_size is not None
        if self._fixed:
            if not isinstance(leaf.max_size, int):
                raise TypeError("a duration has no size before it is on an axis")
            self._least, self._most = 1, max(leaf.max_size, least)
            self._size = self._most
            self._target = math.inf
        else:
            assert leaf.target_seconds is not None
            self._least = max(leaf.rows[0], least)
            self._most = max(leaf.rows[1], least)
            self._target = float(leaf.target_seconds)
            first: float = FIRST_SIZE
            if seconds_per_item:
                first = min(self._target / seconds_per_item, self._most)
            self._size = self._within(int(first))
        self._exact = True

    def size(self) -> int:
        return self._size

    def observe(self, items: int, seconds: float) -> None:
        """A leaf of so many items took so long."""
        if items > 0:
            latest, known = seconds / items, self.seconds_per_item
            self.seconds_per_item = latest if known is None else known + _NEWEST * (latest - known)
        if self._fixed:
            if not self._exact:
                self._size = min(self._most, max(self._size + 1, self._size * 3 // 2))
                self._exact = self._size == self._most
        elif self.seconds_per_item is not None:
            expected = self.seconds_per_item * self._size
            growth = self._target / expected if expected > 0 else 1.5
            self._size = self._within(math.ceil(self._size * min(max(growth, 0.5), 1.5)))

    def halve(self) -> None:
        """A leaf ran into a lock or a time-out: try with less, and grow again from there."""
        self._size = max(1, self._size // 2)
        self._exact = False

    def _within(self, size: int) -> int:
        return max(self._least, min(size, self._most))


def least_size(total: int, max_depth: int | None) -> int:
    """The smallest leaf for which the tree stays within the depth."""
    return 1 if max_depth is None else max(1, -(-total // 2**max_depth))


def _size(value: object, field: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _LARGEST:
        raise InvalidInput("must be a whole number from 1 to 10^18", field=field)
