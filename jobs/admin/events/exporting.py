"""The log as a file: from the place and with the filters of the page, towards older lines; streamed,
with a stated end.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, StreamingHttpResponse
from django.utils import timezone

from jobs.admin.events import reading
from jobs.admin.events.asking import Ask
from jobs.admin.events.lines import data_of, shown
from jobs.admin.ledger.exporting import cell, in_threads, json_object, line
from jobs.context import LOG_LENGTH
from jobs.database import DjangoDatabase
from jobs.errors import TooBroad
from jobs.limits import limited
from jobs.masking import Reader

MOST = 100_000
"""Lines of one file."""
LOOKED_AT = 1_000_000
"""Lines that are looked at for them."""
CHUNK = 1_000
STEP = 20_000
"""Lines that one statement looks at."""
SECONDS = 10.0
COLUMNS = (
    "id",
    "at",
    "level",
    "event",
    "job_id",
    "type",
    "queue",
    "attempt",
    "worker",
    "actor",
    "message",
    "data",
)
FORMATS = {"csv": "text/csv; charset=utf-8", "json": "application/json"}


@dataclass(frozen=True, kw_only=True)
class Export:
    ask: Ask
    reader: Reader
    kind: str

    def response(self, request: HttpRequest) -> StreamingHttpResponse:
        is_csv = self.kind == "csv"
        parts = self._csv() if is_csv else json_object("events", self._chunks())
        # A server that speaks ASGI would gather an ordinary iterator before it sends anything.
        content: Any = in_threads(parts) if isinstance(request, ASGIRequest) else parts
        answer = StreamingHttpResponse(content, content_type=FORMATS[self.kind])
        name = f"events-{timezone.now():%Y%m%d-%H%M%S}.{self.kind}"
        answer["Content-Disposition"] = f'attachment; filename="{name}"'
        answer["Cache-Control"] = "no-store"
        return answer

    def _csv(self) -> Iterator[str]:
        yield line(list(COLUMNS))
        written = 0
        for chunk, ended in self._chunks():
            written += len(chunk)
            for row in chunk:
                row["data"] = json.dumps(row["data"], ensure_ascii=False) if row["data"] else ""
            yield "".join(line([cell(row[name]) for name in COLUMNS]) for row in chunk)
            if ended:
                yield line([f"# {written:,} lines; {ended}"])

    def _chunks(self) -> Iterator[tuple[list[dict[str, Any]], str]]:
        """Lines, and why nothing follows although there may be more."""
        try:
            below: int | None = reading.place_of(self.ask)
            written = looked = 0
            while below is not None and written < MOST and looked < LOOKED_AT:
                size = min(CHUNK, MOST - written)
                with limited(DjangoDatabase(), seconds=SECONDS):
                    found = reading.walk(
                        DjangoDatabase(),
                        self.ask,
                        below=below,
                        size=size,
                        most=STEP,
                        length=LOG_LENGTH,
                    )
                written += len(found.lines)
                # A full chunk ended somewhere within the step: it is not known where.
                looked += len(found.lines) if len(found.lines) == size else STEP
                below = found.end
                workers = reading.names_of(found.lines)
                yield [self._row(each, workers) for each in found.lines], ""
        except TooBroad:
            yield [], "the search took too long here and was stopped: narrow it"
            return
        if below is None:
            return
        if written >= MOST:
            yield [], f"a file ends after {MOST:,} lines: narrow the filters for the rest"
        else:
            yield [], f"the search ends after {LOOKED_AT:,} lines: go on with an earlier time"

    def _row(self, each: reading.Line, workers: dict[Any, str]) -> dict[str, Any]:
        seen = shown(each, self.reader, workers)
        data = data_of(each, self.reader)
        if seen.actor:
            data.pop("by")
        return {
            "id": each.id,
            "at": each.at.isoformat(),
            "level": each.level,
            "event": each.event,
            "job_id": str(each.job_id),
            "type": each.type,
            "queue": each.queue,
            "attempt": each.attempt,
            "worker": seen.worker,
            "actor": seen.actor,
            "message": None if seen.is_hidden else seen.message,
            "data": data or None,
        }
