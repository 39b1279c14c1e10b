"""Change a job that is not running: its place in the order, its payload, what it waits for."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from jobs import conf, edges, registry
from jobs.drafts import check_parents, check_payload, check_priority, check_queue
from jobs.enqueueing import settle_after_commit
from jobs.errors import InvalidInput
from jobs.lifecycle.rows import Act, conflict, perform
from jobs.payloads import check_json
from jobs.states import Status
from jobs.timing import parse_moment

# A held job stays held; a retrying one is never due before its retry.
CHANGE = """
UPDATE jobs_job SET
    priority = %(priority)s, queue = %(queue)s, scheduled_at = %(scheduled_at)s,
    due_at = CASE WHEN due_at IS NULL THEN NULL
        WHEN %(moved)s THEN greatest(%(scheduled_at)s, next_retry_at) ELSE due_at END,
    updated_at = clock_timestamp()
WHERE id = %(id)s::uuid AND status = 'pending'
RETURNING due_at <= clock_timestamp()
"""

EDIT_PAYLOAD = """
UPDATE jobs_job SET payload = %(payload)s::jsonb, updated_at = clock_timestamp()
WHERE id = %(id)s::uuid AND status = 'failed'
"""


def change(
    job_id: object,
    *,
    priority: int | None = None,
    queue: str | None = None,
    scheduled_at: datetime | str | int | None = None,
    by: str = "",
) -> tuple[str, ...]:
    """Change where a pending job stands; returns the names of the fields that really changed.

    `scheduled_at` as in `enqueue`; a time that has passed makes the job due.
    """
    wanted = {
        "priority": None if priority is None else check_priority(priority),
        "queue": None if queue is None else check_queue(queue),
        "scheduled_at": None
        if scheduled_at is None
        else parse_moment(scheduled_at, "scheduled_at"),
    }

    def work(act: Act) -> tuple[str, ...]:
        row = act.lock_one(job_id)
        if row.status != Status.PENDING:
            raise conflict(row, "only pending jobs can be changed")
        changed = {
            name: value
            for name, value in wanted.items()
            if value is not None and value != getattr(row, name)
        }
        if not changed:
            return ()
        moved = "scheduled_at" in changed
        new = {name: changed.get(name, getattr(row, name)) for name in wanted}
        is_due = act.database.rows(CHANGE, {"id": row.id, "moved": moved, **new})[0][0]
        said = [f"{name} {_shown(getattr(row, name))} to {_shown(new[name])}" for name in changed]
        act.log([row], "changed", message=", ".join(said), fields=list(changed))
        if is_due and not row.unmet_dependencies:
            act.wake.add(str(new["queue"]))
        return tuple(changed)

    return perform(work, by=by)


def edit_payload(job_id: object, payload: Any, *, by: str = "") -> None:
    """Give a dead letter another payload, before it is retried.

    Validated like at creation. A type that this process does not know is only checked to be JSON.
    """

    def work(act: Act) -> None:
        row = act.lock_one(job_id)
        if row.status != Status.FAILED:
            raise conflict(row, "only the payload of a dead letter can be edited")
        text = _checked(row.type, payload)
        act.database.run(EDIT_PAYLOAD, {"id": row.id, "payload": text})
        act.log([row], "payload_edited")

    perform(work, by=by)


def add_dependency(job_id: object, parents: Any, *, by: str = "") -> int:
    """Make a pending job wait for others too; returns how many it then waits for.

    Raises InvalidInput for unknown parents and for a circle.
    """
    ids = check_parents(parents)
    if not ids:
        raise InvalidInput("names no job", field="depends_on")

    def work(act: Act) -> int:
        row = act.lock_one(job_id)
        if row.status != Status.PENDING:
            raise conflict(row, "only a pending job can be made to wait")
        count = edges.add(act.database, row.id, ids)
        act.log([row], "dependency_added", message=f"waits for {', '.join(ids[:10])}")
        settle_after_commit([row.id])
        return count

    return perform(work, by=by)


def _checked(type: str, payload: Any) -> str:
    handler = registry.find(type)
    if handler is not None:
        return check_payload(handler, payload)
    return check_json(payload, "payload", max_bytes=conf.get().max_payload_bytes)


def _shown(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
