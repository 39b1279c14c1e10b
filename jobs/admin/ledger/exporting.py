"""The list of jobs as a file, in the order and with the filters of the page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from jobs.admin.files import File, Rows
from jobs.admin.ledger.asking import Ask
from jobs.database import DjangoDatabase
from jobs.filtering import Filters
from jobs.limits import limited
from jobs.masking import Reader
from jobs.models import Job
from jobs.walking import place, queryset

CHUNK = 500
SECONDS = 10.0
COLUMNS = (
    "id",
    "type",
    "queue",
    "status",
    "state",
    "priority",
    "attempt_count",
    "max_attempts",
    "scheduled_at",
    "next_retry_at",
    "created_at",
    "started_at",
    "completed_at",
    "failed_at",
    "cancelled_at",
)


@dataclass(frozen=True, kw_only=True)
class Export:
    ask: Ask
    format: str
    reader: Reader
    """Errors are for who may read them, and in JSON payloads, with their masks."""

    def file(self) -> File:
        return File(
            name=f"jobs-{self.ask.tab.name}",
            things="jobs",
            pages=self._pages(),
            columns=[*COLUMNS, *(["error"] if self.reader.reads else [])],
            kind=self.format,
        )

    def _pages(self) -> Iterator[Rows]:
        for filters in self.ask.wholes:
            after: str | None = None
            while True:
                jobs, now = self._page(filters, after)
                yield [self._row(job, now) for job in jobs]
                if len(jobs) < CHUNK:
                    break
                after = place(filters, jobs[-1])

    def _page(self, filters: Filters, after: str | None) -> tuple[list[Job], float]:
        rows = queryset(filters, after=after)
        if self.reader.reads and self.format == "json":
            rows = rows.defer(None).defer("result", "metadata", "last_error")
        with limited(DjangoDatabase(), seconds=SECONDS) as now:
            return list(rows[:CHUNK]), now

    def _row(self, job: Job, now: float) -> dict[str, Any]:
        found: dict[str, Any] = {
            name: _plain(getattr(job, name)) for name in COLUMNS if name != "state"
        }
        found["state"] = job.state_at(now).value
        if self.reader.reads:
            found["error"] = getattr(job, "error_start", "")
            if self.format == "json":
                found["payload"] = self.reader.value(job.type, job.payload)
        return found


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    return value if isinstance(value, int | str | None) else str(value)
