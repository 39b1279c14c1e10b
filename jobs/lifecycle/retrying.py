"""Bring jobs back to be run: retry dead letters, run waiting jobs now, release held ones."""

from __future__ import annotations

from collections.abc import Iterable

import psycopg
from django.db import IntegrityError

from jobs import audit
from jobs.database import cause
from jobs.errors import Conflict
from jobs.lifecycle.changed import Changed, Skipped
from jobs.lifecycle.rows import Act, Row, conflict, in_chunks, perform, standing
from jobs.states import Status

# Attempts start again; what earlier ones did stays in Attempt and JobLog. The lease epoch stays,
# for it must never fall.
RETRY = """
UPDATE jobs_job SET
    status = 'pending', attempt_count = 0, lost_count = 0, wait_count = 0, snooze_count = 0,
    next_retry_at = NULL, due_at = clock_timestamp(), failed_at = NULL, hold_reason = '',
    cancel_requested_at = NULL, progress_done = NULL, progress_total = NULL,
    updated_at = clock_timestamp()
WHERE id = ANY(%(ids)s::uuid[]) AND status = 'failed'
"""

# least() passes over NULL, so a held job becomes due, and one that is due keeps its age.
RUN_NOW = """
UPDATE jobs_job SET
    scheduled_at = least(scheduled_at, clock_timestamp()), next_retry_at = NULL,
    due_at = least(due_at, clock_timestamp()), hold_reason = '', updated_at = clock_timestamp()
WHERE id = ANY(%(ids)s::uuid[]) AND status = 'pending' AND unmet_dependencies = 0
    AND (due_at IS NULL OR due_at > clock_timestamp())
RETURNING id::text
"""

RELEASE = """
UPDATE jobs_job SET
    due_at = greatest(scheduled_at, clock_timestamp()), hold_reason = '',
    updated_at = clock_timestamp()
WHERE id = %(id)s::uuid AND status = 'pending' AND due_at IS NULL
RETURNING due_at <= clock_timestamp()
"""

HELD_KEYS = """
SELECT unique_key FROM jobs_job
WHERE unique_key = ANY(%(keys)s::text[]) AND status IN ('pending', 'processing')
"""

UNIQUE_KEY = "job_unique_key_live"
NOT_DEAD = "only dead letters can be retried"


def retry(job_id: object, *, by: str = "", reason: str = "") -> None:
    """Run a dead letter again from its first attempt, due at once; its history stays.

    Conflict when it is not dead, or when another live job has its unique key.
    """

    def work(act: Act) -> None:
        row = act.lock_one(job_id)
        if row.status != Status.FAILED:
            raise conflict(row, NOT_DEAD)
        try:
            _revive(act, [row])
        except IntegrityError as error:
            if not _is_key_taken(error):
                raise
            raise Conflict(f"job {row.id}: {_key_taken(row)}") from error
        act.audit_one("job.retry", row)

    perform(work, by=by, reason=reason)


def retry_many(ids: Iterable[object], *, by: str = "", reason: str = "") -> Changed:
    """Retry those of many that can be; each chunk is a transaction of its own.

    A unique key that another live job has skips that one job only.
    """
    changed = Changed()
    with audit.as_one():
        for chunk in in_chunks(ids):
            changed += perform(
                lambda act, chunk=chunk: _retry_chunk(act, chunk),  # type: ignore[misc]
                by=by,
                reason=reason,
            )
    return changed


def _retry_chunk(act: Act, chunk: list[tuple[str, str]]) -> Changed:
    rows = act.lock(stored for _, stored in chunk if stored)
    keys = [row.unique_key for row in rows.values() if row.unique_key is not None]
    taken = {row[0] for row in act.database.rows(HELD_KEYS, {"keys": keys})} if keys else set()
    ready: list[Row] = []
    refused: dict[str, str] = {}
    for asked, stored in chunk:
        row = rows.get(stored)
        if row is None:
            refused[stored or asked] = "no such job"
        elif row.status != Status.FAILED:
            refused[row.id] = f"no longer dead: {standing(row)}"
        elif row.unique_key is not None and row.unique_key in taken:
            refused[row.id] = _key_taken(row)
        else:
            ready.append(row)
            if row.unique_key is not None:
                taken.add(row.unique_key)
    refused |= _revive_each(act, ready)
    done = [row.id for row in ready if row.id not in refused]
    act.audit_many("job.retry", done)
    return Changed(
        done=tuple(done),
        skipped=tuple(Skipped(job_id=id, reason=reason) for id, reason in refused.items()),
    )


def _revive_each(act: Act, rows: list[Row]) -> dict[str, str]:
    """Revive all together, or one by one if somebody took one of their keys just now."""
    if not rows:
        return {}
    try:
        _revive(act, rows)
    except IntegrityError as error:
        if not _is_key_taken(error):
            raise
        if len(rows) == 1:
            return {rows[0].id: _key_taken(rows[0])}
        refused: dict[str, str] = {}
        for row in rows:
            refused |= _revive_each(act, [row])
        return refused
    return {}


def _revive(act: Act, rows: list[Row]) -> None:
    with act.database.transaction():  # a savepoint: a refused key undoes only this
        act.database.run(RETRY, {"ids": [row.id for row in rows]})
    act.log(rows, "retried", source=Status.FAILED, target=Status.PENDING)
    act.wake.update(row.queue for row in rows)


def run_now(job_id: object, *, by: str = "", reason: str = "") -> None:
    """Make a scheduled, retrying or held job due at once. Spends and refunds no attempt."""

    def work(act: Act) -> None:
        row = act.lock_one(job_id)
        if row.status != Status.PENDING:
            raise conflict(row, "only pending jobs can be run now")
        if row.unmet_dependencies:
            raise conflict(row, f"it waits for {_jobs(row.unmet_dependencies)}")
        if _run_now(act, [row]):
            act.audit_one("job.run_now", row)

    perform(work, by=by, reason=reason)


def run_now_many(ids: Iterable[object], *, by: str = "", reason: str = "") -> Changed:
    """Make those of many due that are not and can be; each chunk is a transaction of its own."""
    changed = Changed()
    with audit.as_one():
        for chunk in in_chunks(ids):
            changed += perform(
                lambda act, chunk=chunk: _run_chunk_now(act, chunk),  # type: ignore[misc]
                by=by,
                reason=reason,
            )
    return changed


def _run_chunk_now(act: Act, chunk: list[tuple[str, str]]) -> Changed:
    rows = act.lock(stored for _, stored in chunk if stored)
    free = [r for r in rows.values() if r.status == Status.PENDING and not r.unmet_dependencies]
    moved = _run_now(act, free)
    skipped = []
    for asked, stored in chunk:
        row = rows.get(stored)
        if row is None:
            skipped.append(Skipped(job_id=stored or asked, reason="no such job"))
        elif row.id not in moved:
            is_due = row.status == Status.PENDING and not row.unmet_dependencies
            reason = "already due" if is_due else f"not waiting for its time: {standing(row)}"
            skipped.append(Skipped(job_id=row.id, reason=reason))
    done = [stored for _, stored in chunk if stored in moved]
    act.audit_many("job.run_now", done)
    return Changed(done=tuple(done), skipped=tuple(skipped))


def _run_now(act: Act, rows: list[Row]) -> set[str]:
    """Returns which were not due before."""
    if not rows:
        return set()
    moved = {row[0] for row in act.database.rows(RUN_NOW, {"ids": [row.id for row in rows]})}
    changed = [row for row in rows if row.id in moved]
    act.log(changed, "run_now", source=Status.PENDING, target=Status.PENDING)
    act.wake.update(row.queue for row in rows)
    return moved


def release(job_id: object, *, by: str = "", reason: str = "") -> None:
    """Let a held job run: at its time if that is still to come, else at once."""

    def work(act: Act) -> None:
        row = act.lock_one(job_id)
        if row.status != Status.PENDING or not row.is_held:
            raise conflict(row, "only held jobs can be released")
        is_due = act.database.rows(RELEASE, {"id": row.id})[0][0]
        act.log([row], "released", source=Status.PENDING, target=Status.PENDING)
        if is_due and not row.unmet_dependencies:
            act.wake.add(row.queue)
        act.audit_one("job.release", row)

    perform(work, by=by, reason=reason)


def _is_key_taken(error: IntegrityError) -> bool:
    below = cause(error)
    return isinstance(below, psycopg.Error) and below.diag.constraint_name == UNIQUE_KEY


def _key_taken(row: Row) -> str:
    return f"another live job has the unique key {row.unique_key!r}"


def _jobs(count: int) -> str:
    return "another job" if count == 1 else f"{count:,} other jobs"
