"""Pause and resume queues. Workers obey at their next claim; what runs goes on.

A pause that has an end is over at that moment by the database's clock, whether or not anybody writes
it down (`claim.IS_PAUSED`). The leading worker does so soon after, and tells it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import structlog

from jobs import events
from jobs.claim import IS_PAUSED
from jobs.database import Database
from jobs.drafts import check_queue
from jobs.errors import InvalidInput
from jobs.lifecycle.rows import Act, perform
from jobs.moments import parse_moment

# Only a real change is written, so that the first reason and actor stay.
PAUSE = f"""
INSERT INTO jobs_queue AS q (name, paused, paused_until, reason, changed_by, changed_at)
VALUES (%(name)s, true, %(until)s, %(reason)s, %(by)s, clock_timestamp())
ON CONFLICT (name) DO UPDATE SET
    paused = true, paused_until = excluded.paused_until, reason = excluded.reason,
    changed_by = excluded.changed_by, changed_at = excluded.changed_at
WHERE NOT ({IS_PAUSED})
"""

MOVE_END = f"""
UPDATE jobs_queue q SET paused_until = %(until)s
WHERE q.name = %(name)s AND {IS_PAUSED} AND q.paused_until IS DISTINCT FROM %(until)s
"""

RESUME = f"""
UPDATE jobs_queue q SET
    paused = false, paused_until = NULL, reason = '', changed_by = %(by)s,
    changed_at = clock_timestamp()
WHERE q.name = %(name)s AND {IS_PAUSED}
"""

END = """
UPDATE jobs_queue SET
    paused = false, paused_until = NULL, reason = '', changed_by = '', changed_at = paused_until
WHERE paused AND paused_until <= statement_timestamp()
RETURNING name
"""

IS_AHEAD = "SELECT %(until)s::timestamptz > statement_timestamp()"
OVER = "it was paused until now"

_log = structlog.get_logger("coppice.lifecycle")


def pause_queue(
    name: str, *, until: datetime | str | int | None = None, reason: str = "", by: str = ""
) -> bool:
    """Stop claims from a queue; returns whether anything was changed.

    `until`: when it goes on by itself. Of a queue that is paused already another end is taken, and
    nothing else.
    """
    check_queue(name)
    end = None if until is None else parse_moment(until, "until")

    def work(act: Act) -> bool:
        if end is not None and not act.database.rows(IS_AHEAD, {"until": end})[0][0]:
            raise InvalidInput("must be a moment to come", field="until")
        params = {"name": name, "until": end, "reason": act.reason, "by": act.by}
        changed = act.database.run(PAUSE, params) > 0
        if not changed and end is not None:
            changed = act.database.run(MOVE_END, params) > 0
        if changed:
            said = None if end is None else end.isoformat()
            _tell(act, "queue.paused", name, until=said)
            data = {} if said is None else {"until": said}
            act.audit("queue.pause", scope=f"queue {name}", object_id=name, data=data)
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


def end_pauses(database: Database) -> list[str]:
    """Write down and tell which pauses have come to their end; returns the queues' names."""
    ended = [row[0] for row in database.rows(END, {})]
    for name in ended:
        _log.info("queue.resumed", queue=name, by="", reason=OVER)
        events.emit("queue.resumed", queue=name, by="", reason=OVER)
    return ended


def _tell(act: Act, event: str, name: str, **more: str | None) -> None:
    facts: dict[str, Any] = {"by": act.by, "reason": act.reason, **more}
    events.emit_on_commit(event, queue=name, **facts)
    act.after(lambda: _log.info(event, queue=name, **facts))
