"""The list as a file: CSV or JSON, streamed page by page, with a stated end."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, StreamingHttpResponse

from jobs.admin.ledger.asking import Ask
from jobs.database import DjangoDatabase
from jobs.errors import TooBroad
from jobs.filtering import Filters
from jobs.limits import limited
from jobs.masking import Reader
from jobs.models import Job
from jobs.walking import place, queryset

MOST = 100_000
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
FORMULAS = ("=", "+", "-", "@", "\t", "\r")
"""What a spreadsheet would take for a formula."""


@dataclass(frozen=True, kw_only=True)
class Export:
    ask: Ask
    format: str
    reader: Reader
    """Errors are for who may read them, and in JSON payloads, with their masks."""

    def response(self, request: HttpRequest) -> StreamingHttpResponse:
        kind = "text/csv; charset=utf-8" if self.format == "csv" else "application/json"
        parts = self.parts()
        # A server that speaks ASGI would gather an ordinary iterator before it sends anything.
        content: Any = in_threads(parts) if isinstance(request, ASGIRequest) else parts
        response = StreamingHttpResponse(content, content_type=kind)
        name = f"jobs-{self.ask.tab.name}-{datetime.now(UTC):%Y%m%d-%H%M%S}.{self.format}"
        response["Content-Disposition"] = f'attachment; filename="{name}"'
        response["Cache-Control"] = "no-store"
        return response

    def parts(self) -> Iterator[str]:
        return self._csv() if self.format == "csv" else json_object("jobs", self._chunks())

    def _csv(self) -> Iterator[str]:
        columns = [*COLUMNS, *(["error"] if self.reader.reads else [])]
        yield line(columns)
        written, why = 0, ""
        for chunk, ended in self._chunks():
            why = ended
            written += len(chunk)
            yield "".join(line([cell(row[name]) for name in columns]) for row in chunk)
        if why:
            yield line([f"# {written:,} rows; {why}"])

    def _chunks(self) -> Iterator[tuple[list[dict[str, Any]], str]]:
        """Rows, and why nothing follows although there is more."""
        left = MOST
        for filters in self.ask.wholes:
            after: str | None = None
            while left > 0:
                try:
                    jobs, now = self._page(filters, after, min(CHUNK, left))
                except TooBroad:
                    yield [], "the search took too long here and was stopped: narrow it"
                    return
                left -= len(jobs)
                yield [self._row(job, now) for job in jobs], ""
                if len(jobs) < CHUNK:
                    break
                after = place(filters, jobs[-1])
        if left <= 0:
            yield [], f"an export ends after {MOST:,}: narrow the filters for the rest"

    def _page(self, filters: Filters, after: str | None, size: int) -> tuple[list[Job], float]:
        rows = queryset(filters, after=after)
        if self.reader.reads and self.format == "json":
            rows = rows.defer(None).defer("result", "metadata", "last_error")
        with limited(DjangoDatabase(), seconds=SECONDS) as now:
            return list(rows[:size]), now

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


async def in_threads(parts: Iterator[str]) -> AsyncIterator[str]:
    def following() -> str | None:
        return next(parts, None)

    while (part := await sync_to_async(following)()) is not None:
        yield part


def json_object(name: str, chunks: Iterable[tuple[list[dict[str, Any]], str]]) -> Iterator[str]:
    """`{name: [rows], "count": ..., "complete": ..., "note": why it is not}`, a row a line."""
    yield f'{{"{name}": ['
    written, why = 0, ""
    for chunk, ended in chunks:
        why = ended
        texts = [json.dumps(row, ensure_ascii=False) for row in chunk]
        yield (",\n" if written and texts else "\n") + ",\n".join(texts)
        written += len(chunk)
    yield f"\n], {json.dumps({'count': written, 'complete': not why, 'note': why})[1:]}"


def line(cells: list[str]) -> str:
    text = io.StringIO()
    csv.writer(text).writerow(cells)
    return text.getvalue()


def cell(value: Any) -> str:
    text = "" if value is None else str(value)
    return f"'{text}" if text.startswith(FORMULAS) else text


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    return value if isinstance(value, int | str | None) else str(value)
