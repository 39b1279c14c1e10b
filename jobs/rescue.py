"""Take back the jobs of workers that are dead: declared so by observation, or seen to die.

What must always be true:
1. A worker's row is marked first, and only as it was seen: a beat that moved meanwhile, or another
   rescuer, makes the mark miss. What a crash leaves after the mark is found as orphans.
2. Each job is ended through `complete`, fenced by (id, lease_epoch): one that its worker ended
   meanwhile, or that has been taken over, is left alone.
3. Whose attempt is spent is decided from the table that the dead process shared with its
   supervisor. Without it (the supervisor died too) every attempt is spent, since a job that kills
   its worker must end in the dead-letter queue.
4. A job that was asked to be cancelled ends cancelled, however it is taken back (`complete`).
5. A row that somebody keeps locked holds up its own job alone: nobody waits for it until all others
   are taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import batched
from typing import Protocol

import structlog

from jobs import conf, events, registry
from jobs.claimed import Claimed
from jobs.complete import Written, complete_here
from jobs.database import Database, cause, is_away, is_blocked
from jobs.endings import Ending
from jobs.events import PUBLIC_NAMES, Event
from jobs.insertion import wake
from jobs.outcomes import Run, decide_lost, decide_timed_out, hand_back
from jobs.states import Status
from jobs.telling import queues_to_wake, tell_released

log = structlog.get_logger("coppice.rescue")

CHUNK = 500
HANDED_BACK = "its worker stopped before the job had started"
GIVEN_UP = "its worker had to stop before the job had ended"

# Only if nothing has moved since it was observed; of several rescuers one gets a row.
MARK = """
UPDATE jobs_worker SET state = %(state)s, stopped_at = now(), waiting = false
WHERE id = %(worker)s::uuid AND state IN ('running', 'draining')
    AND (%(beats)s::bigint IS NULL OR beats = %(beats)s::bigint)
RETURNING name
"""

HELD = """
SELECT id::text FROM jobs_job WHERE status = 'processing' AND worker_id = %(worker)s::uuid
ORDER BY id
"""

TAKE = """
SELECT id::text, type, queue, '' AS payload, priority,
    coalesce(extract(epoch FROM due_at), 0)::float8, attempt_count, max_attempts, lease_epoch,
    lost_count, wait_count, extract(epoch FROM started_at)::float8,
    greatest(0, extract(epoch FROM clock_timestamp() - started_at))::float8
FROM jobs_job
WHERE id = ANY(%(ids)s::uuid[]) AND status = 'processing' AND worker_id = %(worker)s::uuid
ORDER BY id FOR NO KEY UPDATE
"""
TAKE_FREE = f"{TAKE} SKIP LOCKED"

# Walks from owner to owner in the index of processing jobs: one descent for each, not one per job.
ORPHANS = """
WITH RECURSIVE owner AS (
    (SELECT worker_id FROM jobs_job WHERE status = 'processing' ORDER BY worker_id LIMIT 1)
    UNION ALL
    SELECT following.worker_id FROM owner CROSS JOIN LATERAL (
        SELECT j.worker_id FROM jobs_job j
        WHERE j.status = 'processing' AND j.worker_id > owner.worker_id
        ORDER BY j.worker_id LIMIT 1
    ) following
)
SELECT owner.worker_id::text FROM owner
WHERE NOT EXISTS (
    SELECT FROM jobs_worker w
    WHERE w.id = owner.worker_id AND w.state IN ('running', 'draining')
)
"""


class HeldJob(Protocol):
    """What a dead worker's shared memory says of one job."""

    @property
    def job_id(self) -> str: ...
    @property
    def lease_epoch(self) -> int: ...
    @property
    def started(self) -> bool: ...
    @property
    def deadline(self) -> float:
        """By the clock of `overdue_at`; 0: none."""
        ...


def rescue_worker(database: Database, worker_id: str, reason: str, *, beats: int) -> list[Written]:
    """Declare a worker dead that was observed to be, and take back all that it held.

    Does nothing unless its beats are still what was observed.
    """
    marked = database.rows(MARK, {"worker": worker_id, "state": "dead", "beats": beats})
    if not marked:
        return []
    _say_lost(worker_id, marked[0][0], reason)
    return rescue_orphans(database, worker_id, reason)


def each_of[T](dead: Iterable[T], rescue: Callable[[T], object]) -> None:
    """Rescue each, though others cannot be rescued now; raises what the last of those met."""
    trouble: Exception | None = None
    for one in dead:
        try:
            rescue(one)
        except Exception as error:
            if is_away(cause(error)):
                raise
            trouble = error
    if trouble is not None:
        raise trouble


def find_orphans(database: Database) -> list[str]:
    """Ids of workers that own processing jobs but have no live row."""
    return [row[0] for row in database.rows(ORPHANS, {})]


def rescue_orphans(database: Database, worker_id: str, reason: str) -> list[Written]:
    """Take back what a worker holds whose row is marked already, or gone."""
    message = f"its worker was lost: {reason}"
    return _end_all(database, worker_id, lambda job, ran: decide_lost(job, message, ran=ran))


def release_child(
    database: Database,
    worker_id: str,
    held: Iterable[HeldJob],
    *,
    reason: str,
    ended_well: bool = False,
    is_forced: bool = False,
    overdue_at: float | None = None,
) -> list[Written]:
    """Take back what a child held whose death its supervisor has seen.

    `held` is its table, read after the death. A job that had not started is handed back unspent; a
    started one is lost. `is_forced`: told to give up its jobs, so started ones are handed back too.
    `overdue_at`: killed at that moment for hanging, so jobs past their deadline have timed out.
    """
    state = "stopped" if ended_well else "dead"
    marked = database.rows(MARK, {"worker": worker_id, "state": state, "beats": None})
    if marked and not ended_well:
        _say_lost(worker_id, marked[0][0], reason)
    by_lease = {(entry.job_id, entry.lease_epoch): entry for entry in held}

    def decide(job: Claimed, ran: float) -> Ending:
        entry = by_lease.get((job.id, job.lease_epoch))
        if entry is None or not entry.started:
            return hand_back(job, HANDED_BACK)
        if overdue_at is not None and 0 < entry.deadline < overdue_at:
            return _timed_out(job, ran, reason)
        if is_forced:
            return hand_back(job, GIVEN_UP, run=Run(wait=0.0, run=ran))
        return decide_lost(job, f"its worker process died: {reason}", ran=ran)

    return _end_all(database, worker_id, decide)


def _timed_out(job: Claimed, ran: float, reason: str) -> Ending:
    handler = registry.find(job.type)
    seconds = handler.timeout if handler is not None else None
    return decide_timed_out(
        job,
        seconds or conf.get().timeout_seconds,
        Run(wait=0.0, run=ran),
        handler,
        f"the attempt passed its deadline and could not be stopped ({reason})",
    )


def _end_all(
    database: Database, worker_id: str, decide: Callable[[Claimed, float], Ending]
) -> list[Written]:
    """End a dead worker's jobs, chunk by chunk, each in a transaction of its own.

    Raises what the database says of those that are locked still when all others are written.
    """
    batches: list[Written] = []
    chunks = [list(chunk) for chunk in batched(_held(database, worker_id), CHUNK)]
    while chunks:
        chunk = chunks.pop(0)
        try:
            batches.append(_end(database, worker_id, chunk, decide, TAKE_FREE))
        except Exception as error:
            if not is_blocked(cause(error)):
                raise
            # Somebody holds a dependent of one of them.
            middle = len(chunk) // 2
            chunks[:0] = [half for half in (chunk[:middle], chunk[middle:]) if middle]
    left = _held(database, worker_id)
    if left:
        batches.append(_end(database, worker_id, left[:CHUNK], decide, TAKE))
    return [written for written in batches if written.ended]


def _held(database: Database, worker_id: str) -> list[str]:
    return [row[0] for row in database.rows(HELD, {"worker": worker_id})]


def _end(
    database: Database,
    worker_id: str,
    ids: list[str],
    decide: Callable[[Claimed, float], Ending],
    take: str,
) -> Written:
    with database.transaction():
        rows = database.rows(take, {"ids": ids, "worker": worker_id})
        endings = [decide(Claimed(*row[:-1]), row[-1]) for row in rows]
        written = complete_here(database, worker_id=worker_id, endings=endings)
    _tell(database, worker_id, written)
    return written


def _tell(database: Database, worker_id: str, written: Written) -> None:
    for ended in written.ended:
        name = f"job.{ended.event}"
        log.info(
            name,
            job_id=ended.job.id,
            type=ended.job.type,
            queue=ended.job.queue,
            from_status="processing",
            to_status=ended.status,
            attempt=ended.number,
            worker_id=worker_id,
            error=ended.error[:300],
        )
    tell_released(written.released)
    events.emit_many(events_of(written))
    queues = {ended.job.queue for ended in written.ended if ended.status == Status.PENDING}
    queues |= queues_to_wake(written.released)
    wake(database, queues)


def events_of(written: Written) -> Iterator[Event]:
    for ended in written.ended:
        job = ended.job
        facts = {
            "attempt": ended.number,
            "status": ended.status,
            "error": ended.error[:300],
            "next_retry_at": ended.next_retry_at,
        }
        for name in PUBLIC_NAMES.get(ended.event, ()):
            yield Event(name, job.id, job.type, job.queue, facts)


def _say_lost(worker_id: str, name: str, reason: str) -> None:
    log.warning("worker.lost", worker_id=worker_id, name=name, reason=reason)
    events.emit("worker.lost", worker_id=worker_id, name=name, reason=reason)
