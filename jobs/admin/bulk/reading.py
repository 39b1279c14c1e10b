"""Bulk operations as the console shows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from jobs import bulk
from jobs.bulk import actions
from jobs.console.moments import localised
from jobs.console.words import PRIORITIES, count
from jobs.errors import InvalidInput
from jobs.filtering import Filters
from jobs.masking import Reader
from jobs.models import BulkOperation

LIVE = ("pending", "running", "paused")
SEARCHES = ("payload", "error")
WIDTH = 100.0

LABELS = {
    "retry": "Retry",
    "purge": "Purge",
    "cancel": "Cancel",
    "run_now": "Run now",
    "change_priority": "Change priority",
    "move_queue": "Move to another queue",
}


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A part of the progress bar, which is 100 wide."""

    tone: str
    x: float
    width: float


@dataclass(frozen=True, kw_only=True)
class Shown:
    operation: BulkOperation
    label: str
    """What is done: "Change priority to high"."""
    in_words: str
    """To which jobs."""
    goal: str
    """How many it may change at most: "1,039", "10,000+"."""
    handled: int
    percent: int | None
    """None while nobody knows how many there are."""
    per_second: float | None
    seconds_left: float | None
    pieces: Sequence[Piece] = field(default_factory=list)

    @property
    def is_live(self) -> bool:
        return self.operation.status in LIVE


def shown(operation: BulkOperation, reader: Reader) -> Shown:
    handled = operation.changed + operation.skipped + operation.failed
    goal, is_least = operation.matched, operation.matched_is_capped
    if operation.cap is not None and operation.cap <= goal:
        goal, is_least = operation.cap, False
    per_second, seconds_left = bulk.speed(operation)
    is_over = operation.status == "completed"
    if is_over and is_least:  # all that matched was met: now the number is known
        goal, is_least = handled, False
    whole = max(goal, handled)
    percent = None if is_least and not is_over else min(100, 100 * handled // whole) if whole else 0
    return Shown(
        operation=operation,
        label=_label(operation),
        in_words=words_of(operation, reader),
        goal=count(goal, is_least=is_least),
        handled=handled,
        percent=100 if is_over else percent,
        per_second=per_second,
        seconds_left=seconds_left,
        pieces=_pieces(operation, max(1, handled if is_over else whole)),
    )


def words_of(operation: BulkOperation, reader: Reader) -> str:
    """The filter, without what is looked for in payloads and errors if the reader may not see it."""
    try:
        action = actions.find(operation.action)
        filters = localised(Filters.from_json(operation.filters))
    except InvalidInput:  # made by another version
        return "by a filter that this version does not know"
    quoted = {name: operation.filters.get(name) for name in SEARCHES}
    type = str(operation.filters.get("type", ""))
    is_hidden = any(reader.value(type, value) != value for value in quoted.values())
    return actions.in_audit(action, filters) if is_hidden else actions.in_words(action, filters)


def _label(operation: BulkOperation) -> str:
    label = LABELS.get(operation.action, operation.action)
    arguments: dict[str, Any] = operation.arguments or {}
    if "priority" in arguments:
        return f"{label} to {PRIORITIES.get(arguments['priority'], arguments['priority'])}"
    if "queue" in arguments:
        return f"Move to the queue {arguments['queue']}"
    return label


def _pieces(operation: BulkOperation, whole: int) -> list[Piece]:
    found, x = [], 0.0
    for tone, number in (
        ("good", operation.changed),
        ("warn", operation.skipped),
        ("bad", operation.failed),
    ):
        width = WIDTH * number / whole
        if number:
            found.append(Piece(tone=tone, x=x, width=width))
        x += width
    return found
