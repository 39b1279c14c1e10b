"""One entry of the stream, and what a client is told of it.

What `publishing.py` wrote is read once; the JSON that goes out is made once for those who may see
error texts and once for those who may not, however many clients there are.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from math import isfinite
from typing import Any
from uuid import UUID

from jobs.events import PUBLIC_NAMES
from jobs.live.positions import Position, write
from jobs.publishing import LEFT_OUT, NEVER_SENT
from jobs.states import ARROWS, Status

QUOTING = frozenset({"error", "message", "traceback"})
"""Facts that may quote what a handler worked on: for those with the permission `view payload`."""

NAME_LENGTH = 100
MOST_NAMES = 100
"""The most names that are counted apart; what is beyond is counted as OTHER."""
OTHER = "other"
"""Counts under this name may be of anything."""

LAST_MOMENT = 253_402_300_799.0
"""The end of the year 9999, in epoch seconds."""

_HALF = b"\\ud"
"""How a character beyond the first 65,536 begins in JSON, and a half of one that lost the other."""

type Counts = dict[str, int]


@dataclass(slots=True, eq=False)
class Entry:
    position: Position
    name: str
    at: float
    job_id: str | None = None
    type: str = ""
    queue: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    _full: str = ""
    _reduced: str = ""

    @property
    def status(self) -> str | None:
        """The job's status after it, where that is known."""
        told = self.facts.get("status")
        if isinstance(told, str) and told in _STATUSES and self.job_id is not None:
            return told
        after = AFTER.get(self.name, frozenset())
        return next(iter(after)).value if len(after) == 1 else None

    def text(self, *, may_see: bool) -> str:
        """The event as JSON, for a client that may or may not see error texts."""
        if may_see or not any(self.facts.get(name) for name in QUOTING):
            self._full = self._full or self._render(self.facts, [])
            return self._full
        if not self._reduced:
            hidden = sorted(name for name in QUOTING if self.facts.get(name))
            self._reduced = self._render({**self.facts, **dict.fromkeys(hidden)}, hidden)
        return self._reduced

    def _render(self, facts: dict[str, Any], hidden: list[str]) -> str:
        event = {
            "seq": write(self.position),
            "name": self.name,
            "at": self.at,
            "job_id": self.job_id,
            "type": self.type,
            "queue": self.queue,
            "status": self.status,
            "facts": facts,
        }
        if hidden:
            event["hidden"] = hidden
        return json.dumps(event, separators=(",", ":"))


@dataclass(slots=True, eq=False)
class Uncounted:
    """Entries that never came: how many events of each name are not in the stream."""

    position: Position
    counts: Counts


def read(position: Position, text: str | bytes) -> Entry | Uncounted | None:
    """None for what no publisher of ours wrote: the stream may hold anything, and nobody stumbles.

    What is read can be shown: its job has an id, its moment is one, and its texts and numbers are
    such that a browser reads them too.
    """
    try:
        found = json.loads(text, parse_float=_finite, parse_constant=_finite)
        if _HALF in (text if isinstance(text, bytes) else text.encode()).lower():
            json.dumps(found, ensure_ascii=False).encode()  # unless it is half of a character
        name = str(found["name"])[:NAME_LENGTH]
        if name == LEFT_OUT:
            counts = {str(key)[:NAME_LENGTH]: int(n) for key, n in found["counts"].items()}
            return Uncounted(position, {key: n for key, n in counts.items() if n > 0})
        at, job_id = float(found["at"]), found.get("job_id")
        if not 0 <= at <= LAST_MOMENT:
            return None
        facts = found.get("facts") or {}
        return Entry(
            position,
            name,
            at,
            None if job_id is None else str(UUID(job_id)),
            str(found.get("type") or ""),
            str(found.get("queue") or ""),
            {str(key): value for key, value in facts.items() if key not in NEVER_SENT},
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
        return None


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(text)
    return number


def add_counts(counts: Counts, more: Counts) -> None:
    """Add `more` to `counts`, which never has more than MOST_NAMES names and OTHER."""
    for name, count in more.items():
        known = name in counts or len(counts) < MOST_NAMES
        key = name if known else OTHER
        counts[key] = counts.get(key, 0) + count


# What a name says about a job's status


def _statuses() -> tuple[dict[str, frozenset[Status]], dict[str, frozenset[Status]]]:
    touched: dict[str, set[Status]] = {
        "job.created": {Status.PENDING},
        "job.released": {Status.PENDING},
        "job.purged": {Status.FAILED},
        "job.progress": {Status.PROCESSING},
        "job.log": {Status.PROCESSING},
    }
    after = {"job.created": {Status.PENDING}, "job.released": {Status.PENDING}}
    after["job.progress"] = {Status.PROCESSING}
    for arrow in ARROWS:
        for name in PUBLIC_NAMES[arrow.event]:
            touched.setdefault(name, set()).update((arrow.source, arrow.target))
            after.setdefault(name, set()).add(arrow.target)
    return (
        {name: frozenset(found) for name, found in touched.items()},
        {name: frozenset(found) for name, found in after.items()},
    )


TOUCHED, AFTER = _statuses()
"""By name: statuses that the job may have before or after, and those that it may have after."""
_STATUSES = frozenset(Status)
