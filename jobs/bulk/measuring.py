"""How far an operation is, said only as far as it is known."""

from __future__ import annotations

from dataclasses import dataclass

from jobs.models import BulkOperation

LIVE = ("pending", "running", "paused")


@dataclass(frozen=True, kw_only=True)
class Progress:
    handled: int
    """Jobs that were met: changed, skipped or failed."""
    done: int
    """Of these, what counts towards the goal: with a cap only those that were changed."""
    goal: int
    is_least: bool
    """The goal is only the least that is known, as many more may match."""
    share: float | None
    """How much of it is done, from 0 to 1; None while nobody knows how many there are."""
    per_second: float | None
    """Jobs met each second; None before the first batch."""
    seconds_left: float | None

    @property
    def least_left(self) -> int:
        """So many are left at least."""
        return self.goal - self.done


def progress(operation: BulkOperation) -> Progress:
    handled = operation.changed + operation.skipped + operation.failed
    is_over = operation.status == "completed"
    done, goal, is_least = handled, operation.matched, operation.matched_is_capped
    if operation.cap is not None and operation.cap <= goal:
        done, goal, is_least = operation.changed, operation.cap, False
    if is_over:  # all that matched was met: now the number is known
        goal, is_least = done, False
    goal = max(goal, done)
    is_live = operation.status in LIVE
    worked = operation.worked_seconds
    left = None if is_least or not done or not worked or not is_live else goal - done
    return Progress(
        handled=handled,
        done=done,
        goal=goal,
        is_least=is_least,
        share=1.0 if is_over else None if is_least else done / goal if goal else 0.0,
        per_second=round(handled / worked, 1) if worked else None,
        seconds_left=None if left is None else round(left * worked / done, 1),
    )
