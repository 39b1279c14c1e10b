"""What people may do to runs: one function per action, called by Python, REST, console and commands.

Each locks the run's row first, and the run's job after it; so does the job itself when it decides
what comes next (`running.py`). Each writes what it does in one transaction and tells it after the
commit. `Conflict`, `NotFound` and `InvalidInput` leave everything as it was. What a person did (`by`
is not empty) leaves an audit entry in the same transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from uuid import UUID

from django.db import transaction
from django.db.models.functions import Now

from jobs import audit, conf
from jobs import lifecycle as jobs_lifecycle
from jobs.errors import Conflict, InvalidInput, NotFound
from jobs.lifecycle.rows import perform
from jobs.models import Job
from jobs.texts import clean
from ranges.declaring import check_version
from ranges.facts import bounds
from ranges.loading import load
from ranges.models import RangeFailure, RangeRun
from ranges.run_jobs import add_lanes, enqueue_driver, go_on, start_options
from ranges.run_rows import (
    audited,
    changing,
    conflict,
    locked,
    nodes_of,
    stop_clock,
    stored,
    tell,
    write,
)
from ranges.run_steps import pause_held, reopen, revive
from ranges.states import ENDED, FailureState, RunStatus
from ranges.stuck import stuck

THRESHOLD = "failure threshold"


# Starting


def start(run: RangeRun | UUID | str, *, by: str = "") -> RangeRun:
    """Make the job that drives the run, with the time and the dependencies given at `create`."""
    with changing(run) as changed:
        if changed.status != RunStatus.CREATED:
            raise conflict(changed, "it was started already")
        job = enqueue_driver(changed, **start_options(changed))
        write(changed, status=RunStatus.RUNNING, job_id=job.id, reason="")
        tell("range.started", changed, by=by)
        audited("start", changed, by)
    return changed


def make_and_start(make: Callable[[], RangeRun], *, by: str = "") -> RangeRun:
    """Both or neither."""
    with transaction.atomic(using=conf.get().database):
        return start(make(), by=by)


# While it runs


def pause(run: RangeRun | UUID | str, *, reason: str = "", by: str = "") -> RangeRun:
    """Begin no leaf more. What runs goes on to the end of its leaf."""
    reason = _checked_reason(reason)
    with changing(run) as changed:
        if changed.status == RunStatus.PAUSED:
            return changed
        if changed.status != RunStatus.RUNNING:
            raise conflict(changed, "only a running run can be paused")
        pause_held(changed, reason, by)
        audited("pause", changed, by, reason)
    return changed


def force_pause(run: RangeRun | UUID | str, *, reason: str = "", by: str = "") -> int:
    """Pause it, and take its jobs away from workers that show no sign of life; returns how many.

    For when no live worker is left that would do so. What such a worker still writes is refused.
    """
    reason = _checked_reason(reason)
    with changing(run) as changed:
        if changed.status not in (RunStatus.RUNNING, RunStatus.PAUSED):
            raise conflict(changed, "there is nothing to be paused")
        found = stuck(changed)
        if not found:
            raise conflict(changed, "each of its workers shows signs of life, or it has none")
        if changed.status == RunStatus.RUNNING:
            pause_held(changed, reason, by)
        taken = []
        with audit.left_out():
            for id in found:
                with suppress(Conflict, NotFound):  # its worker is back, or another one took it
                    jobs_lifecycle.mark_lost(id, by=by, reason=reason)
                    taken.append(id)
        if changed.planned:
            nodes_of(changed).release_orphans()
        audited("force_pause", changed, by, reason, data=audit.listed(taken))
    return len(taken)


def halt(run: RangeRun | UUID | str, reason: str) -> bool:
    """Pause a run for a reason of its own; False if it does not run."""
    with changing(run) as changed:
        if changed.status != RunStatus.RUNNING:
            return False
        pause_held(changed, reason, "")
    return True


def resume(
    run: RangeRun | UUID | str, *, code_version: str | None = None, by: str = ""
) -> RangeRun:
    """Go on where it stopped. What failed so far no longer counts for the threshold.

    `code_version`: with that version of its class from now on; else with the one that it goes by.
    """
    if code_version is not None:
        check_version(code_version, "code_version")
    with changing(run) as changed:
        if changed.status == RunStatus.RUNNING:
            return changed
        if changed.status != RunStatus.PAUSED:
            raise conflict(changed, "only a paused run can be resumed")
        if code_version is not None:
            write(changed, code_version=code_version)
        go_on(changed)
        tell("range.resumed", changed, by=by)
        audited("resume", changed, by)
    return changed


def cancel(run: RangeRun | UUID | str, *, reason: str = "", by: str = "") -> RangeRun:
    """End it for good, wherever it is. Leaves that run see `context.cancelled`."""
    reason = _checked_reason(reason)
    with changing(run) as changed:
        if changed.status in ENDED:
            if changed.status == RunStatus.CANCELLED:
                return changed
            raise conflict(changed, "it has ended")
        stop_clock(changed)
        write(
            changed,
            status=RunStatus.CANCELLED,
            reason=reason,
            finished_at=Now(),
        )
        if changed.job_id is not None:
            with suppress(Conflict, NotFound), audit.left_out():
                jobs_lifecycle.cancel(
                    changed.job_id, by=by, reason=reason or "the run was cancelled"
                )
        if changed.planned:
            nodes_of(changed).release_orphans()
        tell("range.cancelled", changed, by=by, reason=reason)
        audited("cancel", changed, by, reason)
    return changed


def follow_cancel(job_id: UUID | str) -> None:
    """Somebody cancelled the job of a run; so the run is cancelled too."""
    runs = RangeRun.objects.using(conf.get().database).filter(job_id=job_id)
    for id in runs.exclude(status__in=ENDED).values_list("id", flat=True):
        cancel(id, reason="its job was cancelled")


def tidy_after_lane(lane_id: UUID | str) -> None:
    """A lane was cancelled, perhaps long after its worker died: nothing of its run is at work there."""
    alias = conf.get().database
    lane = Job.objects.using(alias).filter(id=lane_id).only("payload").first()
    if lane is None:
        return
    runs = RangeRun.objects.using(alias).filter(id=UUID(str(lane.payload["run"])), planned=True)
    for run in runs.filter(status__in=ENDED):
        nodes_of(run).release_orphans()


def retune(run: RangeRun | UUID | str, *, concurrency: int, by: str = "") -> RangeRun:
    """Give it more lanes, or fewer: those above the new number end with their leaf."""
    if isinstance(concurrency, bool) or not isinstance(concurrency, int):
        raise InvalidInput("must be a whole number", field="concurrency")
    if not 1 <= concurrency <= 1_000:
        raise InvalidInput("must be a whole number from 1 to 1,000", field="concurrency")
    with changing(run) as changed:
        if changed.status in ENDED:
            raise conflict(changed, "it has ended")
        before = changed.concurrency
        write(changed, concurrency=concurrency)
        if changed.status == RunStatus.RUNNING and changed.job_id is not None:
            perform(lambda act: add_lanes(act, changed), by=by)
        tell("range.retuned", changed, by=by, before=before, concurrency=concurrency)
        if before != concurrency:
            tuned = {"before": {"concurrency": before}, "after": {"concurrency": concurrency}}
            audited("retune", changed, by, data=tuned)
    return changed


# What failed


def retry_failed(
    run: RangeRun | UUID | str, *, failures: Sequence[int] | None = None, by: str = ""
) -> int:
    """Work at the open failures again, or at these alone; returns how many.

    A run that has ended runs again.
    """
    with changing(run) as changed:
        if changed.status in (RunStatus.CREATED, RunStatus.CANCELLED, RunStatus.COMPLETED):
            raise conflict(changed, "there is nothing to be retried")
        for id in failures or ():
            _open_failure(id, changed)
        count = revive(changed, failures=failures, by=by)
        if changed.status in ENDED:
            reopen(changed)
        tell("range.retried", changed, by=by, failures=count)
        audited("retry_failed", changed, by, changed=count)
    return count


def waive(failure: RangeFailure | int, reason: str, *, by: str = "") -> RangeFailure:
    """Close a failure by decision. With the last open one, a run that failed is judged again."""
    text = _checked_reason(reason).strip()
    if not text:
        raise InvalidInput("must say why", field="reason")
    alias = conf.get().database
    id = failure.id if isinstance(failure, RangeFailure) else failure
    with transaction.atomic(using=alias):
        run = locked(_failure(id).run_id)
        found = _open_failure(id, run)
        found.state, found.reason, found.resolved_by = FailureState.WAIVED, text, clean(by, 150)
        found.resolved_at = Now()
        found.save(update_fields=["state", "reason", "resolved_by", "resolved_at"])
        found.refresh_from_db()
        opened = RangeFailure.objects.using(alias).filter(run=run, state=FailureState.OPEN)
        if run.status in (RunStatus.FAILED, RunStatus.PARTIALLY_FAILED) and not opened.exists():
            reopen(run)
        audited("waive", run, by, text, data={"failure": id})
    return found


def waive_all(run: RangeRun | UUID | str, reason: str, *, by: str = "") -> int:
    """Close all open failures by decision; returns how many. A run that failed is judged again."""
    text = _checked_reason(reason).strip()
    if not text:
        raise InvalidInput("must say why", field="reason")
    with changing(run) as changed:
        opened = RangeFailure.objects.using(conf.get().database).filter(
            run=changed, state=FailureState.OPEN
        )
        count = opened.update(
            state=FailureState.WAIVED,
            reason=text,
            resolved_by=clean(by, 150),
            resolved_at=Now(),
        )
        if not count:
            raise conflict(changed, "no failure is open")
        if changed.status in (RunStatus.FAILED, RunStatus.PARTIALLY_FAILED):
            reopen(changed)
        audited("waive", changed, by, text, changed=count)
    return count


# Once more


def again(run: RangeRun | UUID | str, *, by: str = "") -> RangeRun:
    """A new run over the same range with the same options, not started.

    Its class may have changed since: what a run does not keep is the class's. Raises Halted when
    the code is gone or no longer fits.
    """
    found = stored(getattr(run, "id", run))
    loaded = load(found)
    start, end = bounds(found)
    kept = vars(loaded.options)
    return type(loaded.job).create(
        start,
        end,
        params=found.params,
        metadata={**found.metadata, "again_of": str(found.id)},
        priority=found.priority,
        queue=found.queue,
        by=by,
        **kept,
    )


def _failure(id: object) -> RangeFailure:
    found = None
    if isinstance(id, int) and not isinstance(id, bool):
        found = RangeFailure.objects.using(conf.get().database).filter(id=id).first()
    if found is None:
        raise NotFound("failure", clean(str(id), 60))
    return found


def _open_failure(id: object, run: RangeRun) -> RangeFailure:
    """One that is open. The caller holds the run's row, without which none is closed."""
    found = _failure(id)
    if found.run_id != run.id:
        raise NotFound("failure", str(id))
    if found.state != FailureState.OPEN:
        raise Conflict(f"failure {id} is {found.state}")
    return found


def _checked_reason(reason: object) -> str:
    if not isinstance(reason, str):
        raise InvalidInput("must be text", field="reason")
    return clean(reason, 1_000)
