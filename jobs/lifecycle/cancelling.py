"""Cancel: pending jobs at once, running ones by a request that their handler sees.

What must always be true:
1. A cancelled job never comes back: no arrow leaves `cancelled`, and a running job with a request
   ends `cancelled` whatever its attempt says, except success (`complete.py`).
2. The jobs that a cancelled job made with WaitFor are cancelled with it, and theirs. They are
   looked for only once their maker is locked, since it may be making more until then.
3. The edges of dependents are closed in the same transaction, so nobody waits for a cancelled job
   without a visible reason.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from jobs import audit, edges
from jobs.lifecycle.changed import Changed, Skipped
from jobs.lifecycle.rows import Act, Row, conflict, in_chunks, perform, standing
from jobs.states import TERMINAL, Status

CANCEL = """
UPDATE jobs_job SET
    status = 'cancelled', cancelled_at = clock_timestamp(), updated_at = clock_timestamp(),
    cancel_requested_at = coalesce(cancel_requested_at, clock_timestamp()),
    next_retry_at = NULL, hold_reason = ''
WHERE id = ANY(%(ids)s::uuid[]) AND status = 'pending'
"""

REQUEST = """
UPDATE jobs_job SET cancel_requested_at = clock_timestamp(), updated_at = clock_timestamp()
WHERE id = ANY(%(ids)s::uuid[]) AND status = 'processing' AND cancel_requested_at IS NULL
"""

# Made by a WaitFor of these jobs; those that ended may have made others that still live.
MADE_BY = "SELECT id::text FROM jobs_job WHERE parent_id = ANY(%(ids)s::uuid[])"


class CancelResult(StrEnum):
    CANCELLED = "cancelled"
    REQUESTED = "requested"


def cancel(job_id: object, *, by: str = "", reason: str = "") -> CancelResult:
    """Cancel a pending job at once, or ask a running one to stop (again: no harm)."""

    def work(act: Act) -> CancelResult:
        row = act.lock_one(job_id)
        if row.status in TERMINAL:
            raise conflict(row, "only pending and processing jobs can be cancelled")
        _cancel_all(act, {row.id: row})
        if not row.cancel_requested:
            act.audit_one("job.cancel", row, data={"was": row.status})
        return _result(row)

    return perform(work, by=by, reason=reason)


def cancel_many(ids: Iterable[object], *, by: str = "", reason: str = "") -> Changed:
    """Cancel those of many that can be; each chunk is a transaction of its own."""
    changed = Changed()
    with audit.as_one():
        for chunk in in_chunks(ids):
            changed += perform(
                lambda act, chunk=chunk: _cancel_chunk(act, chunk),  # type: ignore[misc]
                by=by,
                reason=reason,
            )
    return changed


def _cancel_chunk(act: Act, chunk: list[tuple[str, str]]) -> Changed:
    rows = act.lock(stored for _, stored in chunk if stored)
    live = {id: row for id, row in rows.items() if row.status not in TERMINAL}
    _cancel_all(act, live)
    done, requested, skipped = [], [], []
    for asked, stored in chunk:
        if stored in live:
            done.append(stored)
            if _result(live[stored]) is CancelResult.REQUESTED:
                requested.append(stored)
        else:
            row = rows.get(stored)
            reason = f"already {standing(row)}" if row else "no such job"
            skipped.append(Skipped(job_id=stored or asked, reason=reason))
    act.audit_many("job.cancel", [id for id in done if not live[id].cancel_requested])
    return Changed(done=tuple(done), requested=tuple(requested), skipped=tuple(skipped))


def _result(row: Row) -> CancelResult:
    return CancelResult.CANCELLED if row.status == Status.PENDING else CancelResult.REQUESTED


def _cancel_all(act: Act, rows: dict[str, Row]) -> None:
    """Cancel locked live jobs, then what they made, level by level."""
    message = ""
    seen = set(rows)
    while rows:
        gone = _cancel_level(act, list(rows.values()), message)
        above = [*rows, *(id for id in gone if id not in seen)]
        seen.update(above)
        made = {row[0] for row in act.database.rows(MADE_BY, {"ids": above})} - seen
        seen |= made
        rows = act.lock(made) if made else {}
        message = "the job that made it was cancelled"


def cancel_made_by(act: Act, ids: list[str]) -> None:
    """Cancel what these jobs made, after they themselves were cancelled by other means."""
    made = [row[0] for row in act.database.rows(MADE_BY, {"ids": ids})] if ids else []
    if made:
        _cancel_all(act, act.lock(made))


def _cancel_level(act: Act, rows: list[Row], message: str) -> list[str]:
    """Cancel or ask these; returns dependents that were cancelled because of them."""
    pending = [row for row in rows if row.status == Status.PENDING]
    running = [row for row in rows if row.status == Status.PROCESSING and not row.cancel_requested]
    if running:
        act.database.run(REQUEST, {"ids": [row.id for row in running]})
        act.log(
            running,
            "cancel_requested",
            source=Status.PROCESSING,
            target=Status.PROCESSING,
            message=message,
        )
    if not pending:
        return []
    act.database.run(CANCEL, {"ids": [row.id for row in pending]})
    act.log(pending, "cancelled", source=Status.PENDING, target=Status.CANCELLED, message=message)
    ended = [(row.id, Status.CANCELLED.value) for row in pending if row.has_dependents]
    return act.follow(edges.close(act.database, ended)) if ended else []
