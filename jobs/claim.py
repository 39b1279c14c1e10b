"""Take due jobs for one worker: choose, lock, count the attempt and grow the lease in one statement.

What must always be true:
1. A claim, its attempt count and its lease epoch are one row version: no crash can part them.
2. Only types that the caller knows, in queues that are not paused, are ever touched.
3. The best effective score goes first: `peek` merges the heads of all lanes without locks and says
   how many jobs of each lane belong to the best `limit`; `picked` then locks that many per lane,
   sliding past rows that others hold. So rivals shorten an answer but never block it, and a short
   answer does not mean an empty queue: ask `next_due`.

A lane is (queue, type, priority): with all three and `due_at` given, the claim index yields its
jobs in order. A lane's mark is the last job taken from it. Starting there skips the index entries
of jobs claimed before, which a long-held snapshot keeps from being removed. Jobs that come back
with an earlier `due_at` lie before the mark, so the caller looks without marks now and then.

The moment is the statement's, not the transaction's, so that a test's one long transaction can claim
what it has enqueued.

FOR NO KEY UPDATE, since plain FOR UPDATE would skip jobs that a foreign key check holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import NamedTuple

from jobs.claimed import Claimed
from jobs.database import Database

# Of the row `q` of a queue. A pause with an end is over at that moment, whoever does or does not write.
IS_PAUSED = "q.paused AND coalesce(q.paused_until > statement_timestamp(), true)"

CLAIM = f"""
WITH lane AS MATERIALIZED (
    SELECT l.queue, l.type, l.priority, to_timestamp(l.mark_due) AS mark_due, l.mark_id, l.n
    FROM unnest(
        %(queues)s::text[], %(types)s::text[], %(priorities)s::smallint[],
        %(mark_dues)s::float8[], %(mark_ids)s::uuid[]
    ) WITH ORDINALITY AS l (queue, type, priority, mark_due, mark_id, n)
    WHERE NOT EXISTS (SELECT FROM jobs_queue q WHERE q.name = l.queue AND {IS_PAUSED})
), peek AS MATERIALIZED (
    SELECT best.n, count(*) AS quota
    FROM (
        SELECT lane.n
        FROM lane CROSS JOIN LATERAL (
            SELECT j.due_at, j.id FROM jobs_job j
            WHERE j.queue = lane.queue AND j.type = lane.type AND j.priority = lane.priority
                AND j.status = 'pending' AND j.unmet_dependencies = 0 AND j.due_at <= statement_timestamp()
                AND (j.due_at, j.id) >= (lane.mark_due, lane.mark_id)
            ORDER BY j.due_at, j.id LIMIT %(limit)s
        ) head
        ORDER BY greatest(0, lane.priority - CASE WHEN %(aging_seconds)s::float8 > 0
            THEN floor(extract(epoch FROM statement_timestamp() - head.due_at)::float8 / %(aging_seconds)s::float8)
            ELSE 0 END * %(aging_step)s::float8), head.due_at, head.id
        LIMIT %(limit)s
    ) best
    GROUP BY best.n
), picked AS MATERIALIZED (
    SELECT p.id
    FROM peek JOIN lane USING (n) CROSS JOIN LATERAL (
        SELECT j.id FROM jobs_job j
        WHERE j.queue = lane.queue AND j.type = lane.type AND j.priority = lane.priority
            AND j.status = 'pending' AND j.unmet_dependencies = 0 AND j.due_at <= statement_timestamp()
            AND (j.due_at, j.id) >= (lane.mark_due, lane.mark_id)
        ORDER BY j.due_at, j.id LIMIT peek.quota
        FOR NO KEY UPDATE SKIP LOCKED
    ) p
), claimed AS (
    UPDATE jobs_job j SET
        status = 'processing', attempt_count = j.attempt_count + 1,
        lease_epoch = j.lease_epoch + 1, worker_id = %(worker)s::uuid,
        started_at = statement_timestamp(), updated_at = statement_timestamp()
    FROM picked WHERE j.id = picked.id
    RETURNING j.id, j.type, j.queue, j.payload, j.priority, j.due_at, j.attempt_count,
        j.max_attempts, j.lease_epoch, j.lost_count, j.wait_count
), logged AS (
    INSERT INTO jobs_joblog (job_id, at, event, from_status, to_status, attempt, worker_id)
    SELECT id, statement_timestamp(), 'started', 'pending', 'processing', attempt_count, %(worker)s::uuid
    FROM claimed
)
SELECT id::text, type, queue, payload::text, priority, extract(epoch FROM due_at)::float8,
    attempt_count, max_attempts, lease_epoch, lost_count, wait_count,
    extract(epoch FROM statement_timestamp())::float8
FROM claimed
"""

# The best effective score among the due jobs of these lanes; NULL if none is due.
BEST_DUE = f"""
SELECT min(greatest(0, lane.priority - CASE WHEN %(aging_seconds)s::float8 > 0
    THEN floor(extract(epoch FROM statement_timestamp() - head.due_at)::float8
        / %(aging_seconds)s::float8)
    ELSE 0 END * %(aging_step)s::float8))::float8
FROM unnest(%(queues)s::text[], %(types)s::text[], %(priorities)s::smallint[])
    AS lane (queue, type, priority)
CROSS JOIN LATERAL (
    SELECT j.due_at FROM jobs_job j
    WHERE j.queue = lane.queue AND j.type = lane.type AND j.priority = lane.priority
        AND j.status = 'pending' AND j.unmet_dependencies = 0
        AND j.due_at <= statement_timestamp()
    ORDER BY j.due_at LIMIT 1
) head
WHERE NOT EXISTS (SELECT FROM jobs_queue q WHERE q.name = lane.queue AND {IS_PAUSED})
"""

# Seconds until the first job of these lanes is due, below 0 when it is overdue, NULL for none.
NEXT_DUE = f"""
SELECT extract(epoch FROM min(due.due_at) - statement_timestamp())::float8
FROM unnest(%(queues)s::text[], %(types)s::text[], %(priorities)s::smallint[])
    AS lane (queue, type, priority)
CROSS JOIN LATERAL (
    SELECT j.due_at FROM jobs_job j
    WHERE j.queue = lane.queue AND j.type = lane.type AND j.priority = lane.priority
        AND j.status = 'pending' AND j.unmet_dependencies = 0 AND j.due_at IS NOT NULL
    ORDER BY j.due_at LIMIT 1
) due
WHERE NOT EXISTS (SELECT FROM jobs_queue q WHERE q.name = lane.queue AND {IS_PAUSED})
"""

# Walks from one queue's first entry in the claim index to the next queue's: one descent a queue.
QUEUES_WITH_WORK = """
WITH RECURSIVE found AS (
    (SELECT queue FROM jobs_job
     WHERE status = 'pending' AND unmet_dependencies = 0 AND due_at IS NOT NULL
     ORDER BY queue LIMIT 1)
    UNION ALL
    SELECT next.queue FROM found CROSS JOIN LATERAL (
        SELECT j.queue FROM jobs_job j
        WHERE j.status = 'pending' AND j.unmet_dependencies = 0 AND j.due_at IS NOT NULL
            AND j.queue > found.queue
        ORDER BY j.queue LIMIT 1
    ) next
)
SELECT queue FROM found
"""

# The planner must never walk the table for the sake of a stale statistic.
CLAIM_SESSION = (
    "SET enable_seqscan = off",
    "SET enable_bitmapscan = off",
    "SET enable_hashjoin = off",
    "SET enable_mergejoin = off",
    "SET jit = off",
    "SET plan_cache_mode = force_generic_plan",
)

START_OF_TIME = -inf
NO_ID = "00000000-0000-0000-0000-000000000000"


class Lane(NamedTuple):
    queue: str
    type: str
    priority: int


class Mark(NamedTuple):
    """The last job taken from a lane: epoch seconds (a double holds microseconds exactly), id."""

    due: float
    id: str


def claim(
    database: Database,
    *,
    worker_id: str,
    lanes: Sequence[Lane],
    limit: int,
    aging_minutes: float,
    aging_step: float,
    marks: Mapping[Lane, Mark] | None = None,
) -> list[Claimed]:
    """Claim up to `limit` due jobs of these lanes, best effective score first across lanes.

    The answer is unordered. It may be short although more is due (rivals held rows).
    """
    if not lanes or limit < 1:
        return []
    none = Mark(START_OF_TIME, NO_ID)
    starts = [marks.get(lane, none) for lane in lanes] if marks else [none] * len(lanes)
    rows = database.rows(
        CLAIM,
        {
            "queues": [lane.queue for lane in lanes],
            "types": [lane.type for lane in lanes],
            "priorities": [lane.priority for lane in lanes],
            "mark_dues": [mark.due for mark in starts],
            "mark_ids": [mark.id for mark in starts],
            "limit": limit,
            "worker": worker_id,
            "aging_seconds": aging_minutes * 60.0,
            "aging_step": aging_step,
        },
    )
    return [Claimed(*row) for row in rows]


def next_due(database: Database, lanes: Sequence[Lane]) -> float | None:
    """Seconds until the next job of these lanes is due, 0 if one is due now; None if there is none.

    Looks without locks, so it also sees the jobs that a claim slid past.
    """
    if not lanes:
        return None
    rows = database.rows(
        NEXT_DUE,
        {
            "queues": [lane.queue for lane in lanes],
            "types": [lane.type for lane in lanes],
            "priorities": [lane.priority for lane in lanes],
        },
    )
    seconds = rows[0][0]
    return None if seconds is None else max(0.0, float(seconds))


def best_due(
    database: Database, lanes: Sequence[Lane], *, aging_minutes: float, aging_step: float
) -> float | None:
    """The effective score of the best due job in these lanes, looking without locks."""
    if not lanes:
        return None
    rows = database.rows(
        BEST_DUE,
        {
            "queues": [lane.queue for lane in lanes],
            "types": [lane.type for lane in lanes],
            "priorities": [lane.priority for lane in lanes],
            "aging_seconds": aging_minutes * 60.0,
            "aging_step": aging_step,
        },
    )
    return None if rows[0][0] is None else float(rows[0][0])


def queues_with_work(database: Database) -> list[str]:
    """The queues that hold pending jobs with a time, due or not."""
    return [row[0] for row in database.rows(QUEUES_WITH_WORK, {})]
