"""Work on an operation: batch after batch, each one transaction with the place and the counters.

What must always be true:
1. A batch, its counters and the place behind it are one commit. A worker that is killed leaves the
   operation as its last commit had it, and the next one goes on from there: no job is met twice.
2. A batch holds the operation's row and begins with a look at it: paused, ended, or given to another
   job or another lease, and nothing is changed.
3. What the database refuses costs the operation that job alone: the batch is made smaller until the
   job stands by itself, and is passed over.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from enum import Enum, auto
from typing import Any

from django.db.models.functions import Coalesce, Now

from jobs import audit, conf
from jobs.answers import JobTimeout, Snooze
from jobs.bulk.actions import Action, find
from jobs.bulk.choosing import Place, Walk
from jobs.bulk.measuring import progress
from jobs.bulk.operating import changing, tell, write
from jobs.bulk.turns import TURN_LOCK, blocker_of
from jobs.context import Context
from jobs.database import DjangoDatabase, cause, is_away, is_transient, without_values
from jobs.errors import CoppiceError, NotFound
from jobs.filtering import Filters
from jobs.lifecycle import Changed
from jobs.models import BulkOperation, Job
from jobs.states import Status
from jobs.texts import describe_error, normalise

BATCH = 500
SLICE_SECONDS = 5.0
"""After so long the job goes to the back of its queue, so that others get their turn."""
WAIT_SECONDS = 2.0
"""How often it looks whether an operation that came before has ended."""
TELL_SECONDS = 0.5
REST = 0.1
"""The pause after a batch, as a part of what the batch took."""
TRIES = 20
"""Of a batch that met a deadlock or a lock that was not given."""
MOST_FAILURES = 100
"""So many jobs in a row that could not be changed end the operation."""
FAILURES_SHOWN = 10
REASONS_SHOWN = 20


class Verdict(Enum):
    GO_ON = auto()
    WAIT = auto()
    END = auto()


class Run:
    """One slice of the work on one operation."""

    def __init__(self, operation_id: str, context: Context) -> None:
        self._id = operation_id
        self._context = context
        self._size = BATCH
        self._tries = 0
        self._failures = 0
        self._told_at = float("-inf")
        self._written_at = time.monotonic()
        self._walk: Walk | None = None
        self._action: Action | None = None

    def work(self) -> Snooze | None:
        ends_at = time.monotonic() + SLICE_SECONDS
        while True:
            began = time.monotonic()
            match self._try():
                case Verdict.END:
                    return None
                case Verdict.WAIT:
                    return Snooze(WAIT_SECONDS, quiet=True)
            if self._context.stop_reason == "cancel":
                self._end("aborted", "its job was cancelled")
                self._context.check_cancelled()
            if self._context.should_yield or time.monotonic() > ends_at:
                return Snooze(0, quiet=True)
            time.sleep(min((time.monotonic() - began) * REST, 1.0))

    # What may go wrong

    def _try(self) -> Verdict:
        try:
            verdict = self._step()
        except NotFound:
            return Verdict.END
        except JobTimeout:
            raise
        except CoppiceError as error:
            self._end("failed", str(error))
            return Verdict.END
        except Exception as error:  # noqa: BLE001 - one job's trouble must not end the rest
            return self._judge(error)
        self._tries = 0
        return verdict

    def _judge(self, error: Exception) -> Verdict:
        below = cause(error)
        if is_away(below):
            raise error
        if is_transient(below) and self._tries < TRIES:
            self._tries += 1
            time.sleep(0.02 * self._tries)
        elif self._size > 1:
            self._size = max(1, self._size // 8)
        else:
            said = describe_error(without_values(below), 500)
            try:
                return self._pass_over(said)
            except Exception as second:
                if is_away(cause(second)):
                    raise
                self._end("failed", said)
                return Verdict.END
        return Verdict.GO_ON

    def _pass_over(self, error: str) -> Verdict:
        """Note that the next job could not be changed, and go on behind it."""
        self._failures += 1
        with changing(self._id) as operation:
            if not self._is_mine(operation) or operation.status != "running":
                return Verdict.END
            if self._failures >= MOST_FAILURES:
                self._finish(operation, "failed", f"{MOST_FAILURES} jobs in a row failed: {error}")
                return Verdict.END
            found = self._walk_of(operation).next(Place.from_text(operation.place), 1)
            if not found.jobs:
                self._finish(operation, "failed", error)
                return Verdict.END
            failures = [*operation.failures, {"id": str(found.jobs[0].id), "error": error}]
            write(
                operation,
                place=found.jobs[0].as_text(),
                failed=operation.failed + 1,
                failures=failures[:FAILURES_SHOWN],
            )
            self._tell(operation)
        return Verdict.GO_ON

    def _end(self, status: str, error: str) -> None:
        with changing(self._id) as operation:
            if self._is_mine(operation) and operation.status in ("pending", "running"):
                self._finish(operation, status, error)

    # One batch

    def _step(self) -> Verdict:
        with changing(self._id) as operation:
            if not self._is_mine(operation):
                return Verdict.END
            if operation.status == "pending":
                return self._take_turn(operation)
            if operation.status != "running":
                return Verdict.END
            return self._batch(operation)

    def _is_mine(self, operation: BulkOperation) -> bool:
        """Whether this attempt is the one that may work on it. A lease that is lost from now on
        changes nothing: whoever takes it over waits for the row that is held.
        """
        if str(operation.job_id) != self._context.job_id:
            return False
        jobs = Job.objects.using(conf.get().database).filter(
            id=self._context.job_id,
            lease_epoch=self._context.lease_epoch,
            status=Status.PROCESSING,
        )
        return jobs.exists()

    def _take_turn(self, operation: BulkOperation) -> Verdict:
        DjangoDatabase().rows("SELECT pg_advisory_xact_lock(%(key)s)::text", {"key": TURN_LOCK})
        if blocker_of(operation) is not None:
            return Verdict.WAIT
        write(operation, status="running", started_at=Coalesce("started_at", Now()))
        tell(operation)
        return Verdict.GO_ON

    def _batch(self, operation: BulkOperation) -> Verdict:
        action, walk = self._action_of(operation), self._walk_of(operation)
        room = self._size
        if operation.cap is not None:
            room = min(room, operation.cap - operation.changed)
        found = walk.next(Place.from_text(operation.place), room)
        still = walk.still([job.id for job in found.jobs])
        changed = self._change(action, operation, still)
        reasons = Counter(normalise(skip.reason) for skip in changed.skipped)
        reasons["no longer matches"] += len(found.jobs) - len(still)
        done = operation.changed + len(changed.done)
        is_over = found.is_last or (operation.cap is not None and done >= operation.cap)
        write(
            operation,
            place="" if found.place is None else found.place.as_text(),
            changed=done,
            skipped=operation.skipped + reasons.total(),
            skipped_reasons=added(operation.skipped_reasons, reasons),
            worked_seconds=operation.worked_seconds + self._since_the_last(),
            **({"status": "completed", "finished_at": Now()} if is_over else {}),
        )
        audit.grow(operation.audit_id, len(changed.done))
        self._tell(operation)
        if changed.done:
            self._failures = 0
        self._size = min(BATCH, self._size * 2)
        return Verdict.END if is_over else Verdict.GO_ON

    def _since_the_last(self) -> float:
        """Seconds since the last batch was written, with its commit and the rest after it."""
        before, self._written_at = self._written_at, time.monotonic()
        return self._written_at - before

    def _change(self, action: Action, operation: BulkOperation, ids: list[str]) -> Changed:
        if not ids:
            return Changed()
        with audit.left_out():
            return action.call(
                ids, by=operation.created_by, reason=operation.reason, **operation.arguments
            )

    def _finish(self, operation: BulkOperation, status: str, error: str = "") -> None:
        write(operation, status=status, error=error, finished_at=Now())
        tell(operation)

    def _tell(self, operation: BulkOperation) -> None:
        now = time.monotonic()
        if operation.status != "running" or now - self._told_at >= TELL_SECONDS:
            self._told_at = now
            tell(operation)
        found = progress(operation)
        self._context.progress(found.done, None if found.is_least else found.goal)

    def _walk_of(self, operation: BulkOperation) -> Walk:
        if self._walk is None:
            self._walk = Walk(
                action=self._action_of(operation),
                filters=Filters.from_json(operation.filters),
                before=operation.before,
            )
        return self._walk

    def _action_of(self, operation: BulkOperation) -> Action:
        if self._action is None:
            self._action = find(operation.action)
        return self._action


def added(before: Mapping[str, int], more: Counter[str]) -> dict[str, Any]:
    """The counts by reason, with the reasons that came too late for a row of their own as one."""
    counts = Counter(before)
    for reason, count in more.items():
        if count:
            is_listed = reason in counts or len(counts) < REASONS_SHOWN
            counts[reason if is_listed else "other reasons"] += count
    return dict(counts)
