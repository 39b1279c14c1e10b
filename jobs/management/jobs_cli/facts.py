"""A job as a row of a table and as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from rich.table import Table
from rich.text import Text

from jobs.doctor.findings import age
from jobs.management.arguments import shown
from jobs.models import Job
from jobs.states import State

COLOURS = {
    State.READY: "cyan",
    State.SCHEDULED: "blue",
    State.RETRYING: "yellow",
    State.BLOCKED: "magenta",
    State.HELD: "magenta",
    State.RUNNING: "bold cyan",
    State.CANCELLING: "yellow",
    State.COMPLETED: "green",
    State.DEAD: "bold red",
    State.CANCELLED: "dim",
}
COLUMNS = (
    "type",
    "queue",
    "status",
    "priority",
    "attempt_count",
    "max_attempts",
    "scheduled_at",
    "next_retry_at",
    "due_at",
    "hold_reason",
    "unmet_dependencies",
    "on_parent_failure",
    "child_key",
    "unique_key",
    "progress_done",
    "progress_total",
    "last_error",
    "created_at",
    "updated_at",
    "started_at",
    "completed_at",
    "failed_at",
    "cancelled_at",
    "cancel_requested_at",
    "lease_epoch",
)


def facts(job: Job, now: float) -> dict[str, Any]:
    """Everything but payload, metadata and result."""
    row: dict[str, Any] = {"id": str(job.id), "state": job.state_at(now).value}
    row |= {name: _plain(getattr(job, name)) for name in COLUMNS}
    for name in ("parent_id", "schedule_id", "worker_id"):
        value = getattr(job, name)
        row[name] = None if value is None else str(value)
    return row


def table(jobs: list[Job], now: float) -> Table:
    made = Table(box=None, pad_edge=False, header_style="bold")
    made.add_column("id", no_wrap=True)
    for name in ("state", "type", "queue", "priority", "attempts", "when", "error"):
        made.add_column(name, overflow="ellipsis", no_wrap=name != "error", max_width=60)
    for job in jobs:
        made.add_row(
            str(job.id),
            state_text(job, now),
            shown(job.type),
            shown(job.queue),
            str(job.priority),
            f"{job.attempt_count}/{job.max_attempts}",
            when(job, now),
            shown(job.last_error[:60].replace("\n", " ")),
        )
    return made


def state_text(job: Job, now: float) -> Text:
    state = job.state_at(now)
    return Text(state.value, style=COLOURS[state])


def when(job: Job, now: float) -> str:
    """The time that matters in the job's state, as seen from now."""
    match job.state_at(now):
        case State.SCHEDULED | State.RETRYING:
            return _from_now("due in", job.due_at, now)
        case State.READY:
            return _from_now("waits", job.due_at, now)
        case State.RUNNING | State.CANCELLING:
            return _from_now("runs", job.started_at, now)
        case State.COMPLETED:
            return _from_now("ended", job.completed_at, now, " ago")
        case State.DEAD:
            return _from_now("died", job.failed_at, now, " ago")
        case State.CANCELLED:
            return _from_now("ended", job.cancelled_at, now, " ago")
        case _:
            return _from_now("created", job.created_at, now, " ago")


def _from_now(word: str, at: datetime | None, now: float, end: str = "") -> str:
    return "" if at is None else f"{word} {age(abs(at.timestamp() - now))}{end}"


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value
