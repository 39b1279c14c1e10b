"""Leaves whose ends were found together with an earlier one's, to ask once for several.

Asking costs a lane about a millisecond, of which the index is half. What is known ahead lies end to
end, so nothing is skipped by it; rows that are finished meanwhile are left out by the leaf's own
query, as they are when they are finished between any question and its leaf. But such a leaf has
fewer rows than were counted, or more, if some were added: so it is asked again after a second.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable

from ranges.positions import Position, before
from ranges.sources import Found

MOST_LEAVES = 8
MOST_ROWS = 100_000
"""Of all leaves of one question: it must stay within the time that a probe has."""
KEPT_SECONDS = 1.0
"""Where a leaf takes so long, a question for each costs next to nothing."""


class Ahead:
    """The next leaves of one strand. A leaf of another size, or elsewhere, makes them void."""

    __slots__ = ("_asked_at", "_count", "_leaves", "_size", "_stays_single")

    def __init__(self) -> None:
        self._leaves: deque[Found] = deque()
        self._asked_at = 0.0
        self._size = 0
        self._count = 1
        self._stays_single = False

    def take(self, cur: Position, hi: Position, size: int) -> Found | None:
        """The leaf that begins at `cur`, if it is known and lies before `hi`."""
        if not self._leaves:
            return None
        found = self._leaves.popleft()
        if (
            size == self._size
            and found.first == cur
            and not before(hi, found.upto)
            and time.monotonic() - self._asked_at <= KEPT_SECONDS
        ):
            return found
        self._leaves.clear()
        self._count = 1
        return None

    def wanted(self, size: int) -> int:
        """For how many leaves to ask now: twice as many as last time, if all of these were taken."""
        if size != self._size:
            self._count, self._size = 1, size
        if self._stays_single:
            return 1
        return max(1, min(self._count, MOST_LEAVES, MOST_ROWS // size))

    def keep(self, leaves: Iterable[Found]) -> None:
        """What was found behind the leaf that is taken at once."""
        self._leaves.extend(leaves)
        self._asked_at = time.monotonic()
        self._count = min(self._count * 2, MOST_LEAVES)

    def took_too_long(self) -> None:
        """From now on one leaf is asked for at a time."""
        self._leaves.clear()
        self._stays_single = True
