"""Where a job can be, how an attempt can end, and every arrow between two statuses.

Pure: no Django. `docs/lifecycle.md` draws the same table; a test compares the two. The SQL that
moves rows along these arrows is in `claim.py`, `complete.py`, `edges.py` and `lifecycle/`, and for
types that nobody knows in `worker/alerts.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    PENDING = "pending"
    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"  # always means: in the dead-letter queue
    CANCELLED = "cancelled"


TERMINAL = frozenset({Status.COMPLETED, Status.FAILED, Status.CANCELLED})
LIVE = frozenset({Status.PENDING, Status.PROCESSING})


class Outcome(StrEnum):
    """How one attempt ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    SNOOZED = "snoozed"
    WAITED = "waited"
    HANDED_BACK = "handed_back"
    LOST = "lost"


UNSPENT = frozenset({Outcome.SNOOZED, Outcome.WAITED, Outcome.HANDED_BACK})
"""Outcomes that give the attempt back: `attempt_count` falls by one."""


class OnParentFailure(StrEnum):
    """What a dependent does when a job it waits for ends failed or cancelled."""

    WAIT = "wait"
    CANCEL = "cancel"
    RUN = "run"


class EdgeKind(StrEnum):
    COMPLETED = "completed"  # closed only by success
    ENDED = "ended"  # closed by any end (WaitFor)


class State(StrEnum):
    """What an operator reads: the status, with the kinds of pending told apart."""

    READY = "ready"
    SCHEDULED = "scheduled"
    RETRYING = "retrying"
    BLOCKED = "blocked"
    HELD = "held"
    RUNNING = "running"
    CANCELLING = "cancelling"
    COMPLETED = "completed"
    DEAD = "dead"
    CANCELLED = "cancelled"


@dataclass(frozen=True, kw_only=True)
class Arrow:
    """One allowed change of status, its event in the log, and when it happens."""

    event: str
    source: Status
    target: Status
    when: str


ARROWS = (
    Arrow(
        event="started",
        source=Status.PENDING,
        target=Status.PROCESSING,
        when="A worker claims the due job; the attempt is counted and the lease epoch grows.",
    ),
    Arrow(
        event="completed",
        source=Status.PROCESSING,
        target=Status.COMPLETED,
        when="The handler returned a value, even if a cancel was asked for meanwhile.",
    ),
    Arrow(
        event="retry_scheduled",
        source=Status.PROCESSING,
        target=Status.PENDING,
        when="The attempt failed or ran out of time, and attempts are left.",
    ),
    Arrow(
        event="snoozed",
        source=Status.PROCESSING,
        target=Status.PENDING,
        when="The handler asked to run again later; the attempt is given back.",
    ),
    Arrow(
        event="waiting",
        source=Status.PROCESSING,
        target=Status.PENDING,
        when="The handler waits for other jobs; the attempt is given back.",
    ),
    Arrow(
        event="held",
        source=Status.PROCESSING,
        target=Status.PENDING,
        when="The handler asked to be held until somebody releases the job.",
    ),
    Arrow(
        event="handed_back",
        source=Status.PROCESSING,
        target=Status.PENDING,
        when="The worker stops, or had not started the job; the attempt is given back.",
    ),
    Arrow(
        event="lost",
        source=Status.PROCESSING,
        target=Status.PENDING,
        when="The worker died while the job ran, and attempts are left.",
    ),
    Arrow(
        event="dead_lettered",
        source=Status.PROCESSING,
        target=Status.FAILED,
        when="The last attempt failed, timed out or was lost, or the handler discarded the job.",
    ),
    Arrow(
        event="cancelled",
        source=Status.PROCESSING,
        target=Status.CANCELLED,
        when="A cancel was asked for, and the attempt ended without returning a value.",
    ),
    Arrow(
        event="cancelled",
        source=Status.PENDING,
        target=Status.CANCELLED,
        when="Somebody cancels the job, its parent is cancelled, or a dependency can never be met.",
    ),
    Arrow(
        event="dead_lettered",
        source=Status.PENDING,
        target=Status.FAILED,
        when="No live worker knew the type for the time that a setting allows.",
    ),
    Arrow(
        event="retried",
        source=Status.FAILED,
        target=Status.PENDING,
        when="Somebody retries the dead letter; attempts start again and the history stays.",
    ),
)

ALLOWED = frozenset((arrow.source, arrow.target) for arrow in ARROWS)


def may_move(source: Status, target: Status) -> bool:
    """Whether the table has an arrow from one status to the other."""
    return (source, target) in ALLOWED


def derive_state(
    *,
    status: str,
    is_due: bool,
    is_held: bool,
    unmet_dependencies: int,
    has_next_retry: bool,
    cancel_requested: bool,
) -> State:
    """The one place where a row's columns become the word that an operator reads."""
    match Status(status):
        case Status.COMPLETED:
            return State.COMPLETED
        case Status.FAILED:
            return State.DEAD
        case Status.CANCELLED:
            return State.CANCELLED
        case Status.PROCESSING:
            return State.CANCELLING if cancel_requested else State.RUNNING
        case Status.PENDING:
            if unmet_dependencies > 0:
                return State.BLOCKED
            if is_held:
                return State.HELD
            if is_due:
                return State.READY
            return State.RETRYING if has_next_retry else State.SCHEDULED
