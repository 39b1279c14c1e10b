"""The jobs of a run: the one that drives it, and its lanes. Both are internal.

Whoever calls holds the run's row, and its job's after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import transaction

from jobs import conf, edges, events
from jobs import lifecycle as jobs_lifecycle
from jobs.answers import child
from jobs.enqueueing import enqueue, settle_after_commit
from jobs.insertion import wake
from jobs.lifecycle.rows import Act, perform
from jobs.models import Job
from jobs.states import Status
from ranges.models import RangeRun
from ranges.run_rows import forgive, start_clock, write
from ranges.states import RunStatus

RUN_TYPE, LANE_TYPE = "ranges.run", "ranges.lane"
INTERNAL = {"internal": True}
ATTEMPTS = 1_000
"""Of runs and lanes: what fails or kills is charged to the leaf, not to them."""

LIVE_LANES = """
SELECT DISTINCT (payload ->> 'index')::integer FROM jobs_job
WHERE parent_id = %(job)s::uuid AND status IN ('pending', 'processing')
"""


def enqueue_driver(run: RangeRun, **options: Any) -> Job:
    return enqueue(
        RUN_TYPE,
        {"run": str(run.id)},
        priority=run.priority,
        queue=run.queue,
        max_attempts=ATTEMPTS,
        metadata=INTERNAL,
        **options,
    )


def start_options(run: RangeRun) -> dict[str, Any]:
    given = run.start_options
    return {
        "scheduled_at": given.get("scheduled_at"),
        "depends_on": tuple(given.get("depends_on") or ()),
    }


def lanes(run: RangeRun, indices: Sequence[int]) -> list[Any]:
    """The lanes of one round, as children of the run's job; counts the round."""
    write(run, rounds=run.rounds + 1)
    return [
        child(
            LANE_TYPE,
            {"run": str(run.id), "index": index},
            key=f"{run.rounds}:{index}",
            queue=run.queue,
            priority=run.priority,
            max_attempts=ATTEMPTS,
            metadata=INTERNAL,
        )
        for index in indices
    ]


def add_lanes(act: Act, run: RangeRun) -> None:
    """The lanes that a run lacks whose job waits for lanes; else its next step makes them."""
    row = act.lock_one(run.job_id)
    if row.status != Status.PENDING or not row.unmet_dependencies or not run.planned:
        return
    live = {index for (index,) in act.database.rows(LIVE_LANES, {"job": row.id})}
    missing = [index for index in range(run.concurrency) if index not in live]
    if not missing:
        return
    made = edges.wait_for(act.database, child_id=row.id, jobs=lanes(run, missing))
    settle_after_commit([row.id])
    events.emit_jobs_on_commit("job.created", made)
    wake(act.database, [run.queue])


def go_on(run: RangeRun) -> None:
    """Set a stopped run going: its row, then its job."""
    forgive(run)
    write(run, status=RunStatus.RUNNING, reason="", finished_at=None)
    if run.planned:
        start_clock(run)
    alias = conf.get().database
    jobs = Job.objects.using(alias).select_for_update(no_key=True)
    job = None if run.job_id is None else jobs.filter(pk=run.job_id).first()
    if job is None or job.status in (Status.COMPLETED, Status.CANCELLED):
        write(run, job_id=enqueue_driver(run).id)
    elif job.status == Status.FAILED:
        jobs_lifecycle.retry(job.id)
    elif job.status == Status.PENDING and job.unmet_dependencies:
        # Some lanes have ended in the pause, and the job waits for those that have not.
        perform(lambda act: add_lanes(act, run), by="")
    elif job.status == Status.PENDING and job.due_at is None:
        jobs_lifecycle.release(job.id)


def refill(run_id: str) -> None:
    """Make the lanes that a run lacks: one that was just ending is none, though it counted as one.

    No lane waits for this: whoever holds the run's row decides about it just now.
    """
    alias = conf.get().database
    with transaction.atomic(using=alias):
        runs = RangeRun.objects.using(alias).select_for_update(no_key=True, skip_locked=True)
        run = runs.filter(id=run_id, status=RunStatus.RUNNING, job_id__isnull=False).first()
        if run is not None:
            perform(lambda act: add_lanes(act, run), by="")
