"""A run as plain values: for the API, the command line and the console."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from jobs import conf
from jobs.database import DjangoDatabase
from jobs.errors import CoppiceError
from jobs.models import Job
from jobs.reasons import why_not_running
from jobs.states import Status
from ranges.drawing import axis_of, key_json
from ranges.loading import Halted, load
from ranges.models import RangeRun
from ranges.progress import Progress
from ranges.proof import Verdict, bounds_of, sweep_probe
from ranges.sources import ProbeTimeout
from ranges.states import ENDED, RunStatus

NOW = "SELECT extract(epoch FROM statement_timestamp())::float8"
COLUMNS = (
    "name",
    "status",
    "reason",
    "priority",
    "queue",
    "concurrency",
    "leaf",
    "max_depth",
    "max_attempts",
    "failure_threshold",
    "atomic",
    "probing",
    "created_at",
    "started_at",
    "finished_at",
)


def facts(run: RangeRun) -> dict[str, Any]:
    """Everything but params and metadata."""
    lo, hi = bounds(run)
    row: dict[str, Any] = {
        "id": str(run.id),
        "job_id": None if run.job_id is None else str(run.job_id),
        "lo": lo,
        "hi": hi,
    }
    return row | {name: _plain(getattr(run, name)) for name in COLUMNS}


def bounds(run: RangeRun) -> tuple[Any, Any]:
    """In their JSON form. Of a run that was not planned, what was asked for."""
    lo, hi = bounds_of(run)
    if lo is None or hi is None:
        return run.start_options.get("start"), run.start_options.get("end")
    try:
        axis = axis_of(run)
    except CoppiceError:
        # A key type of somebody's own, whose code is not here.
        return str(lo), str(hi)
    return key_json(axis, lo), key_json(axis, hi)


def why_idle(run: RangeRun, known: Progress) -> list[str]:
    """Why a run that should be at work is not."""
    if run.status != RunStatus.RUNNING or known.lanes or run.job_id is None:
        return []
    database = DjangoDatabase()
    jobs = Job.objects.using(conf.get().database)
    lane = jobs.filter(parent_id=run.job_id, status=Status.PENDING).order_by("id").first()
    job = lane or jobs.filter(id=run.job_id).first()
    if job is None:
        return ["the job that drives it is gone: cancel it, or pause and resume it"]
    return why_not_running(database, job, float(database.rows(NOW, {})[0][0]))


def findings(run: RangeRun, verdict: Verdict, *, must_be_complete: bool = False) -> list[str]:
    """What is wrong. Of a run that goes on, or was cancelled, something may be left."""
    has_ended = run.status in ENDED and run.status != RunStatus.CANCELLED
    if not must_be_complete and not has_ended:
        if not run.planned:
            return []
        return list(replace(verdict, unfinished=0, open_failures=0).problems)
    found = list(verdict.problems)
    if not verdict.unfinished and (key := _comes_back(run)):
        found.append(key)
    return found


def _comes_back(run: RangeRun) -> str:
    """A row that needs work although its key was passed; empty: none, or nobody can tell."""
    if run.probing != "witness":
        return ""
    try:
        source = load(run).source
        position = sweep_probe(run, source)
    except (Halted, ProbeTimeout):
        return ""
    return "" if position is None else f"the row at {key_json(source.axis, position)} needs work"


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value
