"""A run together with the code that it names."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from jobs import conf
from jobs.errors import CoppiceError, InvalidInput
from jobs.texts import describe_error
from ranges import declaring
from ranges.axes import describe
from ranges.cells import Cells
from ranges.declaring import RangeJob
from ranges.models import RangeRun
from ranges.options import Options
from ranges.positions import Position, key_at
from ranges.proof import bounds_of
from ranges.sizing import Leaf
from ranges.sources import Source


class Halted(CoppiceError):
    """The run cannot go on: its code is missing, or no longer fits what was stored.

    `detail` may quote an error of the user's code, so it is for those who may read errors only.
    """

    def __init__(self, message: str, *, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail


@dataclass(frozen=True, kw_only=True)
class Loaded:
    run: RangeRun
    job: RangeJob
    options: Options
    source: Source

    @property
    def run_id(self) -> str:
        return str(self.run.id)

    @property
    def bounds(self) -> tuple[Position, Position]:
        lo, hi = bounds_of(self.run)
        assert lo is not None
        assert hi is not None
        return lo, hi

    @property
    def is_blind(self) -> bool:
        """Finished work is not looked for: each leaf filters for itself."""
        return self.run.probing == "filter"

    @property
    def hard_seconds(self) -> float | None:
        """After so long a leaf is taken away from its lane."""
        hard = self.options.leaf.hard_timeout
        return None if hard is None else float(hard)  # type: ignore[arg-type]

    def cells(self) -> Cells:
        return Cells(self.source.axis, *self.bounds)

    def key_json(self, position: Position) -> str:
        """A key as failures store it."""
        axis = self.source.axis
        return str(axis.to_json(key_at(axis, position)))


def load(run: RangeRun) -> Loaded:
    """Find the code of a run. Raises Halted with the reason for whoever looks at the run."""
    job_class = declaring.find(run.name)
    if job_class is None:
        raise Halted(f"no range job is called {run.name!r} in this worker's code")
    try:
        job = job_class()
        options = stored_options(job_class, run)
        source = job.source(options)
        if _scale(describe(source.axis)) != _scale(run.axis):
            raise Halted(f"{run.name} has keys of another type than when the run was made")
    except Halted:
        raise
    except InvalidInput as error:
        raise Halted(f"{run.name} cannot be loaded: {error}") from error
    except Exception as error:
        name = type(error).__name__
        raise Halted(
            f"{run.name} cannot be loaded: {name}", detail=describe_error(error)
        ) from error
    if options.atomic and work_alias(source) != conf.get().database:
        raise Halted(f"{run.name} has its rows in another database than when the run was made")
    if run.probing in ("witness", "filter") and hasattr(source, "probing"):
        source.probing = run.probing
    return Loaded(run=run, job=job, options=options, source=source)


def load_to_work(run: RangeRun) -> Loaded:
    """The same for who goes on with it: only with the version of the code that it goes by."""
    job_class = declaring.find(run.name)
    if job_class is not None and job_class.version != run.code_version:
        raise Halted(
            f"{run.name} has version {job_class.version!r} here, and the run goes by version"
            f" {run.code_version!r}: resume it with code_version={job_class.version!r} to change over"
        )
    return load(run)


def stored_options(job_class: type[RangeJob], run: RangeRun) -> Options:
    """The options that the run was made with; what it does not store is the class's."""
    kept = run.start_options
    retry = job_class.retry.with_kept(kept.get("retry") or {})
    return job_class.options(
        leaf=Leaf.from_json(run.leaf),
        concurrency=run.concurrency,
        failure_threshold=run.failure_threshold,
        max_depth=run.max_depth,
        atomic=run.atomic,
        retry=replace(retry, max_attempts=run.max_attempts),
        nulls=kept.get("nulls"),
    )


def _scale(axis: dict[str, Any]) -> tuple[Any, ...]:
    """What the meaning of a position depends on: the rest only says where to cut, or how to cast."""
    return axis.get("type"), axis.get("decimal_places")


def work_alias(source: Source) -> str:
    """The database that holds the rows of a run."""
    alias: Any = getattr(source, "alias", None)
    return alias or conf.get().database
