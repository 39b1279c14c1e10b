"""A run is made: everything is checked that can be known before it starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction

from jobs import conf, edges
from jobs.database import DjangoDatabase
from jobs.drafts import check_parents, check_priority, check_queue
from jobs.errors import InvalidInput
from jobs.moments import parse_moment
from jobs.payloads import check_json
from ranges.axes import Axis, describe
from ranges.bounding import bounds_of
from ranges.declaring import RangeJob
from ranges.loading import work_alias
from ranges.models import RangeRun
from ranges.options import Options
from ranges.run_rows import audited, set_bounds, tell


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
        if value is not None and not isinstance(value, Mapping):
            raise InvalidInput("must be an object", field=name)
        check_json(dict(value or {}), name)
    parents = check_parents(depends_on) if depends_on else ()
    if parents:
        edges.check_known(DjangoDatabase(), parents)
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
            "depends_on": list(parents),
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
        audited("create", run, by)
        tell("range.created", run)
    return run


def _key_json(axis: Axis[Any], value: Any, name: str) -> str | int | None:
    return None if value is None else axis.to_json(axis.validate(value, name))
