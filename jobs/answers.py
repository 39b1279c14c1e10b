"""What a handler may return or raise, beside a plain value and a plain error.

Pure: no Django. Times are seconds or `timedelta`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

type Duration = float | int | timedelta


class Retry(Exception):
    """Raise to fail this attempt and choose when the next one starts.

    Counts as an attempt; the last one dead-letters the job. Without `delay` the backoff decides.
    """

    def __init__(self, reason: str = "", *, delay: Duration | None = None) -> None:
        super().__init__(reason or "the handler asked for a retry")
        self.delay = delay


class Discard(Exception):
    """Raise to dead-letter the job at once, whatever attempts are left."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason or "the handler discarded the job")


@dataclass(frozen=True)
class Snooze:
    """Return to run again later without spending an attempt.

    `quiet` leaves no trace of this run: no row in the attempts, no line in the log. For handlers
    that work in slices.
    """

    delay: Duration
    quiet: bool = False


@dataclass(frozen=True)
class Hold:
    """Return to stay pending until somebody releases the job; spends no attempt."""

    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Child:
    """A job to be made by the transaction that ends this attempt, once per parent and key."""

    type: str
    payload: Any
    key: str
    options: dict[str, Any] = field(default_factory=dict)


def child(type: str, payload: Any = None, *, key: str, **options: Any) -> Child:
    """A child for `WaitFor`; `options`: queue, priority, max_attempts, metadata, scheduled_at and
    on_parent_failure, as in `enqueue`.

    `key` names the child within its parent: a handler that runs again meets the same child.
    """
    return Child(type=type, payload={} if payload is None else payload, key=key, options=options)


@dataclass(frozen=True)
class WaitFor:
    """Return to wait for jobs; the handler runs again when all of them have ended.

    Takes children made with `child()`, jobs, and ids of jobs. Spends no attempt and holds no
    worker. The next run finds their results in `context.children`.
    """

    jobs: Sequence[Any]


@dataclass(frozen=True, kw_only=True)
class ChildResult:
    """What became of one job that a WaitFor waited for."""

    key: str | None
    job_id: str
    type: str
    status: str
    result: Any
    error: str


class JobTimeout(Exception):
    """Raised inside a handler thread that has passed its deadline."""


class JobCancelled(Exception):
    """Raised by `context.check_cancelled()` once the job was asked to stop."""
