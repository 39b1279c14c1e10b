"""What there is to be said about queues now: how deep, how late, how fast, and who paused them.

A queue is a name: it needs no row before somebody pauses it. So the queues are those that hold due
or later work, those that something runs from, those that a live worker was told to serve, those
that ended something lately, and those that are paused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from jobs import conf
from jobs.claim import IS_PAUSED
from jobs.database import Database
from jobs.drafts import check_queue
from jobs.errors import InvalidInput, NotFound
from jobs.limits import limited
from jobs.texts import clean

CAP = 10_000
"""How far jobs are counted."""
SECONDS = 3.0
LANES = 1_000
"""The most (type, priority) of a queue that are looked into."""
LATELY_MINUTES = 60

# From one queue of the claim index to the next: a descent for each. The others are small tables,
# or bounded: no more is processing than the workers hold.
NAMES = f"""
WITH RECURSIVE found AS (
    (SELECT queue, 1 AS n FROM jobs_job
     WHERE status = 'pending' AND unmet_dependencies = 0 AND due_at IS NOT NULL
        AND queue > %(after)s
     ORDER BY queue LIMIT 1)
    UNION ALL
    SELECT next.queue, found.n + 1 FROM found CROSS JOIN LATERAL (
        SELECT j.queue FROM jobs_job j
        WHERE j.status = 'pending' AND j.unmet_dependencies = 0 AND j.due_at IS NOT NULL
            AND j.queue > found.queue
        ORDER BY j.queue LIMIT 1
    ) next
    WHERE found.n < %(limit)s
)
SELECT name FROM (
    SELECT queue AS name FROM found
    UNION
    SELECT queue FROM (
        SELECT queue FROM jobs_job WHERE status = 'processing' LIMIT %(most)s
    ) processing
    UNION
    SELECT q.name FROM jobs_queue q WHERE {IS_PAUSED}
    UNION
    SELECT jsonb_array_elements_text(queues) FROM jobs_worker
    WHERE state IN ('running', 'draining')
    UNION
    SELECT queue FROM jobs_rollup
    WHERE minute > now() - %(minutes)s * interval '1 minute'
) known
WHERE name > %(after)s ORDER BY name LIMIT %(limit)s
"""

# For each queue: its lanes, one descent each, and their due and later entries up to the cap. The
# order asked for is the index's own: without it the planner may walk all pending jobs instead.
_LANE = """
        SELECT FROM lane l CROSS JOIN LATERAL (
            SELECT FROM jobs_job j
            WHERE j.queue = wanted.name AND j.type = l.type AND j.priority = l.priority
                AND j.status = 'pending' AND j.unmet_dependencies = 0
                AND j.due_at {which} statement_timestamp()
            ORDER BY j.due_at, j.id LIMIT %(most)s
        ) entry LIMIT %(most)s"""
DEPTHS = f"""
SELECT wanted.name, depth.due, depth.later, depth.oldest,
    {IS_PAUSED}, CASE WHEN {IS_PAUSED} THEN q.paused_until END,
    CASE WHEN q.paused AND NOT ({IS_PAUSED}) THEN '' ELSE q.reason END, q.changed_by, q.changed_at
FROM unnest(%(names)s::text[]) AS wanted (name)
LEFT JOIN jobs_queue q ON q.name = wanted.name
CROSS JOIN LATERAL (
    WITH RECURSIVE lane AS (
        (SELECT j.type, j.priority, 1 AS n FROM jobs_job j
         WHERE j.queue = wanted.name AND j.status = 'pending' AND j.unmet_dependencies = 0
            AND j.due_at IS NOT NULL
         ORDER BY j.queue, j.type, j.priority LIMIT 1)
        UNION ALL
        SELECT next.type, next.priority, lane.n + 1 FROM lane CROSS JOIN LATERAL (
            SELECT j.type, j.priority FROM jobs_job j
            WHERE j.queue = wanted.name AND j.status = 'pending' AND j.unmet_dependencies = 0
                AND j.due_at IS NOT NULL AND (j.type, j.priority) > (lane.type, lane.priority)
            ORDER BY j.queue, j.type, j.priority LIMIT 1
        ) next
        WHERE lane.n < %(lanes)s
    )
    SELECT
        (SELECT count(*) FROM ({_LANE.format(which="<=")}) due) AS due,
        (SELECT count(*) FROM ({_LANE.format(which=">")}) later) AS later,
        (SELECT extract(epoch FROM statement_timestamp() - min(head.due_at))::float8
         FROM lane l CROSS JOIN LATERAL (
             SELECT j.due_at FROM jobs_job j
             WHERE j.queue = wanted.name AND j.type = l.type AND j.priority = l.priority
                 AND j.status = 'pending' AND j.unmet_dependencies = 0
                 AND j.due_at <= statement_timestamp()
             ORDER BY j.due_at LIMIT 1
         ) head) AS oldest
) depth
ORDER BY wanted.name
"""

RUNNING = """
SELECT queue, count(*) FROM (
    SELECT queue FROM jobs_job WHERE status = 'processing' LIMIT %(most)s
) processing
WHERE queue = ANY(%(names)s) GROUP BY queue
"""

# Of the last sixty seconds: this minute, and as much of the last one as is missing to a whole one.
RATES = """
SELECT queue,
    sum(weight * jobs) FILTER (WHERE outcome = 'succeeded'),
    sum(weight * jobs) FILTER (WHERE outcome IN ('failed', 'timed_out', 'lost'))
FROM (
    SELECT queue, outcome, jobs, CASE WHEN minute = date_trunc('minute', now()) THEN 1.0::float8
        ELSE 1 - extract(second FROM now())::float8 / 60 END AS weight
    FROM jobs_rollup
    WHERE minute >= date_trunc('minute', now()) - interval '1 minute'
) lately
WHERE queue = ANY(%(names)s) GROUP BY queue
"""

SERVING = """
SELECT wanted.name, count(w.id)
FROM unnest(%(names)s::text[]) AS wanted (name)
JOIN jobs_worker w ON w.state = 'running'
    AND w.beat_at > clock_timestamp() - %(dead_after)s * interval '1 second'
    AND (w.queues = '[]'::jsonb OR jsonb_exists(w.queues, wanted.name))
GROUP BY wanted.name
"""

# Of a queue that holds nothing now.
KNOWN = """
SELECT EXISTS (
    SELECT FROM jobs_worker
    WHERE state IN ('running', 'draining') AND jsonb_exists(queues, %(name)s)
) OR EXISTS (
    SELECT FROM jobs_rollup
    WHERE queue = %(name)s AND minute > now() - %(minutes)s * interval '1 minute'
)
"""


@dataclass(frozen=True, kw_only=True)
class QueueFacts:
    name: str
    depth: int
    """Jobs that are due and not claimed; at most the cap."""
    depth_is_capped: bool
    later: int
    """Jobs that are not due yet; at most the cap."""
    later_is_capped: bool
    oldest_wait_seconds: float | None
    running: int
    """Jobs that workers hold."""
    completed_per_minute: float
    failed_per_minute: float
    """Attempts that failed, timed out or were lost."""
    workers: int
    """Live ones that serve it."""
    paused: bool
    paused_until: datetime | None
    """When the pause is over by itself; None: not before somebody resumes it."""
    reason: str
    changed_by: str
    """Who paused it, or who resumed it last."""
    changed_at: datetime | None


def names(database: Database, *, after: str = "", limit: int = 1_000) -> list[str]:
    """The names of queues behind one, in their order."""
    params = {"after": after, "limit": limit, "most": CAP, "minutes": LATELY_MINUTES}
    with limited(database, seconds=SECONDS):
        return [row[0] for row in database.rows(NAMES, params)]


def facts(database: Database, wanted: Sequence[str]) -> list[QueueFacts]:
    """What is known of these queues, in the order of their names."""
    if not wanted:
        return []
    given = {"names": list(wanted)}
    with limited(database, seconds=SECONDS):
        depths = database.rows(DEPTHS, {**given, "most": CAP + 1, "lanes": LANES})
        running: dict[str, int] = dict(database.rows(RUNNING, {**given, "most": CAP}))
        rates = {row[0]: row[1:] for row in database.rows(RATES, given)}
        dead_after = conf.get().dead_after_seconds
        serving: dict[str, int] = dict(database.rows(SERVING, {**given, "dead_after": dead_after}))
    found = []
    for name, due, later, oldest, paused, until, reason, changed_by, changed_at in depths:
        completed, failed = rates.get(name, (None, None))
        found.append(
            QueueFacts(
                name=name,
                depth=min(due, CAP),
                depth_is_capped=due > CAP,
                later=min(later, CAP),
                later_is_capped=later > CAP,
                oldest_wait_seconds=None if oldest is None else round(max(oldest, 0.0), 3),
                running=running.get(name, 0),
                completed_per_minute=round(completed or 0.0, 1),
                failed_per_minute=round(failed or 0.0, 1),
                workers=serving.get(name, 0),
                paused=bool(paused),
                paused_until=until,
                reason=reason or "",
                changed_by=changed_by or "",
                changed_at=changed_at,
            )
        )
    return found


def one(database: Database, name: str, *, must_be_known: bool = True) -> QueueFacts:
    """One queue. Raises NotFound for a name that cannot be one, or that nothing is known of."""
    try:
        check_queue(name)
    except InvalidInput:
        raise NotFound("queue", clean(name, 60)) from None
    [found] = facts(database, [name])
    if must_be_known and not (found.depth or found.later or found.running or found.changed_at):
        rows = database.rows(KNOWN, {"name": name, "minutes": LATELY_MINUTES})
        if not rows[0][0]:
            raise NotFound("queue", name)
    return found
