"""Why a job is not running: in words, from what is true now."""

from __future__ import annotations

from jobs import clocks, conf, edges
from jobs.claim import IS_PAUSED
from jobs.database import Database
from jobs.models import Job
from jobs.states import State

BLOCKERS_SHOWN = 5
SLOTS = 1_000
"""Of one worker: what it holds is counted so far."""

# Who could run a job of this type: workers that beat, those that know the type, and of these the
# ones that serve the queue; how many of those a person has told to be quiet, how many slots the
# others have, and how many jobs they hold. And whether somebody has paused the queue.
CAPABLE = f"""
SELECT count(*), count(*) FILTER (WHERE w.knows), count(*) FILTER (WHERE w.knows AND w.serves),
    count(*) FILTER (WHERE w.knows AND w.serves AND w.is_quiet),
    coalesce(sum(w.concurrency) FILTER (WHERE w.knows AND w.serves AND NOT w.is_quiet), 0),
    coalesce(sum(least(w.concurrency, (SELECT count(*) FROM (
        SELECT FROM jobs_job j WHERE j.status = 'processing' AND j.worker_id = w.id LIMIT {SLOTS}
    ) held))) FILTER (WHERE w.knows AND w.serves AND NOT w.is_quiet), 0),
    (SELECT coalesce(nullif(q.reason, ''), 'no reason given')
        || CASE WHEN q.changed_by = '' THEN '' ELSE ', by ' || q.changed_by END
     FROM jobs_queue q WHERE q.name = %(queue)s AND {IS_PAUSED}),
    (SELECT q.paused_until FROM jobs_queue q WHERE q.name = %(queue)s AND {IS_PAUSED})
FROM (
    SELECT w.id, w.concurrency, w.quiet_requested_at IS NOT NULL AS is_quiet,
        jsonb_exists(w.types, %(type)s) AS knows,
        w.queues = '[]'::jsonb OR jsonb_exists(w.queues, %(queue)s) AS serves
    FROM jobs_worker w
    WHERE w.state = 'running'
        AND w.beat_at > clock_timestamp() - %(dead_after)s * interval '1 second'
) w
"""

OWNER = """
SELECT w.name, w.state IN ('running', 'draining')
    AND w.beat_at > clock_timestamp() - %(dead_after)s * interval '1 second'
FROM jobs_worker w WHERE w.id = %(worker)s
"""


def why_not_running(database: Database, job: Job, now: float) -> list[str]:
    """The reasons, most important first; empty when the job runs or has ended.

    `now` is the database's time in epoch seconds.
    """
    match job.state_at(now):
        case State.BLOCKED:
            return _blocked(database, job)
        case State.HELD:
            return [f"held: {job.hold_reason}" if job.hold_reason else "held"]
        case State.SCHEDULED:
            assert job.due_at is not None
            return [f"not due until {clocks.said(job.due_at)}", *_nobody(database, job)]
        case State.RETRYING:
            assert job.due_at is not None
            again = f"runs again at {clocks.said(job.due_at)}"
            return [again, *_nobody(database, job)]
        case State.READY:
            return _nobody(database, job, is_ready=True)
        case State.RUNNING | State.CANCELLING:
            return _abandoned(database, job)
        case _:
            return []


def _blocked(database: Database, job: Job) -> list[str]:
    blockers = edges.blocked_by(database, [str(job.id)]).get(str(job.id), [])
    reasons = []
    for blocker in blockers[:BLOCKERS_SHOWN]:
        reason = f"waits for {blocker.type or 'job'} {blocker.job_id}, which is {blocker.status}"
        if blocker.status in ("failed", "cancelled"):
            reason += ": it must be retried or this job cancelled"
        reasons.append(reason)
    if len(blockers) > BLOCKERS_SHOWN:
        reasons.append(f"waits for {len(blockers) - BLOCKERS_SHOWN:,} others")
    return reasons or ["waits for other jobs"]


def _nobody(database: Database, job: Job, *, is_ready: bool = False) -> list[str]:
    """What keeps workers from taking it although, or once, it is due.

    `is_ready`: it waits for nothing else, so there is a reason.
    """
    live, knowing, serving, quiet, slots, busy, paused, until = database.rows(
        CAPABLE,
        {
            "type": job.type,
            "queue": job.queue,
            "dead_after": conf.get().dead_after_seconds,
        },
    )[0]
    reasons = []
    if paused is not None:
        end = "" if until is None else f", until {clocks.said(until)}"
        reasons.append(f"queue {job.queue} is paused: {paused}{end}")
    if not live:
        reasons.append("no worker is alive")
    elif not knowing:
        reasons.append(f"no live worker knows the type {job.type}")
    elif not serving:
        reasons.append(f"no live worker that knows the type serves the queue {job.queue}")
    elif quiet == serving:
        all_of_them = (
            "the worker that serves it was" if quiet == 1 else "all workers that serve it were"
        )
        reasons.append(f"{all_of_them} told to be quiet")
    elif is_ready and not reasons:
        full = f": all {slots:,} are busy" if busy >= slots else ""
        reasons.append(f"waits for a free slot{full}")
    return reasons


def _abandoned(database: Database, job: Job) -> list[str]:
    rows = database.rows(
        OWNER, {"worker": job.worker_id, "dead_after": conf.get().dead_after_seconds}
    )
    if rows and rows[0][1]:
        return []
    name = rows[0][0] if rows else str(job.worker_id)
    return [f"its worker {name} shows no sign of life; another one will take it back"]
