"""Workers as people see them: alive or not by the database's clock, and what they hold.

Who is dead is decided by observation elsewhere; here a person asks, and a beat that is older than
the time after which a worker is called dead is said to be stale.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from jobs import conf
from jobs.database import Database
from jobs.errors import InvalidInput, NotFound
from jobs.lifecycle.rows import canonical
from jobs.skew import ClockSkew
from jobs.texts import clean

JOBS_OF_EACH = 10
JOBS_OF_ONE = 200
CAP = 10_000

_STATE = """CASE WHEN w.state IN ('running', 'draining')
        AND w.beat_at <= clock_timestamp() - %(dead_after)s * interval '1 second'
    THEN 'stale' ELSE w.state END"""

COLUMNS = f"""
    w.id::text, w.name, w.host, w.pid, w.version, w.queues::text, w.concurrency, {_STATE},
    extract(epoch FROM clock_timestamp() - w.beat_at)::float8, w.beat_at, w.started_at,
    w.stop_requested_at, w.stopped_at, w.quiet_requested_at, w.quiet_at,
    w.clock_skew_seconds, w.clock_skew_uncertainty_seconds,
    (SELECT count(*) FROM (
        SELECT FROM jobs_job j WHERE j.status = 'processing' AND j.worker_id = w.id LIMIT {CAP}
    ) held)"""

LIST = f"""
SELECT {COLUMNS} FROM jobs_worker w
WHERE (%(state)s = '' OR {_STATE} = %(state)s)
    AND (%(host)s = '' OR w.host = %(host)s)
    AND (%(before)s::timestamptz IS NULL
        OR (w.started_at, w.id) < (%(before)s::timestamptz, %(before_id)s::uuid))
ORDER BY w.started_at DESC, w.id DESC LIMIT %(limit)s
"""

# There are as many as run; those that ended are deleted after the retention time.
LIVING = f"""
SELECT {COLUMNS} FROM jobs_worker w
WHERE w.state IN ('running', 'draining')
ORDER BY w.host, w.name, w.id LIMIT %(limit)s
"""

ENDED = f"""
SELECT {COLUMNS} FROM jobs_worker w
WHERE w.state IN ('stopped', 'dead')
ORDER BY coalesce(w.stopped_at, w.beat_at) DESC, w.id DESC LIMIT %(limit)s
"""

ONE = f"SELECT {COLUMNS}, w.types::text FROM jobs_worker w WHERE w.id = %(id)s::uuid"

NAMED = """
SELECT w.id::text, w.state IN ('running', 'draining') FROM jobs_worker w
WHERE w.name = %(text)s OR starts_with(w.id::text, %(begin)s)
ORDER BY 2 DESC, w.started_at DESC LIMIT 10
"""
_ID = re.compile(r"[0-9A-Fa-f-]{4,36}\Z")

HELD = """
SELECT w.id::text, j.id::text, j.type, j.queue, j.priority, j.attempt_count, j.started_at,
    extract(epoch FROM clock_timestamp() - j.started_at)::float8,
    j.cancel_requested_at IS NOT NULL
FROM unnest(%(ids)s::uuid[]) AS w (id) CROSS JOIN LATERAL (
    SELECT * FROM jobs_job j WHERE j.status = 'processing' AND j.worker_id = w.id
    LIMIT %(most)s
) j
ORDER BY w.id, j.started_at, j.id
"""


class WorkerState(StrEnum):
    RUNNING = "running"
    DRAINING = "draining"
    STALE = "stale"
    STOPPED = "stopped"
    DEAD = "dead"


@dataclass(frozen=True, kw_only=True)
class HeldJob:
    """A job that a worker has claimed: it runs, or will in a moment."""

    id: str
    type: str
    queue: str
    priority: int
    attempt: int
    started_at: datetime
    seconds: float
    cancelling: bool


@dataclass(frozen=True, kw_only=True)
class WorkerFacts:
    id: str
    name: str
    host: str
    pid: int
    version: str
    queues: list[str]
    """Empty: all."""
    concurrency: int
    state: WorkerState
    heartbeat_age_seconds: float
    beat_at: datetime
    started_at: datetime
    stop_requested_at: datetime | None
    stopped_at: datetime | None
    quiet_requested_at: datetime | None
    quiet_at: datetime | None
    """Since when it claims nothing, as it was asked to."""
    clock_skew_seconds: float | None
    """How far its machine's clock is ahead of the database's; None: not measured."""
    clock_skew_uncertainty_seconds: float | None
    held: int
    """Jobs that it has claimed, beyond its slots those that it will start next."""
    busy: int
    """Of its slots."""
    types: list[str] | None = None
    jobs: list[HeldJob] = field(default_factory=list)
    """The first of those that it holds."""

    @property
    def telling_skew(self) -> ClockSkew | None:
        """Its clock skew, if that is worth saying."""
        if self.clock_skew_seconds is None:
            return None
        found = ClockSkew(
            seconds=self.clock_skew_seconds,
            uncertainty_seconds=self.clock_skew_uncertainty_seconds or 0.0,
        )
        return found if found.is_telling else None


def listed(
    database: Database,
    *,
    state: str = "",
    host: str = "",
    before: tuple[datetime, UUID] | None = None,
    limit: int = 50,
) -> list[WorkerFacts]:
    """The incarnations of workers, those started last first."""
    params = {
        "state": state,
        "host": host,
        "before": before[0] if before else None,
        "before_id": str(before[1]) if before else None,
        "limit": limit,
        "dead_after": conf.get().dead_after_seconds,
    }
    rows = database.rows(LIST, params)
    jobs = _held(database, [row[0] for row in rows], JOBS_OF_EACH)
    return [_facts(row, jobs) for row in rows]


def living(
    database: Database, *, limit: int = 200, jobs_of_each: int = JOBS_OF_EACH
) -> list[WorkerFacts]:
    """Those that run, drain, or say so and are not heard of any more, by host and name."""
    params = {"limit": limit, "dead_after": conf.get().dead_after_seconds}
    rows = database.rows(LIVING, params)
    jobs = _held(database, [row[0] for row in rows], jobs_of_each)
    return [_facts(row, jobs) for row in rows]


def ended(database: Database, *, limit: int = 20) -> list[WorkerFacts]:
    """Those that stopped or died last."""
    params = {"limit": limit, "dead_after": conf.get().dead_after_seconds}
    return [_facts(row, {}) for row in database.rows(ENDED, params)]


def one(database: Database, id: object) -> WorkerFacts:
    """One incarnation, with the types that it knows. Raises NotFound."""
    known = canonical(id)
    params = {"id": known, "dead_after": conf.get().dead_after_seconds}
    rows = database.rows(ONE, params) if known else []
    if not rows:
        raise NotFound("worker", clean(str(id), 60))
    *row, types = rows[0]
    return _facts(row, _held(database, [known], JOBS_OF_ONE), types=_loaded(types))


def named(database: Database, text: str) -> str:
    """The id of the only worker with this name, or whose id is this or begins so.

    Of several with one name, the one that lives. Raises NotFound, and InvalidInput for several.
    """
    rows = database.rows(NAMED, {"text": text, "begin": _beginning(text)})
    living = [id for id, lives in rows if lives]
    found = living or [id for id, _ in rows]
    if not found:
        raise NotFound("worker", clean(text, 60))
    if len(found) > 1:
        raise InvalidInput("could be several workers: give an id", field="worker")
    return str(found[0])


def _beginning(text: str) -> str:
    """Of an id: a name has other characters, or matches none."""
    return text.lower() if _ID.match(text) else "-"


def _facts(
    row: Sequence[Any], jobs: dict[str, list[HeldJob]], types: list[str] | None = None
) -> WorkerFacts:
    (
        id, name, host, pid, version, queues, concurrency, state, age, beat_at, started_at,
        stop_requested_at, stopped_at, quiet_requested_at, quiet_at, skew, uncertainty, held,
    ) = row  # fmt: skip
    return WorkerFacts(
        id=id,
        name=name,
        host=host,
        pid=pid,
        version=version,
        queues=_loaded(queues),
        concurrency=concurrency,
        state=WorkerState(state),
        heartbeat_age_seconds=round(max(age, 0.0), 3),
        beat_at=beat_at,
        started_at=started_at,
        stop_requested_at=stop_requested_at,
        stopped_at=stopped_at,
        quiet_requested_at=quiet_requested_at,
        quiet_at=quiet_at,
        clock_skew_seconds=skew,
        clock_skew_uncertainty_seconds=uncertainty,
        held=held,
        busy=min(held, concurrency),
        types=types,
        jobs=jobs.get(id, []),
    )


def _held(database: Database, ids: list[str], most: int) -> dict[str, list[HeldJob]]:
    found: dict[str, list[HeldJob]] = {}
    if ids:
        for worker, *columns in database.rows(HELD, {"ids": ids, "most": most}):
            id, type, queue, priority, attempt, started_at, seconds, cancelling = columns
            found.setdefault(worker, []).append(
                HeldJob(
                    id=id,
                    type=type,
                    queue=queue,
                    priority=priority,
                    attempt=attempt,
                    started_at=started_at,
                    seconds=round(max(seconds, 0.0), 3),
                    cancelling=cancelling,
                )
            )
    return found


def _loaded(text: str) -> list[str]:
    found: list[str] = json.loads(text)
    return found
