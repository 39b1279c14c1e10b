"""One action on all jobs that match a filter, worked through by a worker in batches.

    operation = bulk.create("retry", Filters(status=Status.FAILED, type="resize"), by="anna")
    bulk.pause(operation.id); bulk.resume(operation.id); bulk.abort(operation.id)
    bulk.as_json(bulk.get(operation.id))

What must always be true:
1. Each job that matched before the operation was created is met once; what dies or is made later is
   left alone. A job that has changed meanwhile is skipped, and counted with the reason.
2. A killed worker, a deadlock or an outage neither loses nor doubles a job or a count.
3. Once `pause` or `abort` has returned, nothing is changed any more.
4. Operations that could meet the same jobs run one after the other, the older first.
"""

from jobs.bulk.actions import ACTIONS, permission_of
from jobs.bulk.measuring import LIVE, Progress, progress
from jobs.bulk.mending import mend
from jobs.bulk.operating import TYPE, abort, as_json, create, get, pause, resume
from jobs.bulk.previewing import Preview, preview

__all__ = [
    "ACTIONS",
    "LIVE",
    "TYPE",
    "Preview",
    "Progress",
    "abort",
    "as_json",
    "create",
    "get",
    "mend",
    "pause",
    "permission_of",
    "preview",
    "progress",
    "resume",
]
