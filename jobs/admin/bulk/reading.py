"""Bulk operations as the console shows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jobs import bulk
from jobs.bulk import actions
from jobs.console.moments import localised
from jobs.console.words import PRIORITIES, count
from jobs.errors import InvalidInput
from jobs.filtering import Filters
from jobs.masking import Reader
from jobs.models import BulkOperation

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
    progress: bulk.Progress
    pieces: Sequence[Piece]
    """None while the whole is not known."""

    @property
    def is_live(self) -> bool:
        return self.operation.status in bulk.LIVE

    @property
    def goal(self) -> str:
        """How many there are: "1,039", "10,000+"."""
        return count(self.progress.goal, is_least=self.progress.is_least)

    @property
    def percent(self) -> int | None:
        """Rounded down: the last job makes it 100."""
        share = self.progress.share
        return None if share is None else int(100 * share)


def shown(operation: BulkOperation, reader: Reader) -> Shown:
    found = bulk.progress(operation)
    return Shown(
        operation=operation,
        label=_label(operation),
        in_words=words_of(operation, reader),
        progress=found,
        pieces=[] if found.share is None else _pieces(operation, found),
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


def _pieces(operation: BulkOperation, progress: bulk.Progress) -> list[Piece]:
    """What was met, by what became of it, over the share that is done."""
    found, x = [], 0.0
    for tone, number in (
        ("good", operation.changed),
        ("warn", operation.skipped),
        ("bad", operation.failed),
    ):
        if number:
            width = WIDTH * (progress.share or 0.0) * number / progress.handled
            found.append(Piece(tone=tone, x=x, width=width))
            x += width
    return found
