"""Write how attempts ended: a batch of them, fenced, in one transaction.

What must always be true:
1. Every write carries (id, lease_epoch). A row that is not processing under that epoch is left
   alone, its attempt and log are not written, and the caller learns that the lease was lost.
2. A job, its attempt, its log line and the rollup are one statement: all are there, or none.
3. Rows are locked in id order, so two batches cannot wait for each other.
4. Edges are closed by a statement of their own, after the jobs are locked: it must see the edges
   that were settled while it waited for those locks (`edges.py`).
5. A cancel request sticks: whatever an attempt says, except success, ends such a job `cancelled`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from jobs import edges
from jobs.claimed import Claimed
from jobs.database import Database
from jobs.drafts import Draft
from jobs.endings import Ending, Success
from jobs.histograms import rollup_of
from jobs.states import Outcome, Status

# The plain case, nearly all of a busy day: the handler returned. Nothing is decided per row.
# A job has a worker just while it is processing; asking for the status instead would tempt the
# planner into scanning all processing jobs once per row.
COMPLETE = f"""
WITH done AS (
    SELECT d.id, d.lease_epoch, d.wait, d.run, d.result
    FROM unnest(
        %(ids)s::uuid[], %(epochs)s::bigint[], %(waits)s::float8[], %(runs)s::float8[],
        %(results)s::jsonb[]
    ) AS d (id, lease_epoch, wait, run, result)
    ORDER BY d.id OFFSET 0
), ended AS (
    UPDATE jobs_job j SET
        status = 'completed', completed_at = clock_timestamp(), updated_at = clock_timestamp(),
        started_at = j.started_at + done.wait * interval '1 second', worker_id = NULL,
        next_retry_at = NULL, result = done.result
    FROM done
    WHERE j.id = done.id AND j.lease_epoch = done.lease_epoch AND j.worker_id = %(worker)s::uuid
    RETURNING j.id, j.queue, j.type, j.lease_epoch, j.attempt_count, j.started_at, j.completed_at,
        j.due_at, j.has_dependents, j.cancel_requested_at, done.run
), attempted AS (
    INSERT INTO jobs_attempt
        (job_id, lease_epoch, number, worker_id, started_at, finished_at, outcome)
    SELECT id, lease_epoch, attempt_count, %(worker)s::uuid, started_at,
        least(started_at + run * interval '1 second', completed_at), 'succeeded'
    FROM ended
), logged AS (
    INSERT INTO jobs_joblog
        (job_id, at, event, from_status, to_status, attempt, worker_id, message)
    SELECT id, completed_at, 'completed', 'processing', 'completed', attempt_count,
        %(worker)s::uuid,
        CASE WHEN cancel_requested_at IS NULL THEN '' ELSE 'completed before the cancel' END
    FROM ended
), counted AS ({rollup_of("ended", outcome="'succeeded'", due_at="due_at")}
)
SELECT count(*), array_agg(id::text ORDER BY id) FILTER (WHERE has_dependents) FROM ended
"""

# Every other end. `status` is where the decision sends the job; a cancel request overrules it.
_TARGET = (
    "CASE WHEN j.cancel_requested_at IS NOT NULL AND e.status <> 'completed' "
    "THEN 'cancelled' ELSE e.status END"
)
END = f"""
WITH asked AS (
    SELECT * FROM jsonb_to_recordset(%(endings)s::jsonb) AS e (
        id uuid, lease_epoch bigint, status text, outcome text, event text, spent boolean,
        delay float8, held boolean, hold_reason text, wait float8, run float8, error text,
        traceback text, fingerprint text, result text, waits integer, snoozes integer,
        losses integer, level text, quiet boolean
    )
), locked AS MATERIALIZED (
    SELECT j.id, j.due_at
    FROM jobs_job j JOIN asked a ON a.id = j.id AND a.lease_epoch = j.lease_epoch
    WHERE j.worker_id = %(worker)s::uuid ORDER BY j.id FOR NO KEY UPDATE OF j
), ended AS (
    UPDATE jobs_job j SET
        status = {_TARGET},
        worker_id = NULL,
        attempt_count = j.attempt_count - CASE WHEN e.spent THEN 0 ELSE 1 END,
        wait_count = j.wait_count + e.waits,
        snooze_count = j.snooze_count + e.snoozes,
        lost_count = j.lost_count + e.losses,
        next_retry_at = CASE
            WHEN {_TARGET} <> 'pending' THEN NULL
            WHEN e.delay IS NULL THEN j.next_retry_at
            ELSE clock_timestamp() + e.delay * interval '1 second' END,
        due_at = CASE
            WHEN {_TARGET} <> 'pending' THEN j.due_at
            WHEN e.held THEN NULL
            WHEN e.delay IS NULL THEN j.due_at
            ELSE greatest(j.scheduled_at, clock_timestamp() + e.delay * interval '1 second') END,
        hold_reason = CASE WHEN {_TARGET} = 'pending' AND e.held THEN e.hold_reason ELSE '' END,
        result = CASE WHEN e.status = 'completed' THEN e.result::jsonb ELSE j.result END,
        last_error = CASE WHEN e.error <> '' THEN e.error ELSE j.last_error END,
        error_fingerprint =
            CASE WHEN e.error <> '' THEN e.fingerprint ELSE j.error_fingerprint END,
        started_at = j.started_at + e.wait * interval '1 second',
        updated_at = clock_timestamp(),
        completed_at = CASE WHEN {_TARGET} = 'completed' THEN clock_timestamp() END,
        failed_at = CASE WHEN {_TARGET} = 'failed' THEN clock_timestamp() END,
        cancelled_at = CASE WHEN {_TARGET} = 'cancelled' THEN clock_timestamp() END
    FROM asked e, locked l
    WHERE j.id = l.id AND e.id = l.id
    RETURNING j.id, j.queue, j.type, j.status, j.lease_epoch, j.has_dependents,
        l.due_at AS was_due_at, j.started_at, j.updated_at, j.attempt_count, j.unique_key, j.next_retry_at,
        j.attempt_count + CASE WHEN e.spent THEN 0 ELSE 1 END AS number,
        CASE WHEN j.status = 'cancelled' AND e.status <> 'cancelled' AND e.outcome <> 'lost'
            THEN 'cancelled' ELSE e.outcome END AS outcome,
        CASE WHEN j.status = 'cancelled' THEN 'cancelled' ELSE e.event END AS event,
        e.run, e.error, e.traceback, e.level, e.hold_reason,
        e.quiet AND j.status = 'pending' AS quiet
), attempted AS (
    INSERT INTO jobs_attempt (job_id, lease_epoch, number, worker_id, started_at, finished_at,
        outcome, error, traceback)
    SELECT id, lease_epoch, number, %(worker)s::uuid, started_at,
        least(started_at + run * interval '1 second', updated_at), outcome, error, traceback
    FROM ended WHERE NOT quiet
    ON CONFLICT DO NOTHING
), logged AS (
    INSERT INTO jobs_joblog (job_id, at, event, from_status, to_status, attempt, worker_id, level,
        message)
    SELECT id, updated_at, event, 'processing', status, number, %(worker)s::uuid, level,
        left(coalesce(nullif(error, ''), hold_reason), 1000)
    FROM ended WHERE NOT quiet
), counted AS ({rollup_of("ended", outcome="outcome", due_at="was_due_at")}
)
SELECT id::text, status, event, lease_epoch, has_dependents, number,
    extract(epoch FROM next_retry_at)::float8
FROM ended ORDER BY id
"""

# Which of these attempts left no trace: their lease was lost before the batch came. An attempt that
# a rescuer wrote as lost is no trace of ours.
UNWRITTEN = """
SELECT d.id::text
FROM unnest(%(ids)s::uuid[], %(epochs)s::bigint[]) AS d (id, lease_epoch)
WHERE NOT EXISTS (
    SELECT FROM jobs_attempt a
    WHERE a.job_id = d.id AND a.lease_epoch = d.lease_epoch AND a.outcome <> 'lost'
)
"""

PROGRESS = """
UPDATE jobs_job j SET progress_done = p.done, progress_total = p.total
FROM (
    SELECT * FROM unnest(%(ids)s::uuid[], %(epochs)s::bigint[], %(done)s::bigint[],
        %(total)s::bigint[]) AS p (id, lease_epoch, done, total)
    ORDER BY id OFFSET 0
) p
WHERE j.id = p.id AND j.lease_epoch = p.lease_epoch AND j.worker_id = %(worker)s::uuid
"""

LOG_LINES = """
INSERT INTO jobs_joblog (job_id, at, event, attempt, worker_id, level, message, data)
SELECT l.job_id, clock_timestamp() - l.age * interval '1 second', 'log', l.attempt,
    %(worker)s::uuid, l.level, l.message, l.data
FROM unnest(%(ids)s::uuid[], %(ages)s::float8[], %(attempts)s::integer[], %(levels)s::text[],
    %(messages)s::text[], %(data)s::jsonb[])
    AS l (job_id, age, attempt, level, message, data)
"""

# COMPLETE locks rows in the order of its input only when the planner nests its loop.
COMPLETE_SESSION = (
    "SET enable_hashjoin = off",
    "SET enable_mergejoin = off",
    "SET enable_seqscan = off",
    "SET jit = off",
    "SET plan_cache_mode = force_generic_plan",
)


@dataclass(frozen=True, kw_only=True)
class Ended:
    """What one write really did to one job."""

    job: Claimed
    status: str
    event: str
    number: int
    error: str = ""
    next_retry_at: float | None = None


@dataclass(frozen=True, kw_only=True)
class Written:
    """The answer to a batch: what ended, and which leases were lost."""

    ended: list[Ended] = field(default_factory=list)
    stale: list[Claimed] = field(default_factory=list)
    released: list[edges.Released] = field(default_factory=list)
    """Dependents that this batch freed or cancelled."""
    created: list[Draft] = field(default_factory=list)
    """Children that a WaitFor made."""
    to_settle: list[str] = field(default_factory=list)
    """Jobs whose new edges must be settled right after the commit."""


def complete(
    database: Database,
    *,
    worker_id: str,
    successes: Sequence[Success] = (),
    endings: Sequence[Ending] = (),
) -> Written:
    """Write a batch in one transaction. Raises what the database raises; then nothing is written."""
    with database.transaction():
        return complete_here(database, worker_id=worker_id, successes=successes, endings=endings)


def complete_here(
    database: Database,
    *,
    worker_id: str,
    successes: Sequence[Success] = (),
    endings: Sequence[Ending] = (),
) -> Written:
    """The same inside the caller's transaction (`atomic` handlers)."""
    written = Written()
    parents: list[tuple[str, str]] = []
    if successes:
        _complete(database, worker_id, successes, written, parents)
    if endings:
        _end(database, worker_id, endings, written, parents)
    if parents:
        written.released.extend(edges.close(database, parents))
    # Last, since new edges are made under one lock for all: whoever has it waits for no row.
    waiting = {ended.job.id for ended in written.ended if ended.status == Status.PENDING}
    for ending in endings:
        if ending.wait_for is not None and ending.job.id in waiting:
            written.created.extend(
                edges.wait_for(database, child_id=ending.job.id, jobs=ending.wait_for.jobs)
            )
            written.to_settle.append(ending.job.id)
    return written


def _complete(
    database: Database,
    worker_id: str,
    successes: Sequence[Success],
    written: Written,
    parents: list[tuple[str, str]],
) -> None:
    params = {
        "ids": _array(success.job.id for success in successes),
        "epochs": _array(str(success.job.lease_epoch) for success in successes),
        "waits": _array(f"{success.wait:.6f}" for success in successes),
        "runs": _array(f"{success.run:.6f}" for success in successes),
        "results": [success.result for success in successes]
        if any(success.result is not None for success in successes)
        else "{" + ",".join(["NULL"] * len(successes)) + "}",
        "worker": worker_id,
    }
    count, with_dependents = database.rows(COMPLETE, params)[0]
    lost: set[str] = set()
    if count < len(successes):
        lost = {row[0] for row in database.rows(UNWRITTEN, params)}
    if with_dependents:
        parents.extend((id, Status.COMPLETED) for id in with_dependents)
    for success in successes:
        job = success.job
        if lost and job.id in lost:
            written.stale.append(job)
        else:
            written.ended.append(
                Ended(job=job, status="completed", event="completed", number=job.attempt)
            )


def _end(
    database: Database,
    worker_id: str,
    endings: Sequence[Ending],
    written: Written,
    parents: list[tuple[str, str]],
) -> None:
    by_id = {ending.job.id: ending for ending in endings}
    rows = database.rows(
        END, {"endings": json.dumps([_columns(e) for e in endings]), "worker": worker_id}
    )
    for id, status, event, _epoch, has_dependents, number, next_retry_at in rows:
        ending = by_id.pop(id)
        written.ended.append(
            Ended(
                job=ending.job,
                status=status,
                event=event,
                number=number,
                error=ending.error,
                next_retry_at=next_retry_at,
            )
        )
        if has_dependents and status != Status.PENDING:
            parents.append((id, status))
    if by_id:
        # A batch is written again when its commit was not answered: then its attempts are there.
        left = [ending.job for ending in by_id.values()]
        params = {
            "ids": _array(job.id for job in left),
            "epochs": _array(str(job.lease_epoch) for job in left),
        }
        unwritten = {row[0] for row in database.rows(UNWRITTEN, params)}
        written.stale.extend(job for job in left if job.id in unwritten)


def _columns(ending: Ending) -> dict[str, Any]:
    return {
        "id": ending.job.id,
        "lease_epoch": ending.job.lease_epoch,
        "status": ending.status,
        "outcome": ending.outcome,
        "event": ending.event,
        "spent": ending.spent,
        "delay": ending.delay,
        "held": ending.held,
        "hold_reason": ending.hold_reason,
        "wait": ending.wait,
        "run": ending.run,
        "error": ending.error,
        "traceback": ending.traceback,
        "fingerprint": ending.fingerprint,
        "result": ending.result,
        "waits": 1 if ending.wait_for is not None else 0,
        "snoozes": 1 if ending.outcome is Outcome.SNOOZED and not ending.held else 0,
        "losses": ending.losses,
        "level": ending.level,
        "quiet": ending.quiet,
    }


def _array(values: Any) -> str:
    """A PostgreSQL array literal of values that need no quoting: far cheaper than adapting each."""
    return "{" + ",".join(values) + "}"
