"""Pause and resume queues. Workers obey at their next claim; what runs goes on."""

from __future__ import annotations

import structlog

from jobs import events
from jobs.drafts import check_queue
from jobs.lifecycle.rows import Act, perform

# Only a real change is written, so that the first reason and actor stay.
PAUSE = """
INSERT INTO jobs_queue (name, paused, reason, changed_by, changed_at)
VALUES (%(name)s, %(paused)s, %(reason)s, %(by)s, clock_timestamp())
ON CONFLICT (name) DO UPDATE SET
    paused = excluded.paused, reason = excluded.reason, changed_by = excluded.changed_by,
    changed_at = excluded.changed_at
WHERE jobs_queue.paused <> excluded.paused
"""

RESUME = """
UPDATE jobs_queue SET
    paused = false, reason = '', changed_by = %(by)s, changed_at = clock_timestamp()
WHERE name = %(name)s AND paused
"""

_log = structlog.get_logger("coppice.lifecycle")


def pause_queue(name: str, *, reason: str = "", by: str = "") -> bool:
    """Stop claims from a queue; returns whether it was not paused before."""
    check_queue(name)

    def work(act: Act) -> bool:
        params = {"name": name, "paused": True, "reason": act.reason, "by": act.by}
        changed = act.database.run(PAUSE, params) > 0
        if changed:
            _tell(act, "queue.paused", name)
            act.audit("queue.pause", scope=f"queue {name}", object_id=name)
        return changed

    return perform(work, by=by, reason=reason)


def resume_queue(name: str, *, by: str = "") -> bool:
    """Let workers claim from the queue again; returns whether it was paused."""
    check_queue(name)

    def work(act: Act) -> bool:
        changed = act.database.run(RESUME, {"name": name, "by": act.by}) > 0
        if changed:
            _tell(act, "queue.resumed", name)
            act.audit("queue.resume", scope=f"queue {name}", object_id=name)
            act.wake.add(name)
        return changed

    return perform(work, by=by)


def _tell(act: Act, event: str, name: str) -> None:
    events.emit_on_commit(event, queue=name, by=act.by, reason=act.reason)
    act.after(lambda: _log.info(event, queue=name, by=act.by, reason=act.reason))
