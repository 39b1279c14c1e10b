"""Give up on a running job that does not come to an end: its lease is taken away.

The handler itself is not stopped, since nobody can: it may go on until it returns. But the job has
ended by then, or belongs to another attempt, so nothing that the late one writes about it counts
(`complete.py` asks for its lease), and with `atomic` its changes are rolled back with it.
"""

from __future__ import annotations

from typing import Any

import structlog

from jobs import conf, events
from jobs.claimed import Claimed
from jobs.complete import Written, complete_here
from jobs.errors import Conflict
from jobs.lifecycle.cancelling import cancel_made_by
from jobs.lifecycle.rows import Act, Row, conflict, perform
from jobs.outcomes import decide_lost
from jobs.rescue import events_of
from jobs.states import Status
from jobs.texts import fingerprint

# The row is locked by then. Its worker counts as alive as everywhere: by the age of its beat.
HELD = """
SELECT j.id::text, j.type, j.queue, '' AS payload, j.priority,
    coalesce(extract(epoch FROM j.due_at), 0)::float8, j.attempt_count, j.max_attempts,
    j.lease_epoch, j.lost_count, j.wait_count, extract(epoch FROM j.started_at)::float8,
    greatest(0, extract(epoch FROM clock_timestamp() - j.started_at))::float8, j.worker_id::text,
    extract(epoch FROM clock_timestamp() - j.cancel_requested_at)::float8,
    coalesce(w.name, ''),
    coalesce(w.state IN ('running', 'draining')
        AND w.beat_at > clock_timestamp() - %(dead_after)s * interval '1 second', false)
FROM jobs_job j LEFT JOIN jobs_worker w ON w.id = j.worker_id
WHERE j.id = %(id)s::uuid
"""

_log = structlog.get_logger("coppice.lifecycle")


def mark_lost(job_id: object, *, by: str = "", reason: str = "") -> str:
    """End the attempt that runs as lost; returns the status that the job has then.

    Only of a job that was asked to stop longer ago than `COPPICE_GRACE_SECONDS`, which ends
    cancelled, or whose worker shows no sign of life, which is due again or out of attempts, as after
    a rescue. Conflict for any other.
    """

    def work(act: Act) -> str:
        row = act.lock_one(job_id)
        if row.status != Status.PROCESSING:
            raise conflict(row, "only a running job can be marked lost")
        settings = conf.get()
        found = act.database.rows(HELD, {"id": row.id, "dead_after": settings.dead_after_seconds})[
            0
        ]
        *columns, ran, worker_id, asked, worker, is_alive = found
        if is_alive and (asked is None or asked < settings.grace_seconds):
            raise Conflict(_too_early(row, worker, asked, settings.grace_seconds))
        written = _end(act, Claimed(*columns), ran, worker_id, worker)
        status = written.ended[0].status
        act.audit_one("job.mark_lost", row, data={"worker": worker or worker_id, "status": status})
        return status

    return perform(work, by=by, reason=reason)


def _end(act: Act, job: Claimed, ran: float, worker_id: str, worker: str) -> Written:
    whom = f"worker {worker}" if worker else "a worker that is gone"
    who = f" by {act.by}" if act.by else ""
    ending = decide_lost(job, f"marked lost{who} while {whom} had it", ran=ran)
    # One kind of error, whoever said so.
    ending.fingerprint = fingerprint("Lost", "marked lost")
    written = complete_here(act.database, worker_id=worker_id, endings=[ending])
    cancel_made_by(act, act.follow(written.released))
    act.wake.update(e.job.queue for e in written.ended if e.status == Status.PENDING)
    act.after(lambda: _tell(written, worker_id, act))
    return written


def _tell(written: Written, worker_id: str, act: Act) -> None:
    for ended in written.ended:
        facts: dict[str, Any] = {
            "job_id": ended.job.id,
            "type": ended.job.type,
            "queue": ended.job.queue,
            "from_status": "processing",
            "to_status": ended.status,
            "attempt": ended.number,
            "worker_id": worker_id,
        }
        _log.warning("job.marked_lost", **facts, by=act.by, reason=act.reason)
    events.emit_many(events_of(written))


def _too_early(row: Row, worker: str, asked: float | None, grace: float) -> str:
    if asked is None:
        return f"job {row.id} runs on worker {worker}, which is alive: cancel it first"
    return (
        f"job {row.id} was asked to stop {asked:.0f} s ago, and its handler has {grace:g} s for it"
    )
