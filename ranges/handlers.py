"""The two job types of the range engine."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import transaction

from jobs import conf
from jobs.answers import Snooze
from jobs.context import Context
from jobs.events import Event, on
from jobs.models import Job
from jobs.registry import handler
from jobs.retry import Backoff
from jobs.states import Status
from ranges import lifecycle
from ranges.lane import Lane
from ranges.loading import Halted, load_to_work
from ranges.models import RangeRun
from ranges.run_jobs import ATTEMPTS, LANE_TYPE, RUN_TYPE
from ranges.running import step
from ranges.sources import UnfitKey
from ranges.states import RunStatus
from ranges.stumbling import keeps_failing


@on("job.cancelled")
def follow_cancel(event: Event) -> None:
    if event.job_id is None or event.type not in (RUN_TYPE, LANE_TYPE):
        return
    if event.type == RUN_TYPE:
        lifecycle.follow_cancel(event.job_id)
    else:
        lifecycle.tidy_after_lane(event.job_id)


@on("job.dead_lettered")
def follow_failure(event: Event) -> None:
    """Nobody drives a run whose job is dead; that of one that has ended is dead by intent."""
    if event.job_id is None or event.type != RUN_TYPE:
        return
    alias = conf.get().database
    with transaction.atomic(using=alias):
        runs = RangeRun.objects.using(alias).select_for_update(no_key=True)
        run = runs.filter(job_id=event.job_id, status=RunStatus.RUNNING).first()
        jobs = Job.objects.using(alias).filter(id=event.job_id, status=Status.FAILED)
        if run is not None and jobs.exists():
            lifecycle.halt(run.id, f"its job has failed; see job {event.job_id}")


LONGEST = timedelta(days=31)
"""A time-out would strike whatever leaf is at work; leaves have a hard time-out of their own."""


@handler(
    RUN_TYPE,
    max_attempts=ATTEMPTS,
    timeout=LONGEST,
    backoff=Backoff.fixed(2),
    atomic=True,
    internal=True,
)
def drive(payload: dict[str, Any], context: Context) -> Any:
    return step(payload, context)


@handler(LANE_TYPE, max_attempts=ATTEMPTS, timeout=LONGEST, backoff=Backoff.fixed(2), internal=True)
def work_lane(payload: dict[str, Any], context: Context) -> Snooze | None:
    run = RangeRun.objects.using(conf.get().database).filter(id=UUID(str(payload["run"]))).first()
    index = int(payload["index"])
    if run is None or run.status != RunStatus.RUNNING or index >= run.concurrency:
        return None
    try:
        loaded = load_to_work(run)
    except Halted as error:
        if lifecycle.halt(run.id, str(error)) and error.detail:
            context.log.error(error.detail)
        return None
    try:
        return Lane(loaded, context, index).work()
    except UnfitKey as error:
        lifecycle.halt(run.id, str(error))
        return None
    except Exception as error:
        if keeps_failing(context, error):
            lifecycle.halt(run.id, f"a lane keeps failing; see job {context.job_id}")
        raise
