"""Purge: delete dead letters for good, with their attempts and logs.

Nothing of a purged job is left in the tables; the JSON log line and the event say who did it.
Jobs that wait for a purged one can never run and are cancelled with that reason (`edges.purged`).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from jobs import audit, conf, edges
from jobs.database import DjangoDatabase
from jobs.lifecycle.cancelling import cancel_made_by
from jobs.lifecycle.changed import Changed, Skipped
from jobs.lifecycle.rows import Act, Row, conflict, in_chunks, perform, standing
from jobs.states import Status

DELETE = "DELETE FROM jobs_job WHERE id = ANY(%(ids)s::uuid[]) AND status = 'failed'"
# Satisfied edges to a purged parent stay: they hold nobody up, and no index leads to them from
# there. They go with their child.
DELETE_PARTS = (
    "DELETE FROM jobs_attempt WHERE job_id = ANY(%(ids)s::uuid[])",
    "DELETE FROM jobs_joblog WHERE job_id = ANY(%(ids)s::uuid[])",
    "DELETE FROM jobs_jobdependency WHERE child_id = ANY(%(ids)s::uuid[])",
)

# The oldest dead letters behind a place, in the order of the index job_dead. What belongs to a range
# run or to a bulk operation is no dead letter for people: it is looked after where it belongs.
DEAD_BEFORE = """
SELECT id::text, failed_at FROM jobs_job
WHERE status = 'failed' AND failed_at <= %(before)s AND (failed_at, id) > (%(at)s, %(id)s::uuid)
    AND NOT metadata @> '{"internal": true}'
ORDER BY failed_at, id LIMIT %(limit)s
"""

NOT_DEAD = "only dead letters can be purged"


def purge(job_id: object, *, by: str = "", reason: str = "") -> None:
    """Delete one dead letter. Conflict when it is not dead."""

    def work(act: Act) -> None:
        row = act.lock_one(job_id)
        if row.status != Status.FAILED:
            raise conflict(row, NOT_DEAD)
        _delete(act, [row])
        act.audit_one("job.purge", row, data={"queue": row.queue})

    perform(work, by=by, reason=reason)


def purge_many(ids: Iterable[object], *, by: str = "", reason: str = "") -> Changed:
    """Delete those of many that are dead; each chunk is a transaction of its own."""
    changed = Changed()
    with audit.as_one():
        for chunk in in_chunks(ids):
            changed += perform(
                lambda act, chunk=chunk: _purge_chunk(act, chunk),  # type: ignore[misc]
                by=by,
                reason=reason,
            )
    return changed


def empty_dead_letters(*, before: datetime | None = None, by: str = "", reason: str = "") -> int:
    """Purge all that were dead before the call (or `before`); returns how many.

    Batches of `retention_batch`, each in a transaction of its own: a queue of any size is emptied
    without one long transaction, and one that is interrupted has emptied a part.
    """
    database = DjangoDatabase()
    if before is None:
        before = database.rows("SELECT clock_timestamp()", {})[0][0]
    place: tuple[Any, str] = ("-infinity", "00000000-0000-0000-0000-000000000000")
    deleted = 0
    with audit.as_one("job.purge_all", scope=f"dead letters of before {before:%Y-%m-%d %H:%M:%S}"):
        while True:
            found = database.rows(
                DEAD_BEFORE,
                {
                    "before": before,
                    "at": place[0],
                    "id": place[1],
                    "limit": conf.get().retention_batch,
                },
            )
            if not found:
                return deleted
            place = (found[-1][1], found[-1][0])
            deleted += len(purge_many([row[0] for row in found], by=by, reason=reason).done)


def _purge_chunk(act: Act, chunk: list[tuple[str, str]]) -> Changed:
    rows = act.lock(stored for _, stored in chunk if stored)
    dead = {id: row for id, row in rows.items() if row.status == Status.FAILED}
    skipped = []
    for asked, stored in chunk:
        if stored not in dead:
            row = rows.get(stored)
            reason = f"no longer dead: {standing(row)}" if row else "no such job"
            skipped.append(Skipped(job_id=stored or asked, reason=reason))
    _delete(act, list(dead.values()))
    done = tuple(stored for _, stored in chunk if stored in dead)
    act.audit_many("job.purge", list(done))
    return Changed(done=done, skipped=tuple(skipped))


def _delete(act: Act, rows: list[Row]) -> None:
    if not rows:
        return
    ids = [row.id for row in rows]
    cancel_made_by(act, act.follow(edges.purged(act.database, ids)))
    for statement in (*DELETE_PARTS, DELETE):
        act.database.run(statement, {"ids": ids})
    act.tell(rows, "purged")
