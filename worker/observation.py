"""Decide which workers are dead, from nothing but what was seen. Pure: no clock, no database.

What must always be true:
1. Only a beat that stands still while this observer watches counts. No clock of another machine,
   and no time stamp, is ever compared.
2. Time counts as watched only between two looks that both succeeded, close to each other. An
   observer that was frozen, or that could not reach the database, has seen nothing meanwhile.
3. After a start, a reconnect, or a change of server, observation begins anew: everybody gets the
   full time to beat again.
4. A free session lock shortens the wait, if it was free in two looks running; it never replaces
   the beat that stands still.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

LOOKS_WITHOUT_LOCK = 2


@dataclass(frozen=True, kw_only=True)
class Sighting:
    """One worker as one look found it."""

    worker_id: str
    beats: int
    lock_is_free: bool
    """False also for a worker that has no session lock at all."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A worker that is dead if its beats still are what they were."""

    worker_id: str
    beats: int
    reason: str


@dataclass(slots=True)
class _Watch:
    beats: int
    still: float = 0.0  # watched seconds in which the beats did not move
    free_looks: int = 0


class Observer:
    def __init__(self, *, dead_after: float, lock_free: float, longest_gap: float) -> None:
        """`longest_gap`: the most seconds that the time between two looks may count for."""
        self.dead_after = dead_after
        self.lock_free = lock_free
        self.longest_gap = longest_gap
        self._watched: dict[str, _Watch] = {}
        self._server: str | None = None
        self._last_look: float | None = None

    def begin_anew(self) -> None:
        self._watched.clear()
        self._last_look = None

    def look(self, now: float, server: str, sightings: Iterable[Sighting]) -> list[Verdict]:
        """Take note of one successful look at `now` (monotonic seconds); returns who is dead.

        `server` names the database server's incarnation. A verdict is repeated with each look
        until the worker is no longer seen or beats again.
        """
        if server != self._server:
            self._server = server
            self.begin_anew()
        gap = 0.0 if self._last_look is None else now - self._last_look
        self._last_look = now
        passed = min(max(gap, 0.0), self.longest_gap)
        before, self._watched = self._watched, {}
        verdicts = []
        for sighting in sightings:
            watch = self._note(before.get(sighting.worker_id), sighting, passed)
            self._watched[sighting.worker_id] = watch
            reason = self._reason(watch)
            if reason:
                verdicts.append(
                    Verdict(worker_id=sighting.worker_id, beats=watch.beats, reason=reason)
                )
        return verdicts

    def _note(self, watch: _Watch | None, sighting: Sighting, passed: float) -> _Watch:
        if watch is None or watch.beats != sighting.beats:
            return _Watch(sighting.beats, free_looks=1 if sighting.lock_is_free else 0)
        watch.still += passed
        watch.free_looks = watch.free_looks + 1 if sighting.lock_is_free else 0
        return watch

    def _reason(self, watch: _Watch) -> str:
        if watch.still >= self.dead_after:
            return f"no beat for {watch.still:.1f} s"
        if watch.free_looks >= LOOKS_WITHOUT_LOCK and watch.still >= self.lock_free:
            return f"its session is gone, and no beat for {watch.still:.1f} s"
        return ""


class OrphanWatch:
    """Owners of processing jobs that no live worker's row backs, seen long enough to be sure.

    A supervisor that frees a dead child's jobs marks the row first, so the jobs look orphaned for a
    moment; the wait leaves them to it.
    """

    def __init__(self, *, after: float) -> None:
        self.after = after
        self._since: dict[str, float] = {}

    def look(self, now: float, owners: Iterable[str]) -> list[str]:
        """Owners seen in this look and in one at least `after` seconds ago, and in all between."""
        self._since = {owner: self._since.get(owner, now) for owner in owners}
        return [owner for owner, since in self._since.items() if now - since >= self.after]

    def begin_anew(self) -> None:
        self._since.clear()
