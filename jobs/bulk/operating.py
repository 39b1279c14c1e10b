"""Make an operation, pause it, resume it, end it; each in one transaction that holds its row.

Whoever works on an operation holds the same row through each batch. So once `pause` or `abort` has
returned, no job is changed any more.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import structlog
from django.db import transaction
from django.db.models.functions import Now

from jobs import audit, conf, events
from jobs.bulk.actions import (
    Action,
    check_arguments,
    check_cap,
    check_filters,
    find,
    in_audit,
    in_words,
)
from jobs.bulk.measuring import LIVE, progress
from jobs.bulk.previewing import count
from jobs.bulk.turns import blocker_of
from jobs.database import DjangoDatabase
from jobs.enqueueing import enqueue
from jobs.errors import Conflict, NotFound, TooBroad
from jobs.filtering import Filters
from jobs.listing import INTERNAL
from jobs.models import BulkOperation
from jobs.registry import OWN_QUEUE
from jobs.texts import clean

TYPE = "jobs.bulk_operation"
ATTEMPTS = 1_000
"""What kills a worker is not charged to the operation."""
REASON_LENGTH = 1_000

_log = structlog.get_logger("coppice.bulk")


def create(
    action: str,
    filters: Filters,
    *,
    arguments: Mapping[str, Any] | None = None,
    cap: int | None = None,
    reason: str = "",
    by: str = "",
) -> BulkOperation:
    """Have an action done to all jobs that match now, by a worker, in batches.

    `arguments`: `{"priority": 1}` for change_priority, `{"queue": "mail"}` for move_queue. `cap`: the
    most jobs to change. Raises InvalidInput.
    """
    found = find(action)
    filters = Filters.from_json(filters.as_json())
    check_filters(found, filters)
    checked = check_arguments(found, arguments)
    cap = check_cap(cap)
    try:
        matched, is_capped = count(found, filters)
    except TooBroad:  # slow to count; the walk takes its time
        matched, is_capped = 0, True
    alias = conf.get().database
    with transaction.atomic(using=alias):
        operation = BulkOperation(
            action=found.name,
            filters=replace(filters, internal=None).as_json(),
            arguments=checked,
            before=_clock(),
            cap=cap,
            matched=matched,
            matched_is_capped=is_capped,
            reason=clean(reason, REASON_LENGTH),
            created_by=clean(by, audit.ACTOR_LENGTH),
            address=clean(audit.client_address.get(), audit.ADDRESS_LENGTH),
        )
        operation.audit_id = audit.record(
            f"bulk.{found.name}",
            actor=by,
            scope=in_audit(found, filters),
            object_id=str(operation.id),
            reason=reason,
            data={"cap": cap, "matched": matched, **checked},
        )
        operation.job_id = _enqueue(operation)
        operation.save(force_insert=True, using=alias)
        tell(operation)
    operation.refresh_from_db()
    return operation


def get(id: object) -> BulkOperation:
    """Raises NotFound, also for what cannot be an id."""
    return _find(id, lock=False)


def pause(id: object, *, by: str = "", reason: str = "") -> BulkOperation:
    """Stop after the batch in hand, until it is resumed. Pausing again does no harm."""
    with changing(id) as operation:
        if operation.status == "paused":
            return operation
        if operation.status not in ("pending", "running"):
            raise _conflict(operation, "it has ended")
        write(operation, status="paused")
        _audit("bulk.pause", operation, by, reason)
        tell(operation, by=by, reason=reason)
    return operation


def resume(id: object, *, by: str = "", reason: str = "") -> BulkOperation:
    """Go on behind the last batch. An operation that waits or runs is left as it is."""
    with changing(id) as operation:
        if operation.status in ("pending", "running"):
            return operation
        if operation.status != "paused":
            raise _conflict(operation, "it has ended")
        # A job of its own: the one before may still be on its way to see that it was paused.
        write(operation, status="pending", job_id=_enqueue(operation))
        _audit("bulk.resume", operation, by, reason)
        tell(operation, by=by, reason=reason)
    return operation


def abort(id: object, *, by: str = "", reason: str = "") -> BulkOperation:
    """End it after the batch in hand. What was changed stays changed."""
    with changing(id) as operation:
        if operation.status == "aborted":
            return operation
        if operation.status not in LIVE:
            raise _conflict(operation, "it has ended")
        write(operation, status="aborted", finished_at=Now())
        _audit("bulk.abort", operation, by, reason, changed=operation.changed)
        tell(operation, by=by, reason=reason)
    return operation


def as_json(operation: BulkOperation) -> dict[str, Any]:
    """All that there is to know, for the API, the command line and the console."""
    found = progress(operation)
    blocker = blocker_of(operation) if operation.status == "pending" else None
    return {
        "id": str(operation.id),
        "action": operation.action,
        "filters": operation.filters,
        "in_words": in_words(*_chosen(operation)),
        "arguments": operation.arguments,
        "before": operation.before.isoformat(),
        "cap": operation.cap,
        "status": operation.status,
        "waits_for": None if blocker is None else str(blocker.id),
        "matched": operation.matched,
        "matched_is_capped": operation.matched_is_capped,
        "changed": operation.changed,
        "skipped": operation.skipped,
        "skipped_reasons": operation.skipped_reasons,
        "failed": operation.failed,
        "failures": operation.failures,
        "error": operation.error,
        "share": None if found.share is None else round(found.share, 4),
        "per_second": found.per_second,
        "seconds_left": found.seconds_left,
        "reason": operation.reason,
        "created_by": operation.created_by,
        "job_id": None if operation.job_id is None else str(operation.job_id),
        "created_at": operation.created_at.isoformat(),
        "started_at": _time(operation.started_at),
        "updated_at": _time(operation.updated_at),
        "finished_at": _time(operation.finished_at),
    }


# For the job that works on it, too


@contextmanager
def changing(id: object) -> Iterator[BulkOperation]:
    """Hold the row of an operation, in a transaction."""
    with transaction.atomic(using=conf.get().database):
        yield _find(id, lock=True)


def write(operation: BulkOperation, **values: Any) -> None:
    """Change columns of a row that is held, and read back what the database made of them."""
    for name, value in {**values, "updated_at": Now()}.items():
        setattr(operation, name, value)
    operation.save(update_fields=[*values, "updated_at"], using=conf.get().database)
    operation.refresh_from_db(fields=[*values, "updated_at"])


def tell(operation: BulkOperation, **facts: Any) -> None:
    """Say after the commit how it stands."""
    known = {
        "id": str(operation.id),
        "action": operation.action,
        "status": operation.status,
        "matched": operation.matched,
        "matched_is_capped": operation.matched_is_capped,
        "changed": operation.changed,
        "skipped": operation.skipped,
        "failed": operation.failed,
        **{name: value for name, value in facts.items() if value != ""},
    }
    events.emit_on_commit("bulk.updated", **known)
    if operation.status != "running" or not operation.changed:
        transaction.on_commit(
            lambda: _log.info("bulk.updated", **known), using=conf.get().database, robust=True
        )


def _enqueue(operation: BulkOperation) -> uuid.UUID:
    job = enqueue(
        TYPE,
        {"operation": str(operation.id)},
        queue=OWN_QUEUE,
        priority=1,
        max_attempts=ATTEMPTS,
        metadata=INTERNAL,
    )
    return job.id


def _find(id: object, *, lock: bool) -> BulkOperation:
    operations = BulkOperation.objects.using(conf.get().database)
    try:
        wanted = uuid.UUID(str(getattr(id, "id", id)))
    except ValueError:
        raise NotFound("bulk operation", clean(str(id), 60)) from None
    if lock:
        operations = operations.select_for_update(no_key=True)
    found = operations.filter(id=wanted).first()
    if found is None:
        raise NotFound("bulk operation", wanted)
    return found


def _audit(
    action: str, operation: BulkOperation, by: str, reason: str, *, changed: int = 0
) -> None:
    audit.record(
        action,
        actor=by,
        scope=f"bulk {operation.action}: {in_audit(*_chosen(operation))}",
        object_id=str(operation.id),
        changed=changed,
        reason=reason,
    )


def _chosen(operation: BulkOperation) -> tuple[Action, Filters]:
    return find(operation.action), Filters.from_json(operation.filters)


def _conflict(operation: BulkOperation, why: str) -> Conflict:
    return Conflict(f"bulk operation {operation.id} is {operation.status}: {why}")


def _clock() -> Any:
    return DjangoDatabase().rows("SELECT clock_timestamp()", {})[0][0]


def _time(moment: Any) -> str | None:
    return None if moment is None else moment.isoformat()
