"""The life of a job as steps, with how long each lasted. Pure: rows in, steps out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from jobs.states import State

MOST_ATTEMPTS = 6
SCHEDULED_AFTER = 1.0
"""Seconds between creation and due time from which on a job counts as scheduled."""


@dataclass(frozen=True, kw_only=True)
class Step:
    name: str
    """A state, an outcome, or "created"."""
    label: str
    at: datetime | None = None
    lasted: float | None = None
    """How long it was in this step; None: it is in it, or nobody knows."""
    note: str = ""
    is_now: bool = False


def steps(job: Any, attempts: Sequence[Any], state: State, now: datetime) -> list[Step]:
    """From its creation to where it stands. `attempts` are those that ended, oldest first."""
    first = attempts[0].started_at if attempts else job.started_at
    found = [Step(name="created", label="created", at=job.created_at)]
    due = job.scheduled_at
    was_scheduled = (due - job.created_at).total_seconds() > SCHEDULED_AFTER
    if was_scheduled and due <= now:
        found.append(_step("scheduled", job.created_at, due))
    if first is not None:
        begin = max(due, job.created_at) if due <= first else job.created_at
        found.append(_step("ready", begin, first))
    found += _attempts(list(attempts))
    if state in (State.RUNNING, State.CANCELLING):
        if attempts and job.started_at is not None:
            before = attempts[-1]
            found.append(_step(_between_runs(before), before.finished_at, job.started_at))
        note = f"attempt {job.attempt_count}"
        found.append(Step(name=state, label=state, at=job.started_at, note=note, is_now=True))
    elif not job.is_terminal:
        since = job.due_at if state is State.READY else None
        found.append(Step(name=state, label=state, at=since, is_now=True))
    else:
        ended = job.completed_at or job.failed_at or job.cancelled_at
        found.append(Step(name=state, label=state, at=ended, is_now=True))
    return found


def _attempts(attempts: list[Any]) -> list[Step]:
    """A step for each attempt, and the waiting between them; the middle of many is left out."""
    found: list[Step] = []
    left_out = len(attempts) - MOST_ATTEMPTS
    for place, attempt in enumerate(attempts):
        if left_out > 0 and 2 <= place < 2 + left_out:
            if place == 2:
                found.append(Step(name="running", label=f"{left_out} more attempts"))
            continue
        if place and not (left_out > 0 and place == 2 + left_out):
            before = attempts[place - 1]
            found.append(_step(_between_runs(before), before.finished_at, attempt.started_at))
        found.append(
            Step(
                name=attempt.outcome,
                label=f"attempt {attempt.number}",
                at=attempt.started_at,
                lasted=_between(attempt.started_at, attempt.finished_at),
                note=attempt.outcome.replace("_", " "),
            )
        )
    return found


def _between_runs(attempt: Any) -> str:
    """What the job was after an attempt that was not its last."""
    return {"waited": "blocked", "snoozed": "scheduled", "handed_back": "ready"}.get(
        attempt.outcome, "retrying"
    )


def _step(name: str, begin: datetime, end: datetime) -> Step:
    return Step(name=name, label=name, at=begin, lasted=_between(begin, end))


def _between(begin: datetime, end: datetime) -> float:
    return max(0.0, (end - begin).total_seconds())
