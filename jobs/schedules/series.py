"""The schedule behind `enqueue(..., recur_interval=)` and `enqueue(..., cron=)`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from jobs.database import Database
from jobs.errors import InvalidInput
from jobs.ids import new_id
from jobs.schedules.deciding import first_slot
from jobs.timing import parse_rule

_BEGINNING = datetime.min.replace(tzinfo=UTC)

INSERT = """
INSERT INTO jobs_schedule (id, name, type, queue, payload, metadata, priority, max_attempts,
    on_parent_failure, recur_interval, interval_seconds, cron, time_zone, anchor_at, misfire,
    allow_overlap, enabled, last_slot, next_slot, last_job_id)
VALUES (%(id)s::uuid, %(name)s, %(type)s, %(queue)s, %(payload)s::jsonb, %(metadata)s::jsonb,
    %(priority)s, %(max_attempts)s, %(on_parent_failure)s, %(recur_interval)s,
    %(interval_seconds)s, %(cron)s, %(time_zone)s, %(anchor_at)s, 'once', false, true,
    %(last_slot)s, %(next_slot)s, %(last_job_id)s::uuid)
"""


@dataclass(frozen=True, kw_only=True)
class FirstSlot:
    """Which schedule the job belongs to, and the slot that it takes: its `scheduled_at`."""

    schedule_id: str
    slot: datetime


def create_for_job(
    database: Database,
    *,
    job_id: str,
    type: str,
    payload_text: str,
    metadata_text: str,
    queue: str,
    priority: int,
    max_attempts: int,
    on_parent_failure: str,
    recur_interval: str | None,
    cron: str | None,
    time_zone: str | None,
    first_at: datetime | None,
) -> FirstSlot:
    """Make the schedule of a job that is being enqueued; inside the caller's transaction.

    The job takes the first slot that is not before `first_at`, or not before now: with an interval
    that very moment, with cron the next matching one. The second slot is the first one still to
    come, so slots that were past before anybody asked are not missed. Raises InvalidInput for a
    bad rule.
    """
    now = database.rows("SELECT statement_timestamp()", {})[0][0].astimezone(UTC)
    anchor = now if first_at is None else first_at
    rule = parse_rule(recur_interval, cron, time_zone, anchor=anchor)
    if rule is None:
        raise InvalidInput("give recur_interval or cron", field="recur_interval")
    slot = first_slot(rule, anchor=anchor, after=_BEGINNING)
    row: dict[str, Any] = {
        "id": new_id(),
        "name": f"{type} as job {job_id}",
        "type": type,
        "queue": queue,
        "payload": payload_text,
        "metadata": metadata_text,
        "priority": priority,
        "max_attempts": max_attempts,
        "on_parent_failure": on_parent_failure,
        "anchor_at": anchor,
        **rule.to_columns(),
        "recur_interval": recur_interval or "",
        "last_slot": slot,
        "next_slot": rule.next_after(max(slot, now)),
        "last_job_id": job_id,
    }
    database.run(INSERT, row)
    return FirstSlot(schedule_id=row["id"], slot=slot)
