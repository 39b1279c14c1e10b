"""What tables show of a run, beside its facts."""

from __future__ import annotations

from typing import Any

from rich.text import Text

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


def status_text(status: str) -> Text:
    return Text(status, style=COLOURS[RunStatus(status)])


def in_table(key: Any) -> str:
    """A key for people: numbers in groups of three."""
    if key is None:
        return ""
    return f"{key:,}" if isinstance(key, int) else str(key)
