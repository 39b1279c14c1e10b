"""What a handler knows about its attempt, and the little it may ask for."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from jobs.answers import ChildResult, JobCancelled
from jobs.claimed import Claimed
from jobs.errors import InvalidInput
from jobs.masking import masks, scrubbed_data
from jobs.payloads import check_json
from jobs.texts import clean

LOG_LENGTH = 10_000
LEVELS = ("debug", "info", "warning", "error")


class Line:
    """One line that a handler logged, on its way to JobLog."""

    __slots__ = ("at", "attempt", "data", "job_id", "level", "message")

    def __init__(
        self, job_id: str, attempt: int, level: str, message: str, data: str | None
    ) -> None:
        self.job_id = job_id
        self.attempt = attempt
        self.level = level
        self.message = message
        self.data = data
        self.at = time.monotonic()


class Desk(Protocol):
    """Where a context leaves what it has to say; the worker's completer, or a test's."""

    def log(self, line: Line) -> None: ...
    def progress(self, job: Claimed, done: int, total: int | None) -> None: ...
    def should_yield(self, job: Claimed) -> bool: ...


class Levels:
    """`log("text", key=value)`, or `.info`, `.warning`, `.error`, `.debug`; where to is for a subclass."""

    def __call__(self, message: str, *, level: str = "info", **data: Any) -> None:
        if level not in LEVELS:
            raise InvalidInput(f"must be one of {', '.join(LEVELS)}", field="level")
        self._say(level, str(message), data)

    def debug(self, message: str, **data: Any) -> None:
        self(message, level="debug", **data)

    def info(self, message: str, **data: Any) -> None:
        self(message, level="info", **data)

    def warning(self, message: str, **data: Any) -> None:
        self(message, level="warning", **data)

    def error(self, message: str, **data: Any) -> None:
        self(message, level="error", **data)

    def _say(self, level: str, message: str, data: dict[str, Any]) -> None:
        raise NotImplementedError


class Log(Levels):
    """Into the job's log."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def _say(self, level: str, message: str, data: dict[str, Any]) -> None:
        job = self._context._job  # noqa: SLF001
        said = clean(message, LOG_LENGTH)
        text = check_json(data, "log") if data else None
        if masks(job.type):
            said = scrubbed_data(job.type, said, job.payload)
            if text is not None:
                text = json.dumps(scrubbed_data(job.type, json.loads(text), job.payload))
        self._context._desk.log(Line(job.id, job.attempt, level, said, text))  # noqa: SLF001


class Context:
    """One attempt, as its handler sees it. Safe to use from the handler's own threads."""

    __slots__ = ("_children", "_deadline", "_desk", "_job", "_stop", "params")

    def __init__(self, job: Claimed, desk: Desk, *, timeout: float | None = None) -> None:
        self._job = job
        self._desk = desk
        self._deadline = time.monotonic() + timeout if timeout else None
        self._stop = ""
        self._children: list[ChildResult] | None = None
        self.params: Mapping[str, Any] = {}
        """Set by the range engine for its own handlers."""

    @property
    def job_id(self) -> str:
        return self._job.id

    @property
    def type(self) -> str:
        return self._job.type

    @property
    def queue(self) -> str:
        return self._job.queue

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        return self._job.attempt

    @property
    def max_attempts(self) -> int:
        return self._job.max_attempts

    @property
    def lease_epoch(self) -> int:
        """The fencing token: hand it to outside systems that can compare it."""
        return self._job.lease_epoch

    @property
    def deadline(self) -> float | None:
        """When the attempt runs out of time, on `time.monotonic()`; None without a time-out."""
        return self._deadline

    @property
    def remaining(self) -> float | None:
        """Seconds until the deadline, never below 0."""
        return None if self._deadline is None else max(0.0, self._deadline - time.monotonic())

    @property
    def cancelled(self) -> bool:
        """Whether to stop: somebody cancelled the job, time is up, or the lease was lost."""
        return bool(self._stop)

    @property
    def stop_reason(self) -> str:
        """'cancel', 'timeout', 'stop' (the worker must leave), 'stale' (the lease was lost) or ''."""
        return self._stop

    def check_cancelled(self) -> None:
        """Raise JobCancelled when the attempt has been asked to stop."""
        if self._stop:
            raise JobCancelled(f"stopped: {self._stop}")

    @property
    def should_yield(self) -> bool:
        """Whether a long handler should pause here: the worker stops, or better work waits."""
        return bool(self._stop) or self._desk.should_yield(self._job)

    @property
    def log(self) -> Log:
        return Log(self)

    def progress(self, done: int, total: int | None = None) -> None:
        """Show how far the work is; written at most about once a second."""
        if isinstance(done, bool) or not isinstance(done, int) or not 0 <= done < 2**63:
            raise InvalidInput("must be a whole number from 0", field="done")
        if total is not None and (
            isinstance(total, bool) or not isinstance(total, int) or not 0 <= total < 2**63
        ):
            raise InvalidInput("must be a whole number from 0", field="total")
        self._desk.progress(self._job, done, total)

    @property
    def children(self) -> Sequence[ChildResult]:
        """What became of the jobs that an earlier WaitFor waited for; read once, when asked."""
        self.load_children()
        return self._children or ()

    def load_children(self) -> None:
        """Read them now; for async handlers this has been done before they start."""
        if self._children is None:
            self._children = load_children(self._job.id) if self._job.wait_count else []

    def stop(self, reason: str) -> None:
        """Ask the handler to stop; the first reason stays."""
        if not self._stop:
            self._stop = reason


CHILDREN = """
SELECT c.child_key, c.id::text, c.type, c.status, c.result::text, c.last_error
FROM jobs_jobdependency d JOIN jobs_job c ON c.id = d.parent_id
WHERE d.child_id = %(id)s::uuid AND d.kind = 'ended'
ORDER BY c.id
"""


def load_children(job_id: str) -> list[ChildResult]:
    from jobs.database import DjangoDatabase

    return [
        ChildResult(
            key=key,
            job_id=id,
            type=type,
            status=status,
            result=None if result is None else json.loads(result),
            error=error if status != "completed" else "",
        )
        for key, id, type, status, result, error in DjangoDatabase().rows(CHILDREN, {"id": job_id})
    ]
