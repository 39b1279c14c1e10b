"""What the page of a queue shows beside its numbers: its types, and what waits longest."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from jobs.admin.overview import fleet
from jobs.database import Database, DjangoDatabase
from jobs.histograms import counts, percentile
from jobs.limits import limited
from jobs.workers import WorkerFacts

SECONDS = 3.0
CAP = 10_000
LANES = 1_000
TYPES = 10
JOBS = 10
SHARE = 0.95

# From one type of the queue to the next, a descent each; then what is due of it, up to the cap.
WAITING = """
WITH RECURSIVE kind AS (
    (SELECT j.type, 1 AS n FROM jobs_job j
     WHERE j.queue = %(queue)s AND j.status = 'pending' AND j.unmet_dependencies = 0
        AND j.due_at IS NOT NULL
     ORDER BY j.queue, j.type LIMIT 1)
    UNION ALL
    SELECT next.type, kind.n + 1 FROM kind CROSS JOIN LATERAL (
        SELECT j.type FROM jobs_job j
        WHERE j.queue = %(queue)s AND j.status = 'pending' AND j.unmet_dependencies = 0
            AND j.due_at IS NOT NULL AND j.type > kind.type
        ORDER BY j.queue, j.type LIMIT 1
    ) next
    WHERE kind.n < %(lanes)s
)
SELECT kind.type, due.n FROM kind CROSS JOIN LATERAL (
    SELECT count(*) AS n FROM (
        SELECT FROM (VALUES (1), (2), (3)) AS p (priority) CROSS JOIN LATERAL (
            SELECT FROM jobs_job j
            WHERE j.queue = %(queue)s AND j.type = kind.type AND j.priority = p.priority
                AND j.status = 'pending' AND j.unmet_dependencies = 0
                AND j.due_at <= statement_timestamp()
            ORDER BY j.due_at, j.id LIMIT %(most)s
        ) entry LIMIT %(most)s
    ) capped
) due
"""

ENDED = """
SELECT type, sum(jobs) FILTER (WHERE outcome = 'succeeded'),
    sum(jobs) FILTER (WHERE outcome IN ('failed', 'timed_out', 'lost'))
FROM jobs_rollup
WHERE minute > now() - interval '1 hour' AND queue = %(queue)s
GROUP BY type ORDER BY sum(jobs) DESC LIMIT %(types)s
"""

# By the beginning of the key of the totals.
USUAL = """
SELECT type, timings FROM jobs_total
WHERE queue = %(queue)s AND type = ANY(%(types)s) AND outcome = 'succeeded'
"""

# The head of each lane, and of these the oldest.
OLDEST = """
WITH RECURSIVE lane AS (
    (SELECT j.type, j.priority, 1 AS n FROM jobs_job j
     WHERE j.queue = %(queue)s AND j.status = 'pending' AND j.unmet_dependencies = 0
        AND j.due_at IS NOT NULL
     ORDER BY j.queue, j.type, j.priority LIMIT 1)
    UNION ALL
    SELECT next.type, next.priority, lane.n + 1 FROM lane CROSS JOIN LATERAL (
        SELECT j.type, j.priority FROM jobs_job j
        WHERE j.queue = %(queue)s AND j.status = 'pending' AND j.unmet_dependencies = 0
            AND j.due_at IS NOT NULL AND (j.type, j.priority) > (lane.type, lane.priority)
        ORDER BY j.queue, j.type, j.priority LIMIT 1
    ) next
    WHERE lane.n < %(lanes)s
)
SELECT head.* FROM lane CROSS JOIN LATERAL (
    SELECT j.id::text, j.type, j.priority, j.attempt_count, j.max_attempts, j.due_at FROM jobs_job j
    WHERE j.queue = %(queue)s AND j.type = lane.type AND j.priority = lane.priority
        AND j.status = 'pending' AND j.unmet_dependencies = 0 AND j.due_at <= statement_timestamp()
    ORDER BY j.due_at, j.id LIMIT %(jobs)s
) head
ORDER BY head.due_at, head.id LIMIT %(jobs)s
"""


@dataclass(frozen=True, kw_only=True)
class TypeShown:
    name: str
    ready: int
    is_capped: bool
    completed: int
    failed: int
    """In the last hour."""
    p95_run: float | None
    is_known: bool
    """To a worker that serves the queue."""


@dataclass(frozen=True, kw_only=True)
class Waiting:
    id: str
    type: str
    priority: int
    attempt: int
    max_attempts: int
    due_at: datetime


@dataclass(frozen=True, kw_only=True)
class Inside:
    types: list[TypeShown]
    waiting: list[Waiting]


def inside(queue: str, serving: list[WorkerFacts]) -> Inside:
    """Raises TooBroad after 3 s."""
    database = DjangoDatabase()
    with limited(database, seconds=SECONDS):
        waiting = [
            Waiting(
                id=id,
                type=type,
                priority=priority,
                attempt=attempt,
                max_attempts=max_attempts,
                due_at=due_at,
            )
            for id, type, priority, attempt, max_attempts, due_at in database.rows(
                OLDEST, {"queue": queue, "lanes": LANES, "jobs": JOBS}
            )
        ]
        return Inside(types=_types(database, queue, serving), waiting=waiting)


def _types(database: Database, queue: str, serving: list[WorkerFacts]) -> list[TypeShown]:
    given: dict[str, Any] = {"queue": queue, "lanes": LANES, "most": CAP + 1, "types": TYPES}
    ready: dict[str, int] = dict(database.rows(WAITING, given))
    ended = {type: (done or 0, bad or 0) for type, done, bad in database.rows(ENDED, given)}
    names = sorted(
        {*ready, *ended}, key=lambda type: (-ready.get(type, 0), -sum(ended.get(type, (0,))), type)
    )[:TYPES]
    usual = {
        type: percentile(counts([timings])[1], SHARE)
        for type, timings in database.rows(USUAL, {"queue": queue, "types": names})
    }
    known = fleet.types_of([worker.id for worker in serving])
    return [
        TypeShown(
            name=name,
            ready=min(ready.get(name, 0), CAP),
            is_capped=ready.get(name, 0) > CAP,
            completed=int(ended.get(name, (0, 0))[0]),
            failed=int(ended.get(name, (0, 0))[1]),
            p95_run=usual.get(name),
            is_known=name in known,
        )
        for name in names
    ]
