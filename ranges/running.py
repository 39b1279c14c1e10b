"""The job of a run: one idempotent step each time it is called, until the run has ended.

    not planned -> plan, plant strands -> WaitFor lanes
    paused      -> Hold; resume releases it
    work left   -> WaitFor lanes again
    none left   -> verify, sweep -> completed, or partially_failed, or failed

The step is one transaction with the job's own end, and holds the run's row: so whoever pauses,
resumes or cancels sees the job either before the step, or after what the step decided is written.
A run that has failed is marked so by one step and dead-lettered by the next, since an error would
undo the mark.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db import transaction

from jobs import conf, events
from jobs.answers import ChildResult, Discard, Hold, JobCancelled, Snooze, WaitFor
from jobs.context import Context
from jobs.errors import InvalidInput
from ranges import guard, lifecycle, planting
from ranges.bounding import least_leaf
from ranges.loading import Halted, Loaded, load_to_work
from ranges.models import RangeFailure, RangeNode, RangeRun
from ranges.nodes import Nodes
from ranges.positions import before
from ranges.proof import verify
from ranges.querying import QuerySource
from ranges.sizing import LeafSizer
from ranges.sources import ProbeTimeout
from ranges.splitting import start_pieces
from ranges.states import FailureState, NodeState, RunStatus

SWEEPS = 3
SWEEP_TRIES = 3
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
        if context.children:
            raise Discard(run.reason or str(run.status))
        # A retried dead letter has waited for nobody yet: that is retry_failed.
        lifecycle.retry_held(run)
    match run.status:
        case RunStatus.CREATED:
            return Hold("the run was not started")
        case RunStatus.PAUSED:
            if run.planned:
                lifecycle.nodes_of(run).release_orphans()
            return Hold(f"the run is paused: {run.reason}" if run.reason else "the run is paused")
        case RunStatus.CANCELLED:
            raise JobCancelled("the run was cancelled")
        case RunStatus.COMPLETED:
            return _result(run)
    try:
        with transaction.atomic(using=alias):
            return _advance(load_to_work(run), context)
    except (Halted, InvalidInput) as error:
        run.refresh_from_db()  # the savepoint has undone what the instance says
        lifecycle.pause_held(run, str(error))
        if detail := getattr(error, "detail", ""):
            context.log.error(detail)
        return Hold(str(error))


def _advance(loaded: Loaded, context: Context) -> Any:
    run = loaded.run
    if not run.planned:
        count = plan(loaded)
        lifecycle.start_clock(run)
        if count:
            return WaitFor(lifecycle.lanes(run, range(min(run.concurrency, count))))
    lifecycle.start_clock(run)
    nodes = lifecycle.nodes_of(run, loaded.source.axis)
    _, pending, running, _ = nodes.open()
    if pending or running:
        failed = _broken_lane(context, run)
        if failed is not None:
            # What it says may quote what is not for everybody.
            context.log.error(failed.error)
            lifecycle.pause_held(run, f"no lane could work; see job {failed.job_id}")
            return Hold(run.reason)
        return WaitFor(lifecycle.lanes(run, range(run.concurrency)))
    return _finish(loaded, nodes)


def plan(loaded: Loaded) -> int:
    """Fix the bounds, choose how finished work is passed over, plant the strands."""
    run, source = loaded.run, loaded.source
    lo, hi = lifecycle.planned_bounds(run, source)
    lifecycle.set_bounds(run, lo, hi)
    run.probing = _probing(loaded)
    if hasattr(source, "probing") and run.probing in ("witness", "filter"):
        source.probing = run.probing
    run.planned = True
    bounds = [name for name in ("lo", "hi", "lo_key", "hi_key") if getattr(run, name) is not None]
    lifecycle.set_columns(run, "probing", "planned", *bounds)
    if not before(lo, hi):
        return 0
    options = loaded.options
    run.rows_estimate = min(source.estimate(lo, hi), 2**63 - 1)
    lifecycle.set_columns(run, "rows_estimate")
    sizer = LeafSizer(options.leaf, least=least_leaf(source, (lo, hi), options.max_depth))
    pieces = start_pieces(source, lo, hi, concurrency=run.concurrency, leaf_size=sizer.size())
    count = planting.plant(lifecycle.nodes_of(run, source.axis), pieces)
    events.emit_on_commit(
        "node.split", job_id=run.job_id, queue=run.queue, run_id=loaded.run_id, pieces=count
    )
    return count


def _probing(loaded: Loaded) -> str:
    if loaded.job.asks():
        return "blocks"
    source = loaded.source
    if not isinstance(source, QuerySource) or source.probing != "witness":
        return "none"
    return str(guard.judge(source).probing)


def _finish(loaded: Loaded, nodes: Nodes) -> Any:
    """Nothing is left: prove it, look for rows that came back, and end the run."""
    run = loaded.run
    verdict = verify(run)
    if not verdict.ok:
        lifecycle.finish(run, RunStatus.FAILED, reason=CORRUPT, verdict=verdict.as_json())
        return Snooze(0, quiet=True)
    found, unseen = sweep(loaded, nodes, reopen=run.sweeps < SWEEPS)
    proved = {**verdict.as_json(), "unswept": unseen}
    if found:
        if run.sweeps < SWEEPS:
            run.sweeps += 1
            lifecycle.set_columns(run, "sweeps")
            return WaitFor(lifecycle.lanes(run, range(run.concurrency)))
        lifecycle.finish(run, RunStatus.PARTIALLY_FAILED, reason=RETURNING_ROWS, verdict=proved)
        return Snooze(0, quiet=True)
    opened = RangeFailure.objects.using(conf.get().database).filter(
        run=run, state=FailureState.OPEN
    )
    if not opened.exists():
        lifecycle.finish(run, RunStatus.COMPLETED, verdict=proved)
        return _result(run)
    status = RunStatus.PARTIALLY_FAILED if verdict.rows_ok else RunStatus.FAILED
    count = verdict.rows_failed
    reason = f"{count:,} item{'s' if count != 1 else ''} failed"
    lifecycle.finish(run, status, reason=reason, verdict=proved)
    return Snooze(0, quiet=True)


def sweep(loaded: Loaded, nodes: Nodes, *, reopen: bool) -> tuple[int, int]:
    """Look once more where all is done; returns how many nodes hold keys that need work again, and
    how many could not be looked into, as the probe ran out of time each time it was tried.

    Only a declared `todo` can tell. Nodes of failed keys are left alone: that their rows still
    need work is known.
    """
    source = loaded.source
    if loaded.run.probing != "witness":
        return 0, 0
    done = planting.in_state(nodes, NodeState.DONE, NodeState.SKIPPED)
    found = unseen = index = 0
    tries = SWEEP_TRIES
    while index < len(done):
        # Neighbours are asked about in one question.
        last = index
        while last + 1 < len(done) and done[last][3] == done[last + 1][2]:
            last += 1
        lo, hi = done[index][2], done[last][3]
        try:
            witness = source.next_leaf(lo, hi, 1)
        except ProbeTimeout:
            tries -= 1
            if not tries:
                unseen += last + 1 - index
                index, tries = last + 1, SWEEP_TRIES
            continue
        tries = SWEEP_TRIES
        if witness is None:
            index = last + 1
            continue
        while not before(witness.first, done[index][3]):
            index += 1
        id, _, node_lo, node_hi = done[index]
        if reopen:
            planting.reopen(nodes, id, node_lo, node_hi, witness.first)
        found += 1
        index += 1
    return found, unseen


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
