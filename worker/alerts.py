"""What the leader tells people about: one warning and one event, not one per look."""

from __future__ import annotations

import time

import structlog

from jobs import edges, events
from jobs.conf import Settings
from jobs.database import Database
from jobs.insertion import wake
from jobs.states import Status
from jobs.telling import queues_to_wake, tell_released
from jobs.texts import fingerprint

log = structlog.get_logger("coppice.alerts")

REPEAT_SECONDS = 600.0
OVERDUE_SECONDS = 60.0
PAUSED_SECONDS = 3_600.0
AT_ONCE = 500

# Walks from one (queue, type) of the claim index to the next, and takes the earliest due time of
# each lane: a few descents per type, however many jobs wait.
UNKNOWN = """
WITH RECURSIVE kind AS (
    (SELECT queue, type FROM jobs_job
     WHERE status = 'pending' AND unmet_dependencies = 0 AND due_at IS NOT NULL
     ORDER BY queue, type LIMIT 1)
    UNION ALL
    SELECT following.queue, following.type FROM kind CROSS JOIN LATERAL (
        SELECT j.queue, j.type FROM jobs_job j
        WHERE j.status = 'pending' AND j.unmet_dependencies = 0 AND j.due_at IS NOT NULL
            AND (j.queue, j.type) > (kind.queue, kind.type)
        ORDER BY j.queue, j.type LIMIT 1
    ) following
), known AS MATERIALIZED (
    SELECT DISTINCT jsonb_array_elements_text(w.types) AS type FROM jobs_worker w
    WHERE w.state IN ('running', 'draining')
)
SELECT kind.queue, kind.type, extract(epoch FROM now() - min(lane.due_at))::float8
FROM kind
CROSS JOIN (VALUES (1), (2), (3)) AS p (priority)
CROSS JOIN LATERAL (
    SELECT j.due_at FROM jobs_job j
    WHERE j.queue = kind.queue AND j.type = kind.type AND j.priority = p.priority
        AND j.status = 'pending' AND j.unmet_dependencies = 0 AND j.due_at <= now()
    ORDER BY j.due_at, j.id LIMIT 1
) lane
WHERE kind.type NOT IN (SELECT known.type FROM known)
GROUP BY kind.queue, kind.type
"""

# Unspent: no attempt was made. SKIP LOCKED: a row that somebody changes right now waits its turn.
DEAD_LETTER = """
WITH picked AS MATERIALIZED (
    SELECT j.id FROM jobs_job j
    WHERE j.queue = %(queue)s AND j.type = %(type)s AND j.priority IN (1, 2, 3)
        AND j.status = 'pending' AND j.unmet_dependencies = 0
        AND j.due_at <= now() - %(seconds)s * interval '1 second'
        AND NOT EXISTS (
            SELECT FROM jobs_worker w
            WHERE w.state IN ('running', 'draining') AND jsonb_exists(w.types, %(type)s)
        )
    ORDER BY j.id LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED
), dead AS (
    UPDATE jobs_job j SET
        status = 'failed', failed_at = clock_timestamp(), updated_at = clock_timestamp(),
        next_retry_at = NULL, last_error = %(error)s, error_fingerprint = %(fingerprint)s
    FROM picked WHERE j.id = picked.id
    RETURNING j.id, j.failed_at, j.has_dependents
), logged AS (
    INSERT INTO jobs_joblog (job_id, at, event, from_status, to_status, level, message)
    SELECT id, failed_at, 'dead_lettered', 'pending', 'failed', 'error', %(error)s FROM dead
)
SELECT id::text, has_dependents FROM dead ORDER BY id
"""

DEAD_LETTERS = """
SELECT count(*) FROM (SELECT FROM jobs_job WHERE status = 'failed' LIMIT %(limit)s) dead
"""

OVERDUE = """
SELECT name, extract(epoch FROM now() - next_slot)::float8 FROM jobs_schedule
WHERE enabled AND next_slot < now() - %(seconds)s * interval '1 second'
ORDER BY next_slot LIMIT 20
"""

PAUSED = """
SELECT name, extract(epoch FROM now() - changed_at)::float8 FROM jobs_queue
WHERE paused AND paused_until IS NULL AND changed_at < now() - %(seconds)s * interval '1 second'
ORDER BY changed_at LIMIT 20
"""


class _Repeats:
    """Says a thing again only after a while."""

    def __init__(self) -> None:
        self._said: dict[str, float] = {}

    def may_say(self, key: str, now: float) -> bool:
        self._said = {k: at for k, at in self._said.items() if now - at < REPEAT_SECONDS}
        if key in self._said:
            return False
        self._said[key] = now
        return True


class UnknownTypes:
    """Due jobs whose type no live worker knows: a missing deployment, or a misspelt type."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self.database = database
        self.settings = settings
        self._since: dict[tuple[str, str], float] = {}
        self._repeats = _Repeats()

    def step(self) -> bool:
        now = time.monotonic()
        rows = self.database.rows(UNKNOWN, {})
        # Watched by this leader, too: while all workers of a type restart, old jobs are no alarm.
        self._since = {(q, t): self._since.get((q, t), now) for q, t, _ in rows}
        alert_after = self.settings.unknown_type_alert_seconds
        for queue, type, waiting in rows:
            watched = now - self._since[queue, type]
            if watched < alert_after or waiting < alert_after:
                continue
            if self._repeats.may_say(type, now):
                log.warning("type.unknown", type=type, queue=queue, waiting=round(waiting))
                events.emit("type.unknown", type=type, queue=queue, waiting_seconds=round(waiting))
        return self._dead_letter(now, rows)

    def _dead_letter(self, now: float, rows: list[tuple[str, str, float]]) -> bool:
        after = self.settings.unknown_type_after
        if after <= 0:
            return False
        more = False
        watch_for = min(after, self.settings.unknown_type_alert_seconds)
        for queue, type, waiting in rows:
            if waiting >= after and now - self._since[queue, type] >= watch_for:
                more |= dead_letter_unknown(self.database, queue, type, after) >= AT_ONCE
        return more


def dead_letter_unknown(database: Database, queue: str, type: str, after: float) -> int:
    """Dead-letter one batch of due jobs of a type that no live worker knows; returns how many."""
    error = f"no worker knows the type {type!r}"
    params = {
        "queue": queue,
        "type": type,
        "seconds": after,
        "limit": AT_ONCE,
        "error": error,
        "fingerprint": fingerprint("UnknownType", error),
    }
    with database.transaction():
        dead = database.rows(DEAD_LETTER, params)
        parents = [(id, Status.FAILED.value) for id, has_dependents in dead if has_dependents]
        released = edges.close(database, parents) if parents else []
    for id, _ in dead:
        log.error(
            "job.dead_lettered",
            job_id=id,
            type=type,
            queue=queue,
            from_status="pending",
            to_status="failed",
            error=error,
        )
        for name in events.PUBLIC_NAMES["dead_lettered"]:
            events.emit(name, job_id=id, type=type, queue=queue, error=error, status="failed")
    tell_released(released)
    wake(database, queues_to_wake(released))
    return len(dead)


class DeadLetters:
    """The dead-letter queue has grown to the number that a setting names."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self.database = database
        self.limit = settings.dead_letter_alert
        self._is_above = False

    def step(self) -> bool:
        if self.limit < 1:
            return False
        count = self.database.rows(DEAD_LETTERS, {"limit": self.limit})[0][0]
        was_above, self._is_above = self._is_above, count >= self.limit
        if self._is_above and not was_above:
            log.warning("alert.dead_letters", at_least=count)
            events.emit("alert.dead_letters", at_least=count)
        return False


class OverdueSchedules:
    """Schedules whose slot passed a while ago, although somebody is here to tick."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._repeats = _Repeats()

    def step(self) -> bool:
        now = time.monotonic()
        for name, late in self.database.rows(OVERDUE, {"seconds": OVERDUE_SECONDS}):
            if self._repeats.may_say(name, now):
                log.warning("alert.schedule_overdue", schedule=name, late=round(late))
                events.emit("alert.schedule_overdue", schedule=name, late_seconds=round(late))
        return False


class PausedQueues:
    """Queues that were paused long ago without an end, and perhaps forgotten."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._repeats = _Repeats()

    def step(self) -> bool:
        now = time.monotonic()
        for name, seconds in self.database.rows(PAUSED, {"seconds": PAUSED_SECONDS}):
            if self._repeats.may_say(name, now):
                log.warning("alert.queue_paused", queue=name, paused=round(seconds))
                events.emit("alert.queue_paused", queue=name, paused_seconds=round(seconds))
        return False
