"""Change a job that is not running: its place in the order, its payload, what it waits for."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from jobs import audit, conf, edges, masking, registry
from jobs.drafts import check_parents, check_payload, check_priority, check_queue
from jobs.enqueueing import settle_after_commit
from jobs.errors import InvalidInput
from jobs.lifecycle.changed import Changed, Skipped
from jobs.lifecycle.rows import Act, Row, conflict, in_chunks, perform, standing
from jobs.moments import parse_moment
from jobs.payloads import check_json
from jobs.states import Status
from jobs.texts import clean

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

# Of many only what needs no look at each row's times.
CHANGE_MANY = """
UPDATE jobs_job SET
    priority = coalesce(%(priority)s, priority), queue = coalesce(%(queue)s, queue),
    updated_at = clock_timestamp()
WHERE id = ANY(%(ids)s::uuid[]) AND status = 'pending'
"""

PAYLOAD = "SELECT payload FROM jobs_job WHERE id = %(id)s::uuid"
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
    reason: str = "",
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
        before = {name: getattr(row, name) for name in changed}
        act.audit_one("job.change", row, data={"before": before, "after": changed})
        if is_due and not row.unmet_dependencies:
            act.wake.add(str(new["queue"]))
        return tuple(changed)

    return perform(work, by=by, reason=reason)


def change_many(
    ids: Iterable[object],
    *,
    priority: int | None = None,
    queue: str | None = None,
    by: str = "",
    reason: str = "",
) -> Changed:
    """Give those of many that are pending another place; each chunk is a transaction of its own."""
    wanted: dict[str, int | str] = {}
    if priority is not None:
        wanted["priority"] = check_priority(priority)
    if queue is not None:
        wanted["queue"] = check_queue(queue)
    if not wanted:
        raise InvalidInput("give a priority or a queue", field="priority")
    changed = Changed()
    with audit.as_one():
        for chunk in in_chunks(ids):
            changed += perform(
                lambda act, chunk=chunk: _change_chunk(act, chunk, wanted),  # type: ignore[misc]
                by=by,
                reason=reason,
            )
    return changed


def _change_chunk(act: Act, chunk: list[tuple[str, str]], wanted: dict[str, int | str]) -> Changed:
    rows = act.lock(stored for _, stored in chunk if stored)
    differing: dict[tuple[object, ...], list[Row]] = defaultdict(list)
    skipped = []
    for asked, stored in chunk:
        row = rows.get(stored)
        if row is None:
            skipped.append(Skipped(job_id=stored or asked, reason="no such job"))
        elif row.status != Status.PENDING:
            skipped.append(Skipped(job_id=row.id, reason=f"not pending: {standing(row)}"))
        elif all(getattr(row, name) == value for name, value in wanted.items()):
            skipped.append(Skipped(job_id=row.id, reason="nothing to change"))
        else:
            differing[tuple(getattr(row, name) for name in wanted)].append(row)
    changed = [row.id for alike in differing.values() for row in alike]
    if changed:
        params = {"ids": changed, "priority": wanted.get("priority"), "queue": wanted.get("queue")}
        act.database.run(CHANGE_MANY, params)
    for old, alike in differing.items():
        said = [
            f"{name} {was} to {value}"
            for (name, value), was in zip(wanted.items(), old, strict=True)
            if value != was
        ]
        act.log(alike, "changed", message=", ".join(said), fields=list(wanted))
        if "queue" in wanted and any(not row.unmet_dependencies for row in alike):
            act.wake.add(str(wanted["queue"]))
    act.audit_many("job.change", changed, data={"after": wanted})
    return Changed(done=tuple(changed), skipped=tuple(skipped))


def edit_payload(job_id: object, payload: Any, *, by: str = "", reason: str = "") -> None:
    """Give a dead letter another payload, before it is retried.

    Validated like at creation. A type that this process does not know is only checked to be JSON.
    Who was shown masks may hand them back: the values that they stand for stay.
    """

    def work(act: Act) -> None:
        row = act.lock_one(job_id)
        if row.status != Status.FAILED:
            raise conflict(row, "only the payload of a dead letter can be edited")
        if registry.is_internal(row.type):
            raise conflict(row, "nobody edits the payload of a job that Coppice made for itself")
        before = act.database.rows(PAYLOAD, {"id": row.id})[0][0]
        check_json(payload, "payload", max_bytes=conf.get().max_payload_bytes)
        text = _checked(row.type, masking.restored(row.type, payload, _loaded(before)))
        act.database.run(EDIT_PAYLOAD, {"id": row.id, "payload": text})
        act.log([row], "payload_edited")
        act.audit_one("job.edit_payload", row, data={"fields": _differing(before, text)})

    perform(work, by=by, reason=reason)


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
        act.audit_one("job.add_dependency", row, data=audit.listed(list(ids)))
        return count

    return perform(work, by=by)


def _checked(type: str, payload: Any) -> str:
    handler = registry.find(type)
    if handler is not None:
        return check_payload(handler, payload)
    return check_json(payload, "payload", max_bytes=conf.get().max_payload_bytes)


def _shown(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _loaded(stored: Any) -> Any:
    """What a cursor gives for jsonb: its text, or the value."""
    return json.loads(stored) if isinstance(stored, str) else stored


def _differing(before: Any, after: str) -> list[str]:
    """The names of the fields in which two payloads differ, never what is in them."""
    old, new = _loaded(before), json.loads(after)
    if not isinstance(old, dict) or not isinstance(new, dict):
        return [] if old == new else ["the whole payload"]
    missing = object()
    names = [
        name for name in sorted({**old, **new}) if old.get(name, missing) != new.get(name, missing)
    ]
    return [clean(name, 100) for name in names[: audit.NAMES_SHOWN]]
