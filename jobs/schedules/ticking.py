"""Make the jobs of due slots. Any number of processes may do it at once, each as often as it likes.

What must always be true:
1. A slot (schedule and nominal time) becomes one job at most: the unique constraint sees to it,
   even where somebody has set `next_slot` back.
2. `next_slot` only grows, in the transaction that inserts the jobs. So a slot is decided about
   once, also when retention has deleted its job, and a crash leaves both or neither.
3. A schedule that another process is deciding about is passed over, not waited for.
4. Whether the last job is live is read after the schedule is locked: before, the answer could be
   older than the row.
5. One bad schedule says so in `last_error`, misses its slots and goes on; the others do not notice.
   Only what is wrong with its values is held against it: no slot is missed for a lock or a deadlock.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import structlog
from django import db

from jobs import events, registry
from jobs.database import Database, DjangoDatabase, cause, is_away, is_refusal
from jobs.drafts import validate_payload
from jobs.ids import new_id
from jobs.insertion import wake
from jobs.schedules.deciding import Due, Plan, decide, refuse
from jobs.texts import clean, describe_error

# The last condition keeps schedules that wait for their turn from filling the answer.
LOCK_DUE = """
SELECT s.id::text, s.name, s.type, s.queue, s.interval_seconds, s.anchor_at, s.cron,
    s.time_zone, s.misfire, s.allow_overlap, s.next_slot, s.last_job_id::text,
    coalesce(%(now)s::timestamptz, statement_timestamp())
FROM jobs_schedule s
WHERE s.enabled AND s.next_slot <= coalesce(%(now)s::timestamptz, statement_timestamp())
    AND (%(ids)s::uuid[] IS NULL OR s.id = ANY(%(ids)s::uuid[]))
    AND (s.misfire <> 'each' OR s.allow_overlap OR NOT EXISTS (
        SELECT FROM jobs_job j WHERE j.id = s.last_job_id AND j.status IN ('pending', 'processing')
    ))
ORDER BY s.next_slot, s.id LIMIT %(limit)s
FOR NO KEY UPDATE OF s SKIP LOCKED
"""

LIVE = """
SELECT id::text FROM jobs_job
WHERE id = ANY(%(ids)s::uuid[]) AND status IN ('pending', 'processing')
"""

# Only for handlers that check it, and one at a time: a hundred payloads can be a hundred megabytes.
PAYLOAD = "SELECT payload::text FROM jobs_schedule WHERE id = %(id)s::uuid"

# The payload goes from row to row, without passing through Python.
INSERT = """
INSERT INTO jobs_job (id, type, queue, payload, metadata, priority, max_attempts,
    on_parent_failure, scheduled_at, due_at, schedule_id, schedule_slot)
SELECT f.id, s.type, s.queue, s.payload, s.metadata, s.priority, s.max_attempts,
    s.on_parent_failure, coalesce(f.slot, statement_timestamp()),
    coalesce(f.slot, statement_timestamp()), s.id, f.slot
FROM unnest(%(ids)s::uuid[], %(schedules)s::uuid[], %(slots)s::timestamptz[])
    AS f (id, schedule_id, slot)
JOIN jobs_schedule s ON s.id = f.schedule_id
ORDER BY f.schedule_id, f.slot
ON CONFLICT DO NOTHING
RETURNING id::text, type, queue, schedule_id::text, schedule_slot
"""

ADVANCE = """
UPDATE jobs_schedule s SET
    next_slot = greatest(s.next_slot, p.next_slot),
    last_slot = greatest(s.last_slot, p.last_slot),
    last_job_id = coalesce(p.last_job_id, s.last_job_id),
    missed_count = s.missed_count + p.missed,
    last_error = p.error,
    updated_at = clock_timestamp()
FROM jsonb_to_recordset(%(plans)s::jsonb) AS p (
    id uuid, next_slot timestamptz, last_slot timestamptz, last_job_id uuid, missed bigint,
    error text
)
WHERE s.id = p.id
"""

DUE_IDS = """
SELECT id::text FROM jobs_schedule
WHERE enabled AND next_slot <= coalesce(%(now)s::timestamptz, statement_timestamp())
ORDER BY next_slot, id LIMIT %(limit)s
"""

BATCH = 100
PAUSE_SECONDS = 10.0
ERROR_LENGTH = 1_000

_log = structlog.get_logger("coppice.schedules")


@dataclass(frozen=True, kw_only=True)
class Fired:
    """A job that a slot was given; `slot` is None for an extra job outside the grid."""

    id: str
    type: str
    queue: str
    schedule_id: str
    slot: datetime | None


def tick(database: Database, *, limit: int = 1_000, now: datetime | None = None) -> list[Fired]:
    """Decide about the due slots of at most `limit` schedules; the jobs made, in no special order.

    Meant to be called each second. `now` is for tests: without it the database's clock decides.
    Raises what the database says that is no schedule's fault; what is committed by then stays.
    """
    if not isinstance(database, DjangoDatabase):
        # A payload serializer may use Django's connection of this thread: not a broken one.
        db.close_old_connections()
    fired: list[Fired] = []
    while limit > 0:
        size = min(limit, BATCH)
        try:
            decided, jobs = _decide_batch(database, now=now, limit=size)
        except Exception as error:
            if not _is_its_own_fault(error):
                raise
            decided, jobs = _decide_singly(database, now=now, limit=size)
        fired += jobs
        limit -= size
        if decided < size:
            break
    return fired


def insert(database: Database, slots: Sequence[tuple[str, datetime | None]]) -> list[Fired]:
    """Insert a job for each (schedule id, slot) that has none yet, in the caller's transaction."""
    params = {
        "ids": [new_id() for _ in slots],
        "schedules": [schedule_id for schedule_id, _ in slots],
        "slots": [slot for _, slot in slots],
    }
    return [
        Fired(id=id, type=type, queue=queue, schedule_id=schedule_id, slot=_utc(slot))
        for id, type, queue, schedule_id, slot in database.rows(INSERT, params)
    ]


def announce(database: Database, fired: Sequence[Fired]) -> None:
    """Tell and wake: after the commit, or by it where the caller's transaction is still open."""
    if not fired:
        return
    emit = events.emit_on_commit if isinstance(database, DjangoDatabase) else events.emit
    for job in fired:
        slot = None if job.slot is None else job.slot.isoformat()
        emit(
            "job.created",
            job_id=job.id,
            type=job.type,
            queue=job.queue,
            schedule_id=job.schedule_id,
            slot=slot,
        )
        _log.info(
            "job.created", job_id=job.id, type=job.type, schedule_id=job.schedule_id, slot=slot
        )
    wake(database, {job.queue for job in fired})


def _is_its_own_fault(error: Exception) -> bool:
    below = cause(error)
    return is_refusal(below) and not is_away(below)


def _decide_batch(
    database: Database,
    *,
    now: datetime | None,
    limit: int,
    ids: list[str] | None = None,
    refused: str = "",
) -> tuple[int, list[Fired]]:
    """One transaction. How many schedules have come further, and the jobs made.

    `refused`: why these cannot fire, as an attempt has shown.
    """
    with database.transaction():
        rows = database.rows(LOCK_DUE, {"now": now, "limit": limit, "ids": ids})
        if not rows:
            return 0, []
        moment = rows[0][-1].astimezone(UTC)
        locked = [_due(row) for row in rows]
        live = _live(database, locked)
        plans = {
            due.id: refuse(due, refused, now=moment)
            if refused
            else _plan(database, due, moment, is_live=due.last_job_id in live)
            for due in locked
        }
        slots = [(due.id, slot) for due in locked for slot in plans[due.id].fire]
        fired = insert(database, slots) if slots else []
        database.run(ADVANCE, {"plans": json.dumps(_columns(plans, fired))})
    announce(database, fired)
    _report(database, locked, plans)
    return sum(plans[due.id].next_slot > due.next_slot for due in locked), fired


def _decide_singly(
    database: Database, *, now: datetime | None, limit: int
) -> tuple[int, list[Fired]]:
    """The batch failed: each schedule in its own transaction, so that only the bad one pays."""
    fired: list[Fired] = []
    ids = [row[0] for row in database.rows(DUE_IDS, {"now": now, "limit": limit})]
    for id in ids:
        try:
            fired += _decide_batch(database, now=now, limit=1, ids=[id])[1]
        except Exception as error:
            if not _is_its_own_fault(error):
                raise
            _cannot_fire(id, error)
            _decide_batch(database, now=now, limit=1, ids=[id], refused=_described(error))
    return len(ids), fired


def _due(row: tuple[Any, ...]) -> Due:
    return Due(
        id=row[0],
        name=row[1],
        type=row[2],
        queue=row[3],
        interval_seconds=row[4],
        # Sums of times in the session's zone would be sums of wall time.
        anchor_at=row[5].astimezone(UTC),
        cron=row[6],
        time_zone=row[7],
        misfire=row[8],
        allow_overlap=row[9],
        next_slot=row[10].astimezone(UTC),
        last_job_id=row[11],
    )


def _live(database: Database, locked: Sequence[Due]) -> set[str]:
    ids = [due.last_job_id for due in locked if due.last_job_id and not due.allow_overlap]
    return {row[0] for row in database.rows(LIVE, {"ids": ids})} if ids else set()


def _plan(database: Database, due: Due, now: datetime, *, is_live: bool) -> Plan:
    try:
        plan = decide(due, now=now, is_live=is_live)
        if plan.fire and _is_checked(due):
            if time.monotonic() < _pause.until:
                return Plan(next_slot=due.next_slot, error=_pause.reason)
            _check_payload(database, due)
    except Exception as error:  # noqa: BLE001 - whatever a serializer or a time zone comes up with
        _cannot_fire(due.id, error)
        if not _is_its_own_fault(error):
            _pause.begin(_described(error))
            return Plan(next_slot=due.next_slot, error=_pause.reason)
        return refuse(due, _described(error), now=now)
    return plan


@dataclass
class _Pause:
    """While what serializers ask does not answer, schedules with one wait: asking may take long."""

    until: float = 0.0
    reason: str = ""

    def begin(self, reason: str) -> None:
        self.until, self.reason = time.monotonic() + PAUSE_SECONDS, reason


_pause = _Pause()


def _is_checked(due: Due) -> bool:
    """Not where the type is unknown: that is no fault, the job waits until a worker knows it."""
    handler = registry.find(due.type)
    return handler is not None and handler.payload is not None


def _check_payload(database: Database, due: Due) -> None:
    """Raise when the handler no longer takes the payload."""
    payload = json.loads(database.rows(PAYLOAD, {"id": due.id})[0][0])
    validate_payload(registry.get(due.type), payload)


def _described(error: Exception) -> str:
    """One line: the database's second one shows the row, with the payload in it."""
    return clean(describe_error(error).partition("\n")[0], ERROR_LENGTH)


def _cannot_fire(schedule_id: str, error: Exception) -> None:
    # Not its text, which may quote a value of the payload; `last_error` has it.
    _log.warning("schedule.cannot_fire", schedule_id=schedule_id, error=type(error).__name__)


def _columns(plans: dict[str, Plan], fired: Sequence[Fired]) -> list[dict[str, Any]]:
    last: dict[str, Fired] = {}
    for job in fired:
        known = last.get(job.schedule_id)
        if job.slot and (known is None or (known.slot and job.slot > known.slot)):
            last[job.schedule_id] = job
    return [
        {
            "id": id,
            "next_slot": plan.next_slot.isoformat(),
            "last_slot": plan.fire[-1].isoformat() if plan.fire else None,
            "last_job_id": last[id].id if id in last else None,
            "missed": plan.missed,
            "error": plan.error,
        }
        for id, plan in plans.items()
    ]


def _report(database: Database, locked: Sequence[Due], plans: dict[str, Plan]) -> None:
    emit = events.emit_on_commit if isinstance(database, DjangoDatabase) else events.emit
    for due in locked:
        plan = plans[due.id]
        if plan.missed:
            facts = {
                "schedule_id": due.id,
                "schedule": due.name,
                "late": plan.late,
                "overlapped": plan.overlapped,
                "refused": plan.refused,
                "next_slot": plan.next_slot.isoformat(),
            }
            # Overlap is what was asked for; the other reasons are not.
            log = _log.info if plan.missed == plan.overlapped else _log.warning
            log("schedule.missed", **facts)
            emit("schedule.missed", type=due.type, queue=due.queue, **facts)


def _utc(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.astimezone(UTC)
