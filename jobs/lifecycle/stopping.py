"""Ask a worker to stop. Its supervisor hears it with its next beat."""

from __future__ import annotations

import structlog

from jobs import events
from jobs.errors import Conflict, NotFound
from jobs.lifecycle.rows import Act, canonical, perform
from jobs.texts import clean

FIND = "SELECT name, state FROM jobs_worker WHERE id = %(worker)s::uuid FOR NO KEY UPDATE"

# Asked again: the first moment stays.
ASK = """
UPDATE jobs_worker SET stop_requested_at = clock_timestamp()
WHERE id = %(worker)s::uuid AND state IN ('running', 'draining') AND stop_requested_at IS NULL
"""

_log = structlog.get_logger("coppice.lifecycle")


def stop_worker(worker_id: object, *, reason: str = "", by: str = "") -> bool:
    """Let one worker process finish what runs and end, unreplaced; whether it was not asked before.

    The last process of a `runworker` takes its supervisor with it, which then ends with code 0.
    Raises NotFound, and Conflict for one that has ended.
    """

    def work(act: Act) -> bool:
        id = canonical(worker_id)
        found = act.database.rows(FIND, {"worker": id}) if id else []
        if not found:
            raise NotFound("worker", clean(str(worker_id), 60))
        name, state = found[0]
        if state not in ("running", "draining"):
            raise Conflict(f"worker {name} is {state}: it cannot be stopped any more")
        changed = act.database.run(ASK, {"worker": id}) > 0
        if changed:
            facts = {"worker_id": id, "name": name, "by": act.by, "reason": act.reason}
            events.emit_on_commit("worker.stop_requested", **facts)
            act.after(lambda: _log.info("worker.stop_requested", **facts))
            act.audit("worker.stop", scope=f"worker {name}", object_id=id)
        return changed

    return perform(work, by=by, reason=reason)
