"""Tell a worker to claim nothing for a while, and to go on; forget one that is lost.

The worker hears it with its next look for work, within `COPPICE_POLL_SECONDS`, and says so
(`quiet_at`). What it runs goes on; what it holds that has not begun is handed back.
"""

from __future__ import annotations

import structlog

from jobs import conf, events
from jobs.database import DjangoDatabase
from jobs.errors import Conflict, NotFound
from jobs.lifecycle.rows import Act, canonical, perform
from jobs.rescue import MARK, rescue_orphans
from jobs.texts import clean

FIND = """
SELECT name, state, stop_requested_at IS NOT NULL, beats,
    beat_at <= clock_timestamp() - %(dead_after)s * interval '1 second'
FROM jobs_worker WHERE id = %(worker)s::uuid FOR NO KEY UPDATE
"""
# Asked again: the first moment stays.
QUIET = """
UPDATE jobs_worker SET quiet_requested_at = clock_timestamp()
WHERE id = %(worker)s::uuid AND quiet_requested_at IS NULL
"""
RESUME = """
UPDATE jobs_worker SET quiet_requested_at = NULL
WHERE id = %(worker)s::uuid AND quiet_requested_at IS NOT NULL
"""
FORGET = """
DELETE FROM jobs_worker w WHERE w.id = %(worker)s::uuid AND w.state = 'dead' AND NOT EXISTS (
    SELECT FROM jobs_job j WHERE j.status = 'processing' AND j.worker_id = w.id
)
"""
BY_HAND = "a person said so"

_log = structlog.get_logger("coppice.lifecycle")


def quiet_worker(worker_id: object, *, reason: str = "", by: str = "") -> bool:
    """Let it claim nothing until it is resumed; whether it was not asked before.

    Raises NotFound, and Conflict for one that has ended or is to stop.
    """

    def work(act: Act) -> bool:
        id, name, state, is_stopping, _, _ = _found(act, worker_id)
        if state != "running" or is_stopping:
            is_what = "to stop" if state in ("running", "draining") else state
            raise Conflict(f"worker {name} is {is_what}: it claims nothing as it is")
        changed = act.database.run(QUIET, {"worker": id}) > 0
        if changed:
            _tell(act, "worker.quiet_requested", id, name)
            act.audit("worker.quiet", scope=f"worker {name}", object_id=id)
        return changed

    return perform(work, by=by, reason=reason)


def resume_worker(worker_id: object, *, by: str = "") -> bool:
    """Let it claim again; whether it had been asked to be quiet."""

    def work(act: Act) -> bool:
        id, name, _, _, _, _ = _found(act, worker_id)
        changed = act.database.run(RESUME, {"worker": id}) > 0
        if changed:
            _tell(act, "worker.resume_requested", id, name)
            act.audit("worker.resume", scope=f"worker {name}", object_id=id)
        return changed

    return perform(work, by=by)


def forget_worker(worker_id: object, *, reason: str = "", by: str = "") -> None:
    """Delete the row of one that was lost. Conflict while it may live, or owns jobs."""

    def work(act: Act) -> None:
        id, name, state, _, _, _ = _found(act, worker_id)
        if state != "dead":
            raise Conflict(f"worker {name} is {state}: only one that is lost can be forgotten")
        if not act.database.run(FORGET, {"worker": id}):
            raise Conflict(f"worker {name} still owns jobs: a live worker takes them back")
        _tell(act, "worker.forgotten", id, name)
        act.audit("worker.forget", scope=f"worker {name}", object_id=id)

    perform(work, by=by, reason=reason)


def recover_worker(worker_id: object, *, reason: str = "", by: str = "") -> int:
    """Declare one dead that shows no sign of life, and take back its jobs; returns how many.

    For when no live worker is there to do so. Should it live after all, its writes are refused, as
    after any rescue. Conflict while it beats.
    """

    def work(act: Act) -> str:
        id, name, state, _, beats, is_silent = _found(act, worker_id)
        if state not in ("running", "draining") or not is_silent:
            standing = "alive" if state in ("running", "draining") else state
            raise Conflict(f"worker {name} is {standing}: there is nothing to be recovered")
        act.database.run(MARK, {"worker": id, "state": "dead", "beats": beats})
        facts = {"worker_id": id, "name": name, "reason": BY_HAND}
        events.emit_on_commit("worker.lost", **facts)
        act.after(lambda: _log.warning("worker.lost", **facts, by=act.by))
        act.audit("worker.recover", scope=f"worker {name}", object_id=id)
        return id

    id = perform(work, by=by, reason=reason)
    # What is left if this breaks off is found as orphans by the next worker.
    written = rescue_orphans(DjangoDatabase(), id, BY_HAND)
    return sum(len(batch.ended) for batch in written)


def _found(act: Act, worker_id: object) -> tuple[str, str, str, bool, int, bool]:
    """Id, name, state, whether it was asked to stop, its beats, whether they stand still."""
    id = canonical(worker_id)
    given = {"worker": id, "dead_after": conf.get().dead_after_seconds}
    rows = act.database.rows(FIND, given) if id else []
    if not rows:
        raise NotFound("worker", clean(str(worker_id), 60))
    name, state, is_stopping, beats, is_silent = rows[0]
    return id, name, state, is_stopping, beats, is_silent


def _tell(act: Act, event: str, id: str, name: str) -> None:
    facts = {"worker_id": id, "name": name, "by": act.by, "reason": act.reason}
    events.emit_on_commit(event, **facts)
    act.after(lambda: _log.info(event, **facts))
