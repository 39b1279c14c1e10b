"""Where keys lie on a run's range, as shares of it: 0 is its first key, 1 its end.

Drawings speak in shares, whatever the key type; people and addresses speak in keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest

from jobs.errors import InvalidInput
from ranges.axes import Axis
from ranges.drawing import axis_of, key_json
from ranges.models import RangeRun
from ranges.positions import Position, before, midpoint
from ranges.proof import bounds_of

HALVINGS = 80
"""Enough to find a share of any range."""


@dataclass(frozen=True, kw_only=True)
class Window:
    """A part of a run's range."""

    lo: Position
    hi: Position
    begin: float
    end: float
    first: Any
    """Its bounds as keys in their JSON form; None: past the last key of the type."""
    upto: Any

    @property
    def is_whole(self) -> bool:
        return self.begin <= 0.0 and self.end >= 1.0


class Scale:
    """Of a planned run."""

    def __init__(self, run: RangeRun) -> None:
        lo, hi = bounds_of(run)
        if lo is None or hi is None:
            raise InvalidInput("is not planned yet", field="run")
        self.axis: Axis[Any] = axis_of(run)
        self.lo, self.hi = lo, hi
        self._start = self._measure(lo)
        self._width = max(self._measure(hi) - self._start, 0)

    def share(self, position: Position) -> float:
        if not self._width:
            return 0.0 if position == self.lo else 1.0
        return min(1.0, max(0.0, (self._measure(position) - self._start) / self._width))

    def at(self, share: float) -> Position:
        """The key there, or nearest to it."""
        if share <= 0:
            return self.lo
        if share >= 1:
            return self.hi
        if isinstance(self.lo, int):
            numerator, denominator = share.as_integer_ratio()
            return self.lo + self._width * numerator // denominator
        lo: Position = self.lo
        hi: Position = self.hi
        for _ in range(HALVINGS):
            middle = midpoint(self.axis, lo, hi)
            if middle is None:
                break
            lo, hi = (lo, middle) if self.share(middle) > share else (middle, hi)
        return lo

    def key(self, position: Position) -> Any:
        return key_json(self.axis, position)

    def position(self, text: Any, field: str) -> Position:
        """Of a key in its JSON form; inside the run. Raises InvalidInput."""
        key = self.axis.validate(text, field)
        found: Position = self.axis.encode(key) if self.axis.is_ordinal else key
        if before(found, self.lo):
            return self.lo
        return self.hi if before(self.hi, found) else found

    def window(self, lo: Position, hi: Position) -> Window:
        return Window(
            lo=lo,
            hi=hi,
            begin=self.share(lo),
            end=self.share(hi),
            first=self.key(lo),
            upto=self.key(hi),
        )

    def whole(self) -> Window:
        return self.window(self.lo, self.hi)

    def asked(self, request: HttpRequest) -> Window:
        """By keys (`from`, `to`), or by shares (`a`, `b`). Raises InvalidInput."""
        given = request.GET
        if given.get("from") or given.get("to"):
            lo = self.position(given["from"], "from") if given.get("from") else self.lo
            hi = self.position(given["to"], "to") if given.get("to") else self.hi
            field = "to"
        else:
            lo = self.at(_share(given.get("a"), "a", 0.0))
            hi = self.at(_share(given.get("b"), "b", 1.0))
            field = "b"
        if before(lo, hi):
            return self.window(lo, hi)
        if field == "b":  # so far in that both ends are one key
            return self.whole() if lo == self.hi else self.window(lo, self._next(lo))
        raise InvalidInput("must lie after from", field=field)

    def _next(self, position: Position) -> Position:
        return position + 1 if isinstance(position, int) else self.hi

    def _measure(self, position: Position) -> int:
        return position if isinstance(position, int) else self.axis.encode(position)


def written(key: Any) -> str:
    """A key for people."""
    return f"{key:,}" if isinstance(key, int) else str(key)


def _share(text: str | None, field: str, default: float) -> float:
    if not text:
        return default
    try:
        found = float(text[:40])
    except ValueError:
        found = -1.0
    if not 0 <= found <= 1:
        raise InvalidInput("must be a share from 0 to 1", field=field)
    return found
