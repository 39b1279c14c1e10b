"""The job of a run: one idempotent step each time it is called, until the run has ended.

    not planned -> plan, plant strands -> WaitFor lanes
    paused      -> Hold; resume releases it
    work left   -> WaitFor lanes again
    none left   -> verify, sweep (in slices) -> completed, or partially_failed, or failed

A step looks first (`looking.py`), which may take long and holds nothing. Then it holds the run's
row, and what it writes is one transaction with the job's own end: so whoever pauses, resumes or
cancels sees the job either before that, or after what the step decided is written. What was looked
up for a run that somebody has changed meanwhile is dropped.
A run that has failed is marked so by one step and dead-lettered by the next, since an error would
undo the mark.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Sum

from jobs import conf, events
from jobs.answers import ChildResult, Discard, Hold, JobCancelled, Snooze, WaitFor
from jobs.context import Context
from jobs.errors import InvalidInput
from jobs.models import Job
from jobs.texts import describe_error
from ranges import planting, run_jobs, run_rows, run_steps
from ranges.loading import Halted, Loaded, load_to_work
from ranges.looking import Ground, survey
from ranges.merging import merge
from ranges.models import RangeFailure, RangeNode, RangeRun
from ranges.nodes import Nodes
from ranges.positions import before
from ranges.proof import verify
from ranges.querying import QuerySource
from ranges.states import FailureState, RunStatus
from ranges.stumbling import keeps_failing
from ranges.sweeping import Sweep, Sweeper

SWEEPS = 3
SWEEP_SECONDS = 2.0
"""After so long it is kept how far a sweep is, and whether somebody has paused the run."""
SWEEP = "sweep"
RETURNING_ROWS = "rows keep coming back"
CORRUPT = "corrupt"
LOOK_AGAIN = Snooze(0, quiet=True)

type Looked = Ground | Sweep | Exception | None


def step(payload: Any, context: Context) -> Any:
    """One step of the run; the caller has a transaction."""
    runs = RangeRun.objects.using(conf.get().database)
    driven = runs.filter(id=UUID(str(payload["run"])), job_id=context.job_id)
    looked = _look(driven.first())
    run = driven.select_for_update(no_key=True).first()
    if run is None:
        raise Discard("the run is gone, or another job drives it")
    if run.status in (RunStatus.FAILED, RunStatus.PARTIALLY_FAILED):
        if _has_snoozed(context):
            raise Discard(run.reason or str(run.status))
        # A retried dead letter has not ended the run yet: that is retry_failed.
        run_steps.retry_held(run)
    match run.status:
        case RunStatus.CREATED:
            return Hold("the run was not started")
        case RunStatus.PAUSED:
            if run.planned:
                run_rows.nodes_of(run).release_orphans()
            return Hold(f"the run is paused: {run.reason}" if run.reason else "the run is paused")
        case RunStatus.CANCELLED:
            raise JobCancelled("the run was cancelled")
        case RunStatus.COMPLETED:
            return _result(run)
    return _go_on(run, looked, context)


def _look(run: RangeRun | None) -> Looked:
    """What the step will need to know, or why that cannot be known."""
    if run is None or run.status != RunStatus.RUNNING:
        return None
    try:
        with transaction.atomic(using=conf.get().database):
            loaded = load_to_work(run)
            if not run.planned:
                return survey(loaded)
            nodes = run_rows.nodes_of(run, loaded.source.axis)
            return None if _lanes_go_on(run, nodes) else _sweep(loaded, nodes)
    except Exception as error:  # noqa: BLE001 - raised again by who holds the row
        return error


def _has_snoozed(context: Context) -> bool:
    """Whether this job, since it was made or retried, has been through the step that ends a run."""
    jobs = Job.objects.using(conf.get().database)
    return jobs.filter(id=context.job_id, snooze_count__gt=0).exists()


def _go_on(run: RangeRun, looked: Looked, context: Context) -> Any:
    """Advance it, or pause it with the reason why that is not possible."""
    try:
        with transaction.atomic(using=conf.get().database):
            return _advance(load_to_work(run), looked, context)
    except (Halted, InvalidInput) as error:
        reason, detail = str(error), getattr(error, "detail", "")
    except Exception as error:
        if not keeps_failing(context, error):
            raise
        reason, detail = f"it cannot go on; see job {context.job_id}", describe_error(error)
    run.refresh_from_db()  # the savepoint has undone what the instance says
    run_steps.pause_held(run, reason)
    if detail:
        context.log.error(detail)
    return Hold(reason)


def _advance(loaded: Loaded, looked: Looked, context: Context) -> Any:
    if isinstance(looked, Exception):
        raise looked
    run = loaded.run
    if not run.planned:
        if not isinstance(looked, Ground):
            return LOOK_AGAIN
        count = plan(loaded, looked, context)
        run_rows.start_clock(run)
        if count:
            return WaitFor(run_jobs.lanes(run, range(min(run.concurrency, count))))
    run_rows.start_clock(run)
    nodes = run_rows.nodes_of(run, loaded.source.axis)
    if _lanes_go_on(run, nodes):
        failed = _broken_lane(context, run)
        if failed is not None:
            # What it says may quote what is not for everybody.
            context.log.error(failed.error)
            run_steps.pause_held(run, f"no lane could work; see job {failed.job_id}")
            return Hold(run.reason)
        return WaitFor(run_jobs.lanes(run, range(run.concurrency)))
    return _finish(loaded, looked, nodes)


def _lanes_go_on(run: RangeRun, nodes: Nodes) -> bool:
    return _sweep_under_way(run) is None and _has_work(nodes)


def _has_work(nodes: Nodes) -> bool:
    _, pending, running, _ = nodes.open()
    return bool(pending or running)


def plan(loaded: Loaded, ground: Ground, context: Context) -> int:
    """Fix the bounds and how finished work is passed over, plant the strands; how many."""
    run = loaded.run
    run_rows.set_bounds(run, ground.lo, ground.hi)
    run.probing, run.rows_estimate, run.planned = ground.probing, ground.rows_estimate, True
    bounds = [name for name in ("lo", "hi", "lo_key", "hi_key") if getattr(run, name) is not None]
    run_rows.set_columns(run, "probing", "rows_estimate", "planned", *bounds)
    if ground.advice is not None and ground.advice.warning:
        context.log.warning(ground.advice.warning, ddl=list(ground.advice.ddl))
    if not before(ground.lo, ground.hi):
        return 0
    nodes = run_rows.nodes_of(run, loaded.source.axis)
    if not ground.pieces:
        planting.pass_over(nodes, ground.lo, ground.hi)
        return 0
    count = planting.plant(nodes, ground.pieces)
    events.emit_on_commit(
        "node.split", job_id=run.job_id, queue=run.queue, run_id=loaded.run_id, pieces=count
    )
    return count


def _finish(loaded: Loaded, looked: Ground | Sweep | None, nodes: Nodes) -> Any:
    """Nothing is left: prove it, look for rows that came back, and end the run."""
    run = loaded.run
    merge(nodes)
    verdict = verify(run)
    proved = verdict.as_json()
    if not verdict.ok:
        run_steps.finish(run, RunStatus.FAILED, reason=CORRUPT, verdict=proved)
        return Snooze(0, quiet=True)
    if not isinstance(looked, Sweep) or not looked.write(nodes):
        return LOOK_AGAIN
    _note(run, looked)
    if not looked.is_done:
        return LOOK_AGAIN
    if looked.found:
        if run.sweeps < SWEEPS:
            run.sweeps += 1
            run_rows.set_columns(run, "sweeps")
            return WaitFor(run_jobs.lanes(run, range(run.concurrency)))
        run_steps.finish(run, RunStatus.PARTIALLY_FAILED, reason=RETURNING_ROWS, verdict=proved)
        return Snooze(0, quiet=True)
    if _has_work(nodes):  # what had failed was set to be tried again meanwhile
        return WaitFor(run_jobs.lanes(run, range(run.concurrency)))
    opened = RangeFailure.objects.using(conf.get().database).filter(
        run=run, state=FailureState.OPEN
    )
    if not opened.exists():
        run_steps.finish(run, RunStatus.COMPLETED, verdict=proved)
        return _result(run)
    status = RunStatus.PARTIALLY_FAILED if verdict.rows_ok else RunStatus.FAILED
    # Not those that were waived, which have nodes too.
    count = opened.aggregate(items=Sum("items"))["items"]
    reason = f"{count:,} item{'s' if count != 1 else ''} failed"
    run_steps.finish(run, status, reason=reason, verdict=proved)
    return Snooze(0, quiet=True)


def _sweep(loaded: Loaded, nodes: Nodes) -> Sweep:
    """The next slice of the sweep, which only looks."""
    run, source = loaded.run, loaded.source
    kept = _sweep_under_way(run)
    made = Sweep() if kept is None else Sweep(at=nodes.position(kept["at"]), found=kept["found"])
    if run.probing not in ("witness", "filter") or not isinstance(source, QuerySource):
        made.is_done = True
        return made
    sweeper = Sweeper(source, nodes, made)
    sweeper.go_on(reopen=run.sweeps < SWEEPS, seconds=SWEEP_SECONDS)
    return made


def _note(run: RangeRun, sweep: Sweep) -> None:
    """Keep in the run how far its sweep is."""
    under_way = None if sweep.is_done else {SWEEP: {"at": str(sweep.at), "found": sweep.found}}
    if run.verdict != under_way:
        run.verdict = under_way
        run_rows.set_columns(run, "verdict")


def _sweep_under_way(run: RangeRun) -> dict[str, Any] | None:
    kept: dict[str, Any] | None = (run.verdict or {}).get(SWEEP)
    return kept


def _broken_lane(context: Context, run: RangeRun) -> ChildResult | None:
    """One of the last round's lanes, if all of them failed."""
    last = [one for one in context.children if (one.key or "").startswith(f"{run.rounds}:")]
    if last and all(one.status == "failed" for one in last):
        return last[0]
    return None


def _result(run: RangeRun) -> dict[str, Any]:
    sums = RangeNode.objects.using(conf.get().database).filter(run=run)
    rows = list(sums.values_list("rows_ok", "rows_failed"))
    return {
        "run": str(run.id),
        "done": sum(ok for ok, _ in rows),
        "failed": sum(failed for _, failed in rows),
    }
