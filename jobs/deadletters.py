"""Dead letters by what went wrong: groups of one type and one kind of error.

Nothing is maintained: the index `job_dead_group` (type, fingerprint, time of death, id, with the
queue) is stepped through from group to group, one descent each, and counted as far as a cap. So the
answer is true at every moment, and its cost grows with the number of groups, not of dead letters.

The first look at all groups is short. Those that hold more are counted further in rounds, as far as
`COUNTED` and `PATIENCE` last: where vacuum has not been yet, or memory does not hold the pages, an
entry costs a hundred times what it costs otherwise, and nobody waits for a number that says "more
than" anyway. What small groups leave of `COUNTED` goes to the big ones.
What Coppice made for itself, such as the jobs of range runs, is in no group.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from jobs.database import Database
from jobs.errors import NotFound, TooBroad
from jobs.limits import limited
from jobs.listing import INTERNAL
from jobs.texts import clean

SECONDS = 3.0
MOST_GROUPS = 1_000
"""The most groups that are stepped through."""
COUNTED = 50_000
"""What one answer counts at most, all groups together."""
FIRST_LOOK = 5_000
"""What the first look counts of that, unless the groups are very many."""
MOST_OF_ONE, LEAST_OF_ONE = 10_000, 20
"""The cap of a group lies between."""
LEAST_OF_AN_HOUR = 5
FURTHER = 4
"""How many times as far each round counts as the one before."""
PATIENCE = 0.08
"""Seconds for all rounds after the first look."""
HOURS = 24

# One descent of the index for each group. The order asked for is the index's own.
STEP = """
WITH RECURSIVE step AS (
    (SELECT type, error_fingerprint, 1 AS n FROM jobs_job
     WHERE status = 'failed' AND (type, error_fingerprint) > (%(type)s, %(fingerprint)s)
     ORDER BY type, error_fingerprint LIMIT 1)
    UNION ALL
    SELECT following.*, step.n + 1 FROM step CROSS JOIN LATERAL (
        SELECT j.type, j.error_fingerprint FROM jobs_job j
        WHERE j.status = 'failed'
            AND (j.type, j.error_fingerprint) > (step.type, step.error_fingerprint)
        ORDER BY j.type, j.error_fingerprint LIMIT 1
    ) following
    WHERE step.n < %(most)s
)
SELECT type, error_fingerprint FROM step
"""

# The newest of each group, with its error, the death of the oldest, and the newest by queue as far as
# the cap. Each reads the index from one end.
DETAILS = """
SELECT g.type, g.fingerprint, last.id::text, last.failed_at, last.last_error, first.failed_at,
    counted.queues, counted.counts
FROM unnest(%(types)s::text[], %(fingerprints)s::text[]) AS g (type, fingerprint)
CROSS JOIN LATERAL (
    SELECT j.id, j.failed_at, j.last_error, j.metadata FROM jobs_job j
    WHERE j.status = 'failed' AND j.type = g.type AND j.error_fingerprint = g.fingerprint
    ORDER BY j.type DESC, j.error_fingerprint DESC, j.failed_at DESC, j.id DESC LIMIT 1
) last
CROSS JOIN LATERAL (
    SELECT j.failed_at FROM jobs_job j
    WHERE j.status = 'failed' AND j.type = g.type AND j.error_fingerprint = g.fingerprint
    ORDER BY j.type, j.error_fingerprint, j.failed_at, j.id LIMIT 1
) first
CROSS JOIN LATERAL (
    SELECT array_agg(q.queue) AS queues, array_agg(q.n) AS counts
    FROM (
        SELECT entry.queue, count(*) AS n
        FROM (
            SELECT j.queue FROM jobs_job j
            WHERE j.status = 'failed' AND j.type = g.type AND j.error_fingerprint = g.fingerprint
            ORDER BY j.type DESC, j.error_fingerprint DESC, j.failed_at DESC, j.id DESC
            LIMIT %(cap)s + 1
        ) entry
        GROUP BY entry.queue ORDER BY count(*) DESC, entry.queue
    ) q
) counted
WHERE NOT last.metadata @> %(internal)s::jsonb
"""

# The newest deaths of each group since then, as far as the cap, by hour. One descent each.
NEWEST_BY_HOUR = """
SELECT g.type, g.fingerprint, date_trunc('hour', entry.failed_at, 'UTC'), count(*)
FROM unnest(%(types)s::text[], %(fingerprints)s::text[]) AS g (type, fingerprint)
CROSS JOIN LATERAL (
    SELECT j.failed_at FROM jobs_job j
    WHERE j.status = 'failed' AND j.type = g.type AND j.error_fingerprint = g.fingerprint
        AND j.failed_at >= %(since)s
    ORDER BY j.type DESC, j.error_fingerprint DESC, j.failed_at DESC, j.id DESC
    LIMIT %(cap)s + 1
) entry
GROUP BY 1, 2, 3
"""

# A range of the index for each hour of each group, counted as far as the cap: for groups with so
# many deaths that the newest of them are of the last hours only.
EACH_HOUR = """
SELECT g.type, g.fingerprint, hour.start, counted.n
FROM unnest(%(types)s::text[], %(fingerprints)s::text[]) AS g (type, fingerprint)
CROSS JOIN unnest(%(starts)s::timestamptz[]) AS hour (start)
CROSS JOIN LATERAL (
    SELECT count(*) AS n FROM (
        SELECT FROM jobs_job j
        WHERE j.status = 'failed' AND j.type = g.type AND j.error_fingerprint = g.fingerprint
            AND j.failed_at >= hour.start AND j.failed_at < hour.start + interval '1 hour'
        ORDER BY j.type, j.error_fingerprint, j.failed_at, j.id LIMIT %(cap)s + 1
    ) entry
) counted
"""

type Key = tuple[str, str]
"""Type and fingerprint of a group."""


@dataclass(frozen=True, kw_only=True)
class Group:
    type: str
    error_fingerprint: str
    count: int
    is_capped: bool
    """There are more than `count`."""
    first_at: datetime
    last_at: datetime
    queues: dict[str, int]
    """Of those counted, the newest: how many by queue, most first."""
    error: str
    """Of the newest. May quote what a handler worked on."""
    job_id: str
    """The newest."""

    @property
    def key(self) -> Key:
        return self.type, self.error_fingerprint


@dataclass(frozen=True, kw_only=True)
class Groups:
    """The biggest first; of those as big, the one seen last."""

    groups: list[Group]
    is_cut: bool
    """There are more groups than were looked at."""


@dataclass(frozen=True, kw_only=True)
class Hour:
    start: datetime
    count: int
    is_capped: bool


def groups(database: Database, *, limit: int = 200) -> Groups:
    """The groups of the dead-letter queue. Raises TooBroad after 3 s."""
    with limited(database, seconds=SECONDS):
        keys = _step(database)
        is_cut = len(keys) > MOST_GROUPS
        found = _look(database, keys[:MOST_GROUPS], _first_cap(keys[:MOST_GROUPS]))
    _look_further(database, found)
    biggest = sorted(found.values(), key=lambda each: (each.count, each.last_at), reverse=True)
    return Groups(groups=biggest[:limit], is_cut=is_cut or len(biggest) > limit)


def group(database: Database, type: str, error_fingerprint: str) -> Group:
    """One group, counted to 10,000. Raises NotFound when nothing of it is dead any more."""
    key = (clean(type, 100), clean(error_fingerprint, 100))
    with limited(database, seconds=SECONDS):
        found = _look(database, [key], MOST_OF_ONE)
    if key not in found:
        raise NotFound("group of dead letters", clean(f"{type} {error_fingerprint}", 150))
    return found[key]


def trends(database: Database, keys: Sequence[Key]) -> dict[Key, list[Hour]]:
    """Deaths by hour in the last 24 hours, this one last, of those that are dead still."""
    if not keys:
        return {}
    cap = _first_cap(keys)
    with limited(database, seconds=SECONDS) as now:
        this = datetime.fromtimestamp(now // 3_600 * 3_600, UTC)
        starts = [this - timedelta(hours=back) for back in range(HOURS - 1, -1, -1)]
        found = _by_hour(database, NEWEST_BY_HOUR, keys, starts, cap)
        many = [key for key in keys if sum(found.get(key, {}).values()) > cap]
        found |= _by_hour(database, EACH_HOUR, many, starts, LEAST_OF_AN_HOUR)
    caps = dict.fromkeys(many, LEAST_OF_AN_HOUR)
    _count_hours_further(database, found, caps, starts)
    return {
        key: [_hour(start, found.get(key, {}).get(start, 0), caps.get(key)) for start in starts]
        for key in keys
    }


class Rounds:
    """Reads the same again, each time further, while there is time."""

    def __init__(self, database: Database, *, seconds: float) -> None:
        self._database = database
        self._ends_at = time.monotonic() + seconds
        self._last = 0.0

    def read[Found](self, read: Callable[[], Found]) -> Found | None:
        """None: a round would take too long, or did."""
        began = time.monotonic()
        left = self._ends_at - began
        if left <= FURTHER * self._last:
            return None
        try:
            with limited(self._database, seconds=max(left, 0.01)):
                found = read()
        except TooBroad:
            return None
        self._last = time.monotonic() - began
        return found


def _step(database: Database) -> list[Key]:
    rows = database.rows(STEP, {"type": "", "fingerprint": "", "most": MOST_GROUPS + 1})
    return [(type, fingerprint) for type, fingerprint in rows]


def _first_cap(keys: Sequence[Key]) -> int:
    return max(LEAST_OF_ONE, min(MOST_OF_ONE, FIRST_LOOK // max(1, len(keys))))


def _look(database: Database, keys: Sequence[Key], cap: int) -> dict[Key, Group]:
    if not keys:
        return {}
    params = {**_arrays(keys), "cap": cap, "internal": json.dumps(INTERNAL)}
    found = [_group(row, cap) for row in database.rows(DETAILS, params)]
    return {group.key: group for group in found}


def _look_further(database: Database, found: dict[Key, Group]) -> None:
    rounds = Rounds(database, seconds=PATIENCE)
    while many := [key for key, group in found.items() if group.is_capped]:
        before = found[many[0]].count
        left = COUNTED - sum(group.count for group in found.values() if not group.is_capped)
        cap = min(MOST_OF_ONE, FURTHER * before, left // len(many))
        if cap <= before:
            return
        more = rounds.read(partial(_look, database, many, cap))
        if more is None:
            return
        for key in many:
            del found[key]  # it may be gone by now
        found |= more


def _by_hour(
    database: Database, sql: str, keys: Sequence[Key], starts: list[datetime], cap: int
) -> dict[Key, dict[datetime, int]]:
    if not keys:
        return {}
    params = {**_arrays(keys), "since": starts[0], "starts": starts, "cap": cap}
    found: dict[Key, dict[datetime, int]] = {}
    for type, fingerprint, start, count in database.rows(sql, params):
        found.setdefault((type, fingerprint), {})[start] = count
    return found


def _count_hours_further(
    database: Database,
    found: dict[Key, dict[datetime, int]],
    caps: dict[Key, int],
    starts: list[datetime],
) -> None:
    rounds = Rounds(database, seconds=PATIENCE)
    while many := [key for key, cap in caps.items() if max(found[key].values()) > cap]:
        before = caps[many[0]]
        cap = min(FURTHER * before, COUNTED // (HOURS * len(many)))
        if cap <= before:
            return
        more = rounds.read(partial(_by_hour, database, EACH_HOUR, many, starts, cap))
        if more is None:
            return
        found |= more
        caps |= dict.fromkeys(many, cap)


def _hour(start: datetime, count: int, cap: int | None) -> Hour:
    if cap is None or count <= cap:
        return Hour(start=start, count=count, is_capped=False)
    return Hour(start=start, count=cap, is_capped=True)


def _group(row: Sequence[Any], cap: int) -> Group:
    type, fingerprint, job_id, last_at, error, first_at, queues, counts = row
    counted = sum(counts)  # one more than the cap says that there are more
    return Group(
        type=type,
        error_fingerprint=fingerprint,
        count=min(counted, cap),
        is_capped=counted > cap,
        first_at=first_at,
        last_at=last_at,
        queues=dict(zip(queues, counts, strict=True)),
        error=error,
        job_id=job_id,
    )


def _arrays(keys: Sequence[Key]) -> dict[str, list[str]]:
    return {"types": [type for type, _ in keys], "fingerprints": [each for _, each in keys]}
