"""A run as JSON, and what tables show of it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from rich.text import Text

from jobs.errors import CoppiceError
from ranges.drawing import axis_of, key_json
from ranges.models import RangeRun
from ranges.proof import bounds_of
from ranges.states import FailureState, NodeState, RunStatus

COLOURS = {
    RunStatus.CREATED: "blue",
    RunStatus.RUNNING: "bold cyan",
    RunStatus.PAUSED: "yellow",
    RunStatus.COMPLETED: "green",
    RunStatus.PARTIALLY_FAILED: "bold red",
    RunStatus.FAILED: "bold red",
    RunStatus.CANCELLED: "dim",
}
NODE_COLOURS = {
    NodeState.PENDING: "blue",
    NodeState.RUNNING: "bold cyan",
    NodeState.DONE: "green",
    NodeState.SKIPPED: "dim",
    NodeState.ERROR: "bold red",
}
FAILURE_COLOURS = {
    FailureState.OPEN: "bold red",
    FailureState.RETRIED: "yellow",
    FailureState.WAIVED: "dim",
}
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


def status_text(status: str) -> Text:
    return Text(status, style=COLOURS[RunStatus(status)])


def in_table(key: Any) -> str:
    """A key for people: numbers in groups of three."""
    if key is None:
        return ""
    return f"{key:,}" if isinstance(key, int) else str(key)


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value
