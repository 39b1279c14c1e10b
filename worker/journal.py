"""One JSON line on stdout per start and end of an attempt: ids, type and outcome, never a payload.

structlog's pipeline costs more than a short job does, so these two lines are put together here, and
written in one piece per batch. They have the same shape as every other line of the log.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from threading import Lock
from typing import TextIO

from jobs.claimed import Claimed
from jobs.complete import Ended

_logger = logging.getLogger("coppice.jobs")

LEVELS = {"dead_lettered": "error", "retry_scheduled": "warning", "lost": "warning"}


class Journal:
    def __init__(self, worker: str, stream: TextIO | None = None) -> None:
        self._tail = f',"worker":{json.dumps(worker)}}}\n'
        self._stream = stream or sys.stdout
        self._lock = Lock()

    def started(self, jobs: Sequence[Claimed]) -> None:
        if _logger.isEnabledFor(logging.INFO):
            head = self._head("info", "job.started")
            self._write(f"{head}{_job(job, job.attempt)}{self._tail}" for job in jobs)

    def ended(self, ended: Sequence[Ended]) -> None:
        if not _logger.isEnabledFor(logging.ERROR):
            return
        lines = []
        for one in ended:
            level = LEVELS.get(one.event, "info")
            if not _logger.isEnabledFor(logging.getLevelNamesMapping()[level.upper()]):
                continue
            error = f',"error":{json.dumps(one.error[:300])}' if one.error else ""
            head = self._head(level, f"job.{one.event}")
            lines.append(f"{head}{_job(one.job, one.number)}{error}{self._tail}")
        self._write(lines)

    def stale(self, job: Claimed) -> None:
        """The lease was lost: this worker's outcome changed nothing."""
        if _logger.isEnabledFor(logging.WARNING):
            head = self._head("warning", "job.lease_lost")
            self._write([f"{head}{_job(job, job.attempt)}{self._tail}"])

    def flush(self) -> None:
        with self._lock:
            self._stream.flush()

    def _head(self, level: str, event: str) -> str:
        at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return f'{{"timestamp":"{at}","level":"{level}","logger":"coppice.jobs","message":"{event}"'

    def _write(self, lines: Iterable[str]) -> None:
        text = "".join(lines)
        if text:
            with self._lock:
                self._stream.write(text)
                self._stream.flush()


def _job(job: Claimed, attempt: int) -> str:
    return (
        f',"job_id":"{job.id}","type":"{job.type}","queue":"{job.queue}","attempt":{attempt},'
        f'"lease_epoch":{job.lease_epoch}'
    )
