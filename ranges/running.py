"""The job of a run: one idempotent step each time it is called, until the run has ended.

    not planned -> plan, plant strands -> WaitFor lanes
    paused      -> Hold; resume releases it
    work left   -> WaitFor lanes again
    none left   -> verify, sweep (in slices) -> completed, or partially_failed, or failed

The step is one transaction with the job's own end, and holds the run's row: so whoever pauses,
resumes or cancels sees the job either before the step, or after what the step decided is written.
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
from ranges import guard, planting, run_jobs, run_rows, run_steps
from ranges.bounding import least_leaf
from ranges.leaves import MOST_ITEMS
from ranges.loading import Halted, Loaded, load_to_work
from ranges.merging import merge
from ranges.models import RangeFailure, RangeNode, RangeRun
from ranges.nodes import Nodes
from ranges.positions import Position, before
from ranges.proof import verify
from ranges.querying import QuerySource
from ranges.sizing import LeafSizer
from ranges.sources import ProbeTimeout, Source
from ranges.splitting import start_pieces
from ranges.states import FailureState, RunStatus
from ranges.stumbling import keeps_failing
from ranges.sweeping import Sweep, Sweeper

SWEEPS = 3
SWEEP_SECONDS = 2.0
"""After so long a sweep lets go of the run's row for a moment: somebody may want to pause it."""
SWEEP = "sweep"
RETURNING_ROWS = "rows keep coming back"
CORRUPT = "corrupt"


def step(payload: Any, context: Context) -> Any:
    """One step of the run; the caller has a transaction."""
    alias = conf.get().database
    run = (
        RangeRun.objects.using(alias)
        .select_for_update(no_key=True)
        .filter(id=UUID(str(payload["run"])), job_id=context.job_id)
        .first()
    )
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
    return _go_on(run, context)


def _has_snoozed(context: Context) -> bool:
    """Whether this job, since it was made or retried, has been through the step that ends a run."""
    jobs = Job.objects.using(conf.get().database)
    return jobs.filter(id=context.job_id, snooze_count__gt=0).exists()


def _go_on(run: RangeRun, context: Context) -> Any:
    """Advance it, or pause it with the reason why that is not possible."""
    try:
        with transaction.atomic(using=conf.get().database):
            return _advance(load_to_work(run), context)
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


def _advance(loaded: Loaded, context: Context) -> Any:
    run = loaded.run
    if not run.planned:
        count = plan(loaded, context)
        run_rows.start_clock(run)
        if count:
            return WaitFor(run_jobs.lanes(run, range(min(run.concurrency, count))))
    run_rows.start_clock(run)
    nodes = run_rows.nodes_of(run, loaded.source.axis)
    if _sweep_under_way(run) is None and _has_work(nodes):
        failed = _broken_lane(context, run)
        if failed is not None:
            # What it says may quote what is not for everybody.
            context.log.error(failed.error)
            run_steps.pause_held(run, f"no lane could work; see job {failed.job_id}")
            return Hold(run.reason)
        return WaitFor(run_jobs.lanes(run, range(run.concurrency)))
    return _finish(loaded, nodes)


def _has_work(nodes: Nodes) -> bool:
    _, pending, running, _ = nodes.open()
    return bool(pending or running)


def plan(loaded: Loaded, context: Context) -> int:
    """Fix the bounds, choose how finished work is passed over, plant the strands; how many."""
    run, source = loaded.run, loaded.source
    if isinstance(source, QuerySource):
        source.check_nulls()  # there may be some since the run was made
    lo, hi = run_rows.planned_bounds(run, source)
    run_rows.set_bounds(run, lo, hi)
    run.probing = _probing(loaded, context)
    if hasattr(source, "probing") and run.probing in ("witness", "filter"):
        source.probing = run.probing
    run.planned = True
    bounds = [name for name in ("lo", "hi", "lo_key", "hi_key") if getattr(run, name) is not None]
    run_rows.set_columns(run, "probing", "planned", *bounds)
    if not before(lo, hi):
        return 0
    nodes = run_rows.nodes_of(run, source.axis)
    if run.probing == "witness" and _is_done(source, lo, hi):
        run.rows_estimate = 0
        run_rows.set_columns(run, "rows_estimate")
        planting.pass_over(nodes, lo, hi)
        return 0
    options = loaded.options
    run.rows_estimate = _estimate(source, lo, hi)
    run_rows.set_columns(run, "rows_estimate")
    sizer = LeafSizer(options.leaf, least=least_leaf(source, (lo, hi), options.max_depth))
    pieces = start_pieces(source, lo, hi, concurrency=run.concurrency, leaf_size=sizer.size())
    count = planting.plant(nodes, pieces)
    events.emit_on_commit(
        "node.split", job_id=run.job_id, queue=run.queue, run_id=loaded.run_id, pieces=count
    )
    return count


def _estimate(source: Source, lo: Position, hi: Position) -> int | None:
    """Of what the work will count; None: the keys tell better how much is left."""
    estimate = source.estimate(lo, hi)
    if source.counts_rows:
        return min(estimate, 2**63 - 1)
    return estimate if source.axis.is_ordinal and estimate <= MOST_ITEMS else None


def _is_done(source: Source, lo: Position, hi: Position) -> bool:
    """Whether the index says that nothing needs work. Not to know is no."""
    try:
        return source.next_leaf(lo, hi, 1) is None
    except ProbeTimeout:
        return False


def _probing(loaded: Loaded, context: Context) -> str:
    """How finished work is passed over. Which index would help is said in the log of the run's job."""
    source = loaded.source
    if not isinstance(source, QuerySource):
        return "blocks" if loaded.job.asks() else "none"
    verdict = guard.judge(source)
    if verdict.warning:
        context.log.warning(verdict.warning, ddl=list(verdict.ddl))
    return "blocks" if loaded.job.asks() else str(verdict.probing)


def _finish(loaded: Loaded, nodes: Nodes) -> Any:
    """Nothing is left: prove it, look for rows that came back, and end the run."""
    run = loaded.run
    merge(nodes)
    verdict = verify(run)
    proved = verdict.as_json()
    if not verdict.ok:
        run_steps.finish(run, RunStatus.FAILED, reason=CORRUPT, verdict=proved)
        return Snooze(0, quiet=True)
    sweep = _sweep(loaded, nodes)
    if not sweep.is_done:
        return Snooze(0, quiet=True)
    if sweep.found:
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
    """A sweep, or as much of it as there is time for. In the run it is kept how far it is."""
    run, source = loaded.run, loaded.source
    kept = _sweep_under_way(run)
    if run.probing not in ("witness", "filter") or not isinstance(source, QuerySource):
        return Sweep(is_done=True)
    made = Sweep() if kept is None else Sweep(at=nodes.position(kept["at"]), found=kept["found"])
    sweeper = Sweeper(source, nodes, made)
    sweeper.go_on(reopen=run.sweeps < SWEEPS, seconds=SWEEP_SECONDS)
    under_way = None if made.is_done else {SWEEP: {"at": str(made.at), "found": made.found}}
    if run.verdict != under_way:
        run.verdict = under_way
        run_rows.set_columns(run, "verdict")
    return made


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
