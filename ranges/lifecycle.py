"""What people may do to runs: one function per action, called by Python, REST, console and commands.

Each locks the run's row first, and the run's job after it; so does the job itself when it decides
what comes next (`running.py`). Each writes what it does in one transaction and tells it after the
commit. `Conflict`, `NotFound` and `InvalidInput` leave everything as it was. What a person did (`by`
is not empty) leaves an audit entry in the same transaction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F, Sum
from django.db.models.functions import Coalesce, Extract, Now

from jobs import audit, conf, edges, events
from jobs import lifecycle as jobs_lifecycle
from jobs.answers import child
from jobs.database import DjangoDatabase
from jobs.drafts import check_parents, check_priority, check_queue
from jobs.enqueueing import enqueue, settle_after_commit
from jobs.errors import Conflict, InvalidInput, NotFound
from jobs.insertion import wake
from jobs.lifecycle.rows import Act, perform
from jobs.models import Job
from jobs.payloads import check_json
from jobs.states import Status
from jobs.texts import clean
from jobs.timing import parse_moment
from ranges import planting
from ranges.axes import Axis, describe
from ranges.bounding import bounds_of
from ranges.cells import Cells
from ranges.declaring import RangeJob, check_version
from ranges.held import Lease
from ranges.loading import work_alias
from ranges.models import RangeFailure, RangeNode, RangeRun
from ranges.nodes import Nodes
from ranges.options import Options
from ranges.positions import Position
from ranges.proof import bounds_of as stored_bounds
from ranges.sources import Source
from ranges.states import ENDED, FailureState, RunStatus

RUN_TYPE, LANE_TYPE = "ranges.run", "ranges.lane"
INTERNAL = {"internal": True}
ATTEMPTS = 1_000
"""Of runs and lanes: what fails or kills is charged to the leaf, not to them."""
THRESHOLD = "failure threshold"

LIVE_LANES = """
SELECT DISTINCT (payload ->> 'index')::integer FROM jobs_job
WHERE parent_id = %(job)s::uuid AND status IN ('pending', 'processing')
"""


# Making and starting


def create(
    job_class: type[RangeJob],
    options: Options,
    *,
    start: Any = None,
    end: Any = None,
    params: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    priority: int = 2,
    queue: str = "default",
    scheduled_at: datetime | str | int | None = None,
    depends_on: Sequence[UUID | str] = (),
    by: str = "",
) -> RangeRun:
    """A run in status `created`. Everything is checked that can be known before it starts."""
    job = job_class()
    source = job.source(options)
    if options.atomic and work_alias(source) != conf.get().database:
        raise InvalidInput(
            f"must be False: the rows are in database {work_alias(source)!r}, the run is in "
            f"{conf.get().database!r}, and no transaction spans both",
            field="atomic",
        )
    if hasattr(source, "check_nulls"):
        source.check_nulls()
    axis = source.axis
    for name, value in (("params", params), ("metadata", metadata)):
        check_json(dict(value or {}), name)
    moment = None if scheduled_at is None else parse_moment(scheduled_at, "scheduled_at")
    run = RangeRun(
        name=job_class.name,
        code_version=job_class.version,
        params=dict(params or {}),
        metadata=dict(metadata or {}),
        start_options={
            "start": _key_json(axis, start, "start"),
            "end": _key_json(axis, end, "end"),
            "scheduled_at": None if moment is None else moment.isoformat(),
            "depends_on": list(check_parents(depends_on)) if depends_on else [],
            "retry": options.retry.to_json(job_class.retry),
            "nulls": options.nulls,
        },
        axis=describe(axis),
        priority=check_priority(priority),
        queue=check_queue(queue),
        concurrency=options.concurrency,
        leaf=options.leaf.on(axis).to_json(),
        max_depth=options.max_depth,
        max_attempts=options.retry.max_attempts,
        failure_threshold=options.failure_threshold,
        atomic=options.atomic,
    )
    if not source.counts_rows or (start is not None and end is not None):
        set_bounds(run, *bounds_of(source, start, end))
    with transaction.atomic(using=conf.get().database):
        run.save(force_insert=True, using=conf.get().database)
        _audit("create", run, by)
        _tell("range.created", run)
    return run


def start(run: RangeRun | UUID | str, *, by: str = "") -> RangeRun:
    """Make the job that drives the run, with the time and the dependencies given at `create`."""
    with _changing(run) as changed:
        if changed.status != RunStatus.CREATED:
            raise _conflict(changed, "it was started already")
        job = _enqueue(changed, **_start_options(changed))
        _write(changed, status=RunStatus.RUNNING, job_id=job.id, reason="")
        _tell("range.started", changed, by=by)
        _audit("start", changed, by)
    return changed


# While it runs


def pause(run: RangeRun | UUID | str, *, reason: str = "", by: str = "") -> RangeRun:
    """Begin no leaf more. What runs goes on to the end of its leaf."""
    with _changing(run) as changed:
        if changed.status == RunStatus.PAUSED:
            return changed
        if changed.status != RunStatus.RUNNING:
            raise _conflict(changed, "only a running run can be paused")
        _pause(changed, reason, by)
        _audit("pause", changed, by, reason)
    return changed


def halt(run: RangeRun | UUID | str, reason: str) -> bool:
    """Pause a run for a reason of its own; False if it does not run."""
    with _changing(run) as changed:
        if changed.status != RunStatus.RUNNING:
            return False
        _pause(changed, reason, "")
    return True


def resume(
    run: RangeRun | UUID | str, *, code_version: str | None = None, by: str = ""
) -> RangeRun:
    """Go on where it stopped. What failed so far no longer counts for the threshold.

    `code_version`: with that version of its class from now on; else with the one that it goes by.
    """
    if code_version is not None:
        check_version(code_version, "code_version")
    with _changing(run) as changed:
        if changed.status == RunStatus.RUNNING:
            return changed
        if changed.status != RunStatus.PAUSED:
            raise _conflict(changed, "only a paused run can be resumed")
        if code_version is not None:
            _write(changed, code_version=code_version)
        _go_on(changed)
        _tell("range.resumed", changed, by=by)
        _audit("resume", changed, by)
    return changed


def cancel(run: RangeRun | UUID | str, *, reason: str = "", by: str = "") -> RangeRun:
    """End it for good, wherever it is. Leaves that run see `context.cancelled`."""
    with _changing(run) as changed:
        if changed.status in ENDED:
            if changed.status == RunStatus.CANCELLED:
                return changed
            raise _conflict(changed, "it has ended")
        _stop_clock(changed)
        _write(
            changed,
            status=RunStatus.CANCELLED,
            reason=clean(reason, 1_000),
            finished_at=Now(),
        )
        if changed.job_id is not None:
            with suppress(Conflict, NotFound), audit.left_out():
                jobs_lifecycle.cancel(
                    changed.job_id, by=by, reason=reason or "the run was cancelled"
                )
        if changed.planned:
            nodes_of(changed).release_orphans()
        _tell("range.cancelled", changed, by=by, reason=reason)
        _audit("cancel", changed, by, reason)
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
    with _changing(run) as changed:
        if changed.status in ENDED:
            raise _conflict(changed, "it has ended")
        before = changed.concurrency
        _write(changed, concurrency=concurrency)
        if changed.status == RunStatus.RUNNING and changed.job_id is not None:
            perform(lambda act: _add_lanes(act, changed), by=by)
        _tell("range.retuned", changed, by=by, before=before, concurrency=concurrency)
        if before != concurrency:
            tuned = {"before": {"concurrency": before}, "after": {"concurrency": concurrency}}
            _audit("retune", changed, by, data=tuned)
    return changed


# What failed


def retry_failed(
    run: RangeRun | UUID | str, *, failures: Sequence[int] | None = None, by: str = ""
) -> int:
    """Work at the open failures again, or at these alone; returns how many.

    A run that has ended runs again.
    """
    with _changing(run) as changed:
        if changed.status in (RunStatus.CREATED, RunStatus.CANCELLED, RunStatus.COMPLETED):
            raise _conflict(changed, "there is nothing to be retried")
        for id in failures or ():
            _open_failure(id, changed)
        count = revive(changed, failures=failures, by=by)
        if changed.status in ENDED:
            _reopen(changed)
        _tell("range.retried", changed, by=by, failures=count)
        _audit("retry_failed", changed, by, changed=count)
    return count


def waive(failure: RangeFailure | int, reason: str, *, by: str = "") -> RangeFailure:
    """Close a failure by decision. With the last open one, a run that failed is judged again."""
    text = clean(str(reason), 1_000).strip()
    if not text:
        raise InvalidInput("must say why", field="reason")
    alias = conf.get().database
    id = failure.id if isinstance(failure, RangeFailure) else failure
    with transaction.atomic(using=alias):
        run = _locked(_failure(id).run_id)
        found = _open_failure(id, run)
        found.state, found.reason, found.resolved_by = FailureState.WAIVED, text, clean(by, 150)
        found.resolved_at = Now()
        found.save(update_fields=["state", "reason", "resolved_by", "resolved_at"])
        found.refresh_from_db()
        opened = RangeFailure.objects.using(alias).filter(run=run, state=FailureState.OPEN)
        if run.status in (RunStatus.FAILED, RunStatus.PARTIALLY_FAILED) and not opened.exists():
            _reopen(run)
        _audit("waive", run, by, text, data={"failure": id})
    return found


def _failure(id: object) -> RangeFailure:
    rows = RangeFailure.objects.using(conf.get().database)
    is_number = isinstance(id, int) and not isinstance(id, bool)
    found = rows.filter(id=id).first() if is_number else None
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


# For the run's own job, which holds the row


def revive(run: RangeRun, *, failures: Sequence[int] | None = None, by: str = "") -> int:
    """Turn the open failures, or these of them, back into work. The caller holds the run's row."""
    alias = conf.get().database
    opened = RangeFailure.objects.using(alias).filter(run=run, state=FailureState.OPEN)
    if failures is not None:
        opened = opened.filter(id__in=failures)
    ids = sorted({id for id in opened.values_list("node_id", flat=True) if id is not None})
    nodes = nodes_of(run) if run.planned else None
    for id in ids:
        assert nodes is not None
        planting.revive(nodes, id)
    count = opened.update(state=FailureState.RETRIED, resolved_at=Now(), resolved_by=clean(by, 150))
    _forgive(run)
    return count


def lanes(run: RangeRun, indices: Sequence[int]) -> list[Any]:
    """The lanes of one round, as children of the run's job; counts the round."""
    _write(run, rounds=run.rounds + 1)
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


def finish(run: RangeRun, status: RunStatus, *, reason: str = "", verdict: Any = None) -> None:
    """The run has ended. The caller holds its row."""
    _stop_clock(run)
    _write(run, status=status, reason=reason, verdict=verdict, finished_at=Now())
    _tell(f"range.{status}", run, reason=reason)


def pause_held(run: RangeRun, reason: str) -> None:
    """`halt` for who holds the row already."""
    _pause(run, reason, "")


def retry_held(run: RangeRun) -> None:
    """`retry_failed` for the run's own job, which was retried as a dead letter."""
    revive(run)
    _forgive(run)
    _write(run, status=RunStatus.RUNNING, reason="", finished_at=None, sweeps=0)
    _tell("range.retried", run)


def set_columns(run: RangeRun, *names: str) -> None:
    _write(run, **{name: getattr(run, name) for name in names})


def start_clock(run: RangeRun) -> None:
    """From now on the run's time counts; the first time is its start."""
    if run.resumed_at is None:
        _write(run, resumed_at=Now(), started_at=Coalesce("started_at", Now()))


def set_bounds(run: RangeRun, lo: Position, hi: Position) -> None:
    if isinstance(lo, str):
        run.lo_key, run.hi_key = lo, str(hi)
    else:
        run.lo, run.hi = lo, hi


def nodes_of(run: RangeRun, axis: Axis[Any] | None = None) -> Nodes:
    """The statements of a planned run, for who owns no node."""
    from ranges.axes import restore

    lo, hi = stored_bounds(run)
    assert lo is not None
    assert hi is not None
    is_ordinal = isinstance(lo, int)
    if axis is None:
        # Of an axis of somebody's own only the ordinals matter here.
        axis = restore(run.axis if not is_ordinal else {"type": "int"})
    return Nodes(
        DjangoDatabase(),
        str(run.id),
        Cells(axis, lo, hi),
        Lease(job_id=str(run.job_id or run.id), epoch=-1),
        is_ordinal=is_ordinal,
    )


def planned_bounds(run: RangeRun, source: Source) -> tuple[Position, Position]:
    """The bounds that were asked for, fixed now."""
    lo, hi = stored_bounds(run)
    if lo is not None and hi is not None:
        return lo, hi
    asked = run.start_options
    return bounds_of(source, asked.get("start"), asked.get("end"))


# One step of each


@contextmanager
def _changing(given: RangeRun | UUID | str) -> Iterator[RangeRun]:
    """Lock a run's row for a change, in a transaction; the instance given is brought up to date."""
    with transaction.atomic(using=conf.get().database):
        run = _locked(getattr(given, "id", given))
        yield run
    if isinstance(given, RangeRun):
        for name in (each.attname for each in RangeRun._meta.concrete_fields):  # noqa: SLF001
            setattr(given, name, getattr(run, name))


def _locked(id: Any) -> RangeRun:
    try:
        wanted = UUID(str(id))
    except ValueError:
        raise NotFound("range run", clean(str(id), 60)) from None
    found = (
        RangeRun.objects.using(conf.get().database)
        .select_for_update(no_key=True)
        .filter(id=wanted)
        .first()
    )
    if found is None:
        raise NotFound("range run", str(id))
    return found


def _write(run: RangeRun, **values: Any) -> None:
    """Change columns of a locked row, and read back what the database made of them."""
    for name, value in {**values, "updated_at": Now()}.items():
        setattr(run, name, value)
    run.save(update_fields=[*values, "updated_at"], using=conf.get().database)
    run.refresh_from_db(fields=[*values, "updated_at"])


def _stop_clock(run: RangeRun) -> None:
    """Add the time since the last resume to the run's active seconds."""
    if run.resumed_at is not None:
        since = Extract(Now() - F("resumed_at"), "epoch")
        _write(run, active_seconds=F("active_seconds") + since, resumed_at=None)


def _pause(run: RangeRun, reason: str, by: str) -> None:
    _stop_clock(run)
    _write(run, status=RunStatus.PAUSED, reason=clean(reason, 1_000))
    _tell("range.paused", run, by=by, reason=reason)


def _go_on(run: RangeRun) -> None:
    """Set a stopped run going: its row, then its job."""
    _forgive(run)
    _write(run, status=RunStatus.RUNNING, reason="", finished_at=None)
    if run.planned:
        start_clock(run)
    alias = conf.get().database
    jobs = Job.objects.using(alias).select_for_update(no_key=True)
    job = None if run.job_id is None else jobs.filter(pk=run.job_id).first()
    if job is None or job.status in (Status.COMPLETED, Status.CANCELLED):
        _write(run, job_id=_enqueue(run).id)
    elif job.status == Status.FAILED:
        jobs_lifecycle.retry(job.id)
    elif job.status == Status.PENDING and job.due_at is None and not job.unmet_dependencies:
        jobs_lifecycle.release(job.id)


def _reopen(run: RangeRun) -> None:
    """A run that has ended is to be judged again, after the work that there is by now."""
    _write(run, sweeps=0)
    _go_on(run)


def _forgive(run: RangeRun) -> None:
    """What was attempted and failed until now is no reason to stop again."""
    sums = RangeNode.objects.using(conf.get().database).filter(run=run)
    done, failed = sums.aggregate(
        done=Coalesce(Sum("rows_ok"), 0), failed=Coalesce(Sum("rows_failed"), 0)
    ).values()
    _write(run, forgiven_items=int(done) + int(failed), forgiven_failures=int(failed))


def _enqueue(run: RangeRun, **options: Any) -> Job:
    return enqueue(
        RUN_TYPE,
        {"run": str(run.id)},
        priority=run.priority,
        queue=run.queue,
        max_attempts=ATTEMPTS,
        metadata=INTERNAL,
        **options,
    )


def _start_options(run: RangeRun) -> dict[str, Any]:
    given = run.start_options
    return {
        "scheduled_at": given.get("scheduled_at"),
        "depends_on": tuple(given.get("depends_on") or ()),
    }


def _add_lanes(act: Act, run: RangeRun) -> None:
    """More lanes for a run whose job waits for its lanes; else its next step makes them."""
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


def _key_json(axis: Axis[Any], value: Any, name: str) -> str | int | None:
    return None if value is None else axis.to_json(axis.validate(value, name))


def _conflict(run: RangeRun, why: str) -> Conflict:
    return Conflict(f"run {run.id} is {run.status}: {why}")


def _audit(
    action: str,
    run: RangeRun,
    by: str,
    reason: str = "",
    *,
    changed: int = 1,
    data: Mapping[str, Any] | None = None,
) -> None:
    audit.record(
        f"range.{action}",
        actor=by,
        scope=f"range run {run.id} ({run.name})",
        object_id=str(run.id),
        changed=changed,
        reason=reason,
        data=data,
    )


def _tell(name: str, run: RangeRun, **facts: Any) -> None:
    given = {key: value for key, value in facts.items() if value != ""}
    events.emit_on_commit(
        name, job_id=run.job_id, queue=run.queue, run_id=str(run.id), job=run.name, **given
    )
