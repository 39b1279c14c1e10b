"""Delete what is old and done: jobs with their attempts and logs, worker rows, rollups, keys.

What must always be true:
1. Dead letters stay until a person purges them.
2. A job that somebody still needs stays: the parent of an open edge, the maker of a live job, and
   a job whose maker may yet ask for its result (it is live, or dead and could be retried).
3. Every statement touches a bounded number of rows, and none waits for a lock.
4. Within a pass no row is looked at twice: old rows that must stay are walked past once, not at
   every batch.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from jobs.conf import Settings
from jobs.database import Database
from jobs.states import Status

BEGINNING = "00000000-0000-0000-0000-000000000000"
STEPS = 20
"""Stretches that one call walks at most, when it finds little to delete."""
ROWS_AT_ONCE = 10_000
LEAST_DAYS = 7.0
"""How long rows about workers and minutes are kept when jobs are kept for ever."""

# The next stretch in the order of the ids, and so nearly of age, with those that are locked left
# out. Locking first and judging in the next statement makes the judgement one about now.
WALK = {
    status: f"""
WITH stretch AS MATERIALIZED (
    SELECT id, created_at, {ended} < now() - %(days)s * interval '1 day' AS is_old
    FROM jobs_job WHERE status = '{status}' AND id > %(place)s::uuid
    ORDER BY id LIMIT %(limit)s
), locked AS MATERIALIZED (
    SELECT j.id FROM jobs_job j
    WHERE j.id IN (SELECT s.id FROM stretch s WHERE s.is_old) AND j.status = '{status}'
    ORDER BY j.id FOR UPDATE SKIP LOCKED
)
SELECT (SELECT count(*) FROM stretch), (SELECT id::text FROM stretch ORDER BY id DESC LIMIT 1),
    (SELECT bool_or(created_at < now() - %(days)s * interval '1 day') FROM stretch),
    (SELECT array_agg(id::text ORDER BY id) FROM locked)
"""
    for status, ended in ((Status.COMPLETED, "completed_at"), (Status.CANCELLED, "cancelled_at"))
}

UNNEEDED = """
SELECT j.id::text FROM jobs_job j
WHERE j.id = ANY(%(ids)s::uuid[])
    AND NOT EXISTS (
        SELECT FROM jobs_jobdependency d WHERE d.parent_id = j.id AND d.state = 'open')
    AND NOT EXISTS (
        SELECT FROM jobs_job made
        WHERE made.parent_id = j.id AND made.status IN ('pending', 'processing'))
    AND NOT EXISTS (
        SELECT FROM jobs_job maker
        WHERE maker.id = j.parent_id AND maker.status IN ('pending', 'processing', 'failed'))
"""

# Satisfied edges to a deleted parent stay until their child goes: they tell what it waited for.
DELETE = (
    "DELETE FROM jobs_attempt WHERE job_id = ANY(%(ids)s::uuid[])",
    "DELETE FROM jobs_joblog WHERE job_id = ANY(%(ids)s::uuid[])",
    "DELETE FROM jobs_jobdependency WHERE child_id = ANY(%(ids)s::uuid[])",
    "DELETE FROM jobs_job WHERE id = ANY(%(ids)s::uuid[])",
)

PRUNE_WORKERS = """
DELETE FROM jobs_worker WHERE id IN (
    SELECT w.id FROM jobs_worker w
    WHERE w.state IN ('stopped', 'dead')
        AND coalesce(w.stopped_at, w.beat_at) < now() - %(days)s * interval '1 day'
        AND NOT EXISTS (
            SELECT FROM jobs_job j WHERE j.worker_id = w.id AND j.status = 'processing')
    LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
"""

PRUNE_ROLLUPS = """
DELETE FROM jobs_rollup WHERE id IN (
    SELECT id FROM jobs_rollup
    WHERE minute < now() - %(days)s * interval '1 day' AND folded
    ORDER BY minute LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
"""

# Keys of requests are good for a day; a request that is being worked on holds its own.
PRUNE_KEYS = """
DELETE FROM jobs_idempotencykey WHERE id IN (
    SELECT id FROM jobs_idempotencykey WHERE created_at < now() - interval '24 hours'
    ORDER BY created_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
"""


@dataclass
class Place:
    """How far a pass has come, per status."""

    last: dict[str, str] = field(default_factory=dict)


_HERE = Place()


def run_batch(database: Database, settings: Settings, place: Place = _HERE) -> int:
    """Delete about `retention_batch` jobs that ended `retention_days` ago; returns how many.

    Fewer than that means that the pass is over, or that most of what it met must stay; the next
    call goes on from there. `place` is kept by the caller, by default in this process.
    """
    if settings.retention_days <= 0:
        return 0
    deleted = 0
    for status in WALK:
        for _ in range(STEPS):
            if deleted >= settings.retention_batch:
                return deleted
            count, is_over = _step(database, settings, status, place)
            deleted += count
            if is_over:
                break
    return deleted


def run_pass(database: Database, settings: Settings) -> int:
    """Delete all that may go now, batch by batch; returns how many."""
    if settings.retention_days <= 0:
        return 0
    deleted, place = 0, Place()
    for status in WALK:
        is_over = False
        while not is_over:
            count, is_over = _step(database, settings, status, place)
            deleted += count
    return deleted


def _step(database: Database, settings: Settings, status: str, place: Place) -> tuple[int, bool]:
    """Walk one stretch; returns how many were deleted, and whether the pass is over."""
    limit = settings.retention_batch
    with database.transaction():
        walked, last, any_old, old = database.rows(
            WALK[Status(status)],
            {
                "place": place.last.get(status, BEGINNING),
                "days": settings.retention_days,
                "limit": limit,
            },
        )[0]
        ids = [row[0] for row in database.rows(UNNEEDED, {"ids": old})] if old else []
        if ids:
            for statement in DELETE:
                database.run(statement, {"ids": ids})
    # Younger jobs follow, whose ends are younger still.
    is_over = walked < limit or not any_old
    place.last[status] = BEGINNING if is_over else last
    return len(ids), is_over


def prune_workers(database: Database, settings: Settings) -> int:
    """Delete rows of workers that stopped or died long ago and hold no job any more."""
    return database.run(PRUNE_WORKERS, {"days": _days(settings), "limit": ROWS_AT_ONCE})


def prune_rollups(database: Database, settings: Settings) -> int:
    """Delete old folded minutes; the totals keep their sums."""
    return database.run(PRUNE_ROLLUPS, {"days": _days(settings), "limit": ROWS_AT_ONCE})


def prune_keys(database: Database) -> int:
    """Delete `Idempotency-Key`s that are no longer good."""
    return database.run(PRUNE_KEYS, {"limit": ROWS_AT_ONCE})


def _days(settings: Settings) -> float:
    return settings.retention_days or LEAST_DAYS
