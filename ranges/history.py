"""How fast a run was, and how long its leaves took, from its start until now.

Made of its samples, about one every ten seconds and a thousand at most, and of how it stands now.
What happened between two of them is an interval; where the run was paused, or was reset, nothing is
claimed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from jobs.database import Database, DjangoDatabase
from ranges.sampling import STANDS
from ranges.timings import BUCKETS, percentile

if TYPE_CHECKING:
    from ranges.models import RangeRun

MOST = 240
"""Intervals that are told; neighbours of a longer run are told as one."""
SHORTEST = 1.0
"""Active seconds below which an interval says nothing."""
IDLE_SECONDS = 15.0
"""So much longer than it was active is an interval in which the run was paused."""

POINTS = f"""
SELECT extract(epoch FROM at)::float8, rows_ok + rows_failed, active_seconds, leaf_seconds
FROM ranges_rangesample WHERE run_id = %(run)s::uuid
UNION ALL
SELECT extract(epoch FROM at)::float8, rows_ok + rows_failed, active_seconds, leaf_seconds
FROM ({STANDS}) now
ORDER BY 3, 1
"""


class Point(NamedTuple):
    """A run at a moment."""

    at: float
    rows: int
    active: float
    timings: Mapping[str, int] | None
    """Leaves by their bucket; None: not known."""


@dataclass(kw_only=True)
class History:
    """An interval ends at each time. None: nothing is known of it."""

    begin: float | None = None
    """When the run began; None: it has not."""
    times: list[float] = field(default_factory=list)
    rows: list[float | None] = field(default_factory=list)
    """A second."""
    p50: list[float | None] = field(default_factory=list)
    p95: list[float | None] = field(default_factory=list)
    """Of leaves, in seconds."""

    @property
    def is_empty(self) -> bool:
        return not any(value is not None for value in self.rows)

    def lines(self, most: int) -> list[tuple[float, float | None, float | None, float | None]]:
        """The newest first, for a table."""
        found = list(zip(self.times, self.rows, self.p50, self.p95, strict=True))
        return found[: -most - 1 : -1]


def history(run: RangeRun, *, database: Database | None = None) -> History:
    """Read by one statement, whatever the size of the run."""
    rows = (database or DjangoDatabase()).rows(POINTS, {"run": str(run.id)})
    points = [
        Point(at, int(count), float(active), _timings(timings))
        for at, count, active, timings in rows
    ]
    return of_points(points, started_at=run.started_at, is_running=run.resumed_at is not None)


def of_points(
    points: Sequence[Point], *, started_at: datetime | None, is_running: bool = True
) -> History:
    """Pure: points in the order of their active time; the last one is how it stands now."""
    if started_at is None or not points:
        return History()
    found = History(begin=round(started_at.timestamp(), 3))
    every = [Point(started_at.timestamp(), 0, 0.0, {}), *points]
    if not is_running:
        # It stopped when its time stopped, however long ago that is.
        before, last = every[-2:]
        every[-1] = last._replace(at=min(last.at, before.at + last.active - before.active))
    kept = _apart(every)
    for before, after in pairwise(kept):
        active = after.active - before.active
        gained = after.rows - before.rows
        if after.at - before.at - active > IDLE_SECONDS:
            # The line is broken where it was paused.
            _add(found, min(before.at + 1.0, after.at), None, None)
        rate = gained / active if gained >= 0 else None
        _add(found, after.at, rate, _between(before.timings, after.timings))
    return found


def _apart(points: Iterable[Point]) -> list[Point]:
    """Those that lie far enough from one another, and the last one."""
    every = list(points)
    step = max(SHORTEST, every[-1].active / MOST)
    kept = [every[0]]
    for point in every[1:]:
        if point.active - kept[-1].active >= step:
            kept.append(point)
    last = every[-1]
    if last.active - kept[-1].active >= SHORTEST:
        kept.append(last)
    return kept


def _add(found: History, at: float, rate: float | None, counts: Sequence[int] | None) -> None:
    found.times.append(round(at, 3))
    found.rows.append(None if rate is None else round(rate, 3))
    for share, values in ((0.5, found.p50), (0.95, found.p95)):
        value = None if counts is None else percentile(counts, share)
        values.append(None if value is None else round(value, 6))


def _between(before: Mapping[str, int] | None, after: Mapping[str, int] | None) -> list[int] | None:
    """The leaves that ended between; None if that is not known."""
    if before is None or after is None:
        return None
    counts = [0] * BUCKETS
    for bucket in {*before, *after}:
        more = int(after.get(bucket, 0)) - int(before.get(bucket, 0))
        if more < 0:
            return None
        counts[min(int(bucket), BUCKETS - 1)] += more
    return counts


def _timings(value: Any) -> Mapping[str, int] | None:
    """JSON as either connection returns it: read, or still as text."""
    import json

    found: Mapping[str, int] | None = json.loads(value) if isinstance(value, str | bytes) else value
    return found
