"""The row of a run, for whoever changes it: locked first, written, and told of after the commit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F, QuerySet, Sum
from django.db.models.functions import Coalesce, Extract, Now

from jobs import audit, conf, events
from jobs.database import DjangoDatabase
from jobs.errors import Conflict, NotFound
from jobs.texts import clean
from ranges.axes import Axis, restore
from ranges.bounding import bounds_of
from ranges.cells import Cells
from ranges.held import Lease
from ranges.models import RangeNode, RangeRun
from ranges.nodes import Nodes
from ranges.positions import Position
from ranges.proof import bounds_of as stored_bounds
from ranges.sources import Source


@contextmanager
def changing(given: RangeRun | UUID | str) -> Iterator[RangeRun]:
    """Lock a run's row for a change, in a transaction; the instance given is brought up to date."""
    with transaction.atomic(using=conf.get().database):
        run = locked(getattr(given, "id", given))
        yield run
    if isinstance(given, RangeRun):
        for name in (each.attname for each in RangeRun._meta.concrete_fields):  # noqa: SLF001
            setattr(given, name, getattr(run, name))


def locked(id: Any) -> RangeRun:
    return _found(RangeRun.objects.using(conf.get().database).select_for_update(no_key=True), id)


def stored(id: Any) -> RangeRun:
    """As it is now, and held by nobody."""
    return _found(RangeRun.objects.using(conf.get().database), id)


def _found(runs: QuerySet[RangeRun], id: Any) -> RangeRun:
    try:
        wanted = UUID(str(id))
    except ValueError:
        raise NotFound("range run", clean(str(id), 60)) from None
    found = runs.filter(id=wanted).first()
    if found is None:
        raise NotFound("range run", str(id))
    return found


def write(run: RangeRun, **values: Any) -> None:
    """Change columns of a locked row, and read back what the database made of them."""
    for name, value in {**values, "updated_at": Now()}.items():
        setattr(run, name, value)
    run.save(update_fields=[*values, "updated_at"], using=conf.get().database)
    run.refresh_from_db(fields=[*values, "updated_at"])


def set_columns(run: RangeRun, *names: str) -> None:
    write(run, **{name: getattr(run, name) for name in names})


def set_bounds(run: RangeRun, lo: Position, hi: Position) -> None:
    if isinstance(lo, str):
        run.lo_key, run.hi_key = lo, str(hi)
    else:
        run.lo, run.hi = lo, hi


def planned_bounds(run: RangeRun, source: Source) -> tuple[Position, Position]:
    """The bounds that were asked for, fixed now."""
    lo, hi = stored_bounds(run)
    if lo is not None and hi is not None:
        return lo, hi
    asked = run.start_options
    return bounds_of(source, asked.get("start"), asked.get("end"))


def start_clock(run: RangeRun) -> None:
    """From now on the run's time counts; the first time is its start."""
    if run.resumed_at is None:
        write(run, resumed_at=Now(), started_at=Coalesce("started_at", Now()))


def stop_clock(run: RangeRun) -> None:
    """Add the time since the last resume to the run's active seconds."""
    if run.resumed_at is not None:
        since = Extract(Now() - F("resumed_at"), "epoch")
        write(run, active_seconds=F("active_seconds") + since, resumed_at=None)


def forgive(run: RangeRun) -> None:
    """What was attempted and failed until now is no reason to stop again."""
    sums = RangeNode.objects.using(conf.get().database).filter(run=run)
    done, failed = sums.aggregate(
        done=Coalesce(Sum("rows_ok"), 0), failed=Coalesce(Sum("rows_failed"), 0)
    ).values()
    write(run, forgiven_items=int(done) + int(failed), forgiven_failures=int(failed))


def nodes_of(run: RangeRun, axis: Axis[Any] | None = None) -> Nodes:
    """The statements of a planned run, for who owns no node."""
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


def conflict(run: RangeRun, why: str) -> Conflict:
    return Conflict(f"run {run.id} is {run.status}: {why}")


def tell(name: str, run: RangeRun, **facts: Any) -> None:
    given = {key: value for key, value in facts.items() if value != ""}
    events.emit_on_commit(
        name, job_id=run.job_id, queue=run.queue, run_id=str(run.id), job=run.name, **given
    )


def audited(
    action: str,
    run: RangeRun,
    by: str,
    reason: str = "",
    *,
    changed: int = 1,
    data: Mapping[str, Any] | None = None,
) -> None:
    """What a person did leaves an entry, in the caller's transaction."""
    audit.record(
        f"range.{action}",
        actor=by,
        scope=f"range run {run.id} ({run.name})",
        object_id=str(run.id),
        changed=changed,
        reason=reason,
        data=data,
    )
