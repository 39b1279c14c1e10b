"""Dead letters by what went wrong: groups of one type and one kind of error.

Nothing is maintained: the index `job_dead_group` (type, fingerprint, time of death, id, with the
queue) is stepped through from group to group, one descent each, and counted as far as a cap. So the
answer is true at every moment, and its cost grows with the number of groups, not of dead letters.

`COUNTED` bounds what is counted in all: with few groups each is counted far, with many less; what
small groups leave of it goes to the big ones.
What Coppice made for itself, such as the jobs of range runs, is in no group.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from jobs.database import Database
from jobs.errors import NotFound
from jobs.limits import limited
from jobs.listing import INTERNAL
from jobs.texts import clean

SECONDS = 3.0
MOST_GROUPS = 1_000
"""The most groups that are stepped through."""
COUNTED = 50_000
"""Index entries that one answer counts at most."""
MOST_OF_ONE, LEAST_OF_ONE = 10_000, 50
"""The cap of a group lies between."""
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

# A range of the index for each hour of each group, counted as far as the cap.
TREND = """
SELECT g.type, g.fingerprint, hour.start, counted.n
FROM unnest(%(types)s::text[], %(fingerprints)s::text[]) AS g (type, fingerprint)
CROSS JOIN generate_series(
    date_trunc('hour', now()) - (%(hours)s - 1) * interval '1 hour',
    date_trunc('hour', now()), interval '1 hour'
) AS hour (start)
CROSS JOIN LATERAL (
    SELECT count(*) AS n FROM (
        SELECT FROM jobs_job j
        WHERE j.status = 'failed' AND j.type = g.type AND j.error_fingerprint = g.fingerprint
            AND j.failed_at >= hour.start AND j.failed_at < hour.start + interval '1 hour'
        ORDER BY j.type, j.error_fingerprint, j.failed_at, j.id LIMIT %(cap)s + 1
    ) entry
) counted
ORDER BY g.type, g.fingerprint, hour.start
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
        found = _details(database, keys[:MOST_GROUPS])
    found.sort(key=lambda group: (group.count, group.last_at), reverse=True)
    return Groups(groups=found[:limit], is_cut=is_cut or len(found) > limit)


def group(database: Database, type: str, error_fingerprint: str) -> Group:
    """One group, counted to 10,000. Raises NotFound when nothing of it is dead any more."""
    key = (clean(type, 100), clean(error_fingerprint, 100))
    with limited(database, seconds=SECONDS):
        found = _details(database, [key])
    if not found:
        raise NotFound("group of dead letters", clean(f"{type} {error_fingerprint}", 150))
    return found[0]


def trends(database: Database, keys: Sequence[Key]) -> dict[Key, list[Hour]]:
    """Deaths by hour in the last 24 hours, this one last, of those that are dead still."""
    if not keys:
        return {}
    cap = _cap(len(keys) * HOURS)
    with limited(database, seconds=SECONDS):
        rows = database.rows(TREND, {**_arrays(keys), "hours": HOURS, "cap": cap})
    found: dict[Key, list[Hour]] = {}
    for type, fingerprint, start, count in rows:
        hour = Hour(start=start, count=min(count, cap), is_capped=count > cap)
        found.setdefault((type, fingerprint), []).append(hour)
    return found


def trend(database: Database, type: str, error_fingerprint: str) -> list[Hour]:
    """The same of one group."""
    key = (clean(type, 100), clean(error_fingerprint, 100))
    return trends(database, [key])[key]


def _step(database: Database) -> list[Key]:
    rows = database.rows(STEP, {"type": "", "fingerprint": "", "most": MOST_GROUPS + 1})
    return [(type, fingerprint) for type, fingerprint in rows]


def _details(database: Database, keys: Sequence[Key]) -> list[Group]:
    if not keys:
        return []
    cap = _cap(len(keys))
    found = {group.key: group for group in _look(database, keys, cap)}
    capped = [key for key, group in found.items() if group.is_capped]
    left = COUNTED - sum(group.count for group in found.values())
    further = min(MOST_OF_ONE, left // len(capped)) if capped else 0
    if further >= 2 * cap:
        found.update({group.key: group for group in _look(database, capped, further)})
    return list(found.values())


def _look(database: Database, keys: Sequence[Key], cap: int) -> list[Group]:
    params = {**_arrays(keys), "cap": cap, "internal": json.dumps(INTERNAL)}
    return [_group(row, cap) for row in database.rows(DETAILS, params)]


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


def _cap(pieces: int) -> int:
    return max(LEAST_OF_ONE, min(MOST_OF_ONE, COUNTED // pieces))


def _arrays(keys: Sequence[Key]) -> dict[str, list[str]]:
    return {"types": [type for type, _ in keys], "fingerprints": [each for _, each in keys]}
