"""Lock the jobs of an action, log what was done to them, and tell it after the commit."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

import structlog
from django.db import DatabaseError, connections, transaction

from jobs import audit, edges, events
from jobs.database import DjangoDatabase, cause, is_transient
from jobs.errors import Conflict, NotFound
from jobs.insertion import wake
from jobs.telling import tell_released
from jobs.texts import clean

REASON_LENGTH = 1_000
ACTOR_LENGTH = 150
CHUNK = 500
"""Jobs per transaction when many are asked for."""

# Everything an action decides on, as it stands once the lock is held. The order of the locks is
# that of every other multi-row write, so nobody waits in a circle.
LOCK = """
SELECT id::text, type, queue, status, priority, scheduled_at, due_at IS NULL, unmet_dependencies,
    unique_key, has_dependents, cancel_requested_at IS NOT NULL
FROM jobs_job WHERE id = ANY(%(ids)s::uuid[]) ORDER BY id FOR NO KEY UPDATE
"""

LOG = """
INSERT INTO jobs_joblog (job_id, at, event, from_status, to_status, message, data)
SELECT l.id, clock_timestamp(), %(event)s, %(source)s, %(target)s, %(message)s, %(data)s::jsonb
FROM unnest(%(ids)s::uuid[]) AS l (id)
"""

_log = structlog.get_logger("coppice.lifecycle")


@dataclass(frozen=True, slots=True)
class Row:
    """A job under lock."""

    id: str
    type: str
    queue: str
    status: str
    priority: int
    scheduled_at: datetime
    is_held: bool
    unmet_dependencies: int
    unique_key: str | None
    has_dependents: bool
    cancel_requested: bool


class Act:
    """One action in its transaction: who does it, and what to tell when it is committed."""

    def __init__(self, database: DjangoDatabase, by: str, reason: str = "") -> None:
        self.database = database
        self.by = clean(by, ACTOR_LENGTH)
        self.reason = clean(reason, REASON_LENGTH)
        self.wake: set[str] = set()
        """Queues that now hold due work."""

    def lock(self, ids: Iterable[str]) -> dict[str, Row]:
        rows = self.database.rows(LOCK, {"ids": list(ids)})
        return {row[0]: Row(*row) for row in rows}

    def lock_one(self, job_id: object) -> Row:
        """The job under lock. Raises NotFound, also for what cannot be an id."""
        id = canonical(job_id)
        row = self.lock([id]).get(id) if id else None
        if row is None:
            raise NotFound("job", clean(str(job_id), 60))
        return row

    def log(
        self,
        rows: Sequence[Row],
        event: str,
        *,
        source: str = "",
        target: str = "",
        message: str = "",
        **facts: Any,
    ) -> None:
        """Write a log row for each, and tell each after the commit. Facts hold no payload."""
        if not rows:
            return
        data = {key: value for key, value in {"by": self.by, **facts}.items() if value != ""}
        self.database.run(
            LOG,
            {
                "ids": [row.id for row in rows],
                "event": event,
                "source": source,
                "target": target,
                "message": self._sentence(message),
                "data": json.dumps(data) if data else None,
            },
        )
        self.tell(rows, event, **facts)

    def tell(self, rows: Sequence[Row], event: str, **facts: Any) -> None:
        names = events.PUBLIC_NAMES.get(event, (f"job.{event}",))
        told = {"by": self.by, **facts} if self.by else facts
        for name in names:
            events.emit_jobs_on_commit(name, rows, **told)
        self.after(partial(_write_lines, event, rows, told))

    def follow(self, released: Sequence[edges.Released]) -> list[str]:
        """Tell what became of dependents; returns the ids of those that were cancelled with it."""
        for one in released:
            if one.event == "released" and one.is_due:
                self.wake.add(one.queue)
        self.after(partial(tell_released, released))
        return [one.job_id for one in released if one.event == "cancelled"]

    def audit(self, action: str, *, scope: str, object_id: str = "", **known: Any) -> None:
        """Write the audit's entry about this action; `known`: its `changed` and `data`."""
        audit.record(
            action,
            actor=self.by,
            scope=scope,
            object_id=object_id,
            reason=self.reason,
            **{"changed": 1, **known},
        )

    def audit_one(self, action: str, row: Row, **known: Any) -> None:
        """The same about one job."""
        self.audit(action, scope=f"job {row.id} ({row.type})", object_id=row.id, **known)

    def audit_many(
        self, action: str, ids: list[str], *, data: Mapping[str, Any] | None = None
    ) -> None:
        """The same about many that changed; nothing if none did."""
        if ids:
            scope = f"job {ids[0]}" if len(ids) == 1 else "chosen jobs"
            known = {**audit.listed(ids), **(data or {})}
            self.audit(action, scope=scope, changed=len(ids), data=known)

    def _sentence(self, message: str) -> str:
        texts = [f"by {self.by}" if self.by else "", message, self.reason]
        return clean(": ".join(text for text in texts if text), REASON_LENGTH)

    def after(self, call: Callable[[], None]) -> None:
        transaction.on_commit(call, using=self.database.alias, robust=True)


def perform[T](work: Callable[[Act], T], *, by: str, reason: str = "") -> T:
    """Run one action in a transaction (or a savepoint of the caller's) and wake idle workers.

    A deadlock or a lock that timed out undoes it all; it is then tried again, unless the caller's
    own transaction is lost with it.
    """
    database = DjangoDatabase()
    tries = 1 if connections[database.alias].in_atomic_block else 3
    while True:
        tries -= 1
        act = Act(database, by, reason)
        try:
            with database.transaction():
                answer = work(act)
                if act.wake:
                    wake(database, sorted(act.wake))
                return answer
        except DatabaseError as error:
            if not tries or not is_transient(cause(error)):
                raise


def canonical(job_id: object) -> str:
    """The id as the database writes it; empty for what is no id and so cannot exist."""
    try:
        return str(uuid.UUID(str(getattr(job_id, "id", job_id))))
    except ValueError:
        return ""


def in_chunks(ids: Iterable[object]) -> Iterable[list[tuple[str, str]]]:
    """(id as asked for, id as stored) in pieces, without repeats."""
    wanted = {canonical(job_id) or str(job_id): str(job_id) for job_id in ids}
    pairs = [(asked, canonical(stored)) for stored, asked in wanted.items()]
    for start in range(0, len(pairs), CHUNK):
        yield pairs[start : start + CHUNK]


def conflict(row: Row, needs: str) -> Conflict:
    return Conflict(f"job {row.id} is {standing(row)}: {needs}")


def standing(row: Row) -> str:
    """How the job stands, in a word for people."""
    if row.status == "failed":
        return "dead-lettered"
    if row.status != "pending":
        return row.status
    if row.unmet_dependencies:
        return "blocked"
    return "held" if row.is_held else "pending"


def _write_lines(event: str, rows: Sequence[Row], facts: dict[str, Any]) -> None:
    for row in rows:
        _log.info(f"job.{event}", job_id=row.id, type=row.type, queue=row.queue, **facts)
