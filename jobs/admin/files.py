"""Lists as files: CSV or JSON, streamed page by page, with a stated end.

A file that ends although there is more says so, and why: in CSV as its last line, in JSON as
`"complete": false` with a note.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, StreamingHttpResponse
from django.utils import timezone

from jobs.errors import TooBroad

MOST = 100_000
"""Rows of one file."""
FORMATS = {"csv": "text/csv; charset=utf-8", "json": "application/json"}
FORMULAS = ("=", "+", "-", "@", "\t", "\r")
"""What a spreadsheet would take for a formula."""

type Rows = list[dict[str, Any]]


class Ended(Exception):
    """Raised between pages: there may be more, but nobody looks for it. Its text says why."""


@dataclass(frozen=True, kw_only=True)
class File:
    name: str
    """With which the file's name begins."""
    things: str
    """What it holds: "jobs", "lines"."""
    pages: Iterable[Rows]
    """Ends where the list does; raises TooBroad or Ended."""
    columns: Sequence[str]
    """Of a CSV file; JSON has all that a row has."""
    kind: str

    def response(self, request: HttpRequest) -> StreamingHttpResponse:
        parts = self._csv() if self.kind == "csv" else self._json()
        # A server that speaks ASGI would gather an ordinary iterator before it sends anything.
        content: Any = _in_threads(parts) if isinstance(request, ASGIRequest) else parts
        answer = StreamingHttpResponse(content, content_type=FORMATS[self.kind])
        name = f"{self.name}-{timezone.now():%Y%m%d-%H%M%S}.{self.kind}"
        answer["Content-Disposition"] = f'attachment; filename="{name}"'
        answer["Cache-Control"] = "no-store"
        return answer

    def _csv(self) -> Iterator[str]:
        yield _line(self.columns)
        written = 0
        for rows, why in self._bounded():
            yield "".join(_line([cell(row[name]) for name in self.columns]) for row in rows)
            written += len(rows)
            if why:
                yield _line([f"# {written:,} {self.things}; {why}"])

    def _json(self) -> Iterator[str]:
        yield f'{{"{self.things}": ['
        written, note = 0, ""
        for rows, why in self._bounded():
            texts = [json.dumps(row, ensure_ascii=False) for row in rows]
            yield (",\n" if written and texts else "\n") + ",\n".join(texts)
            written += len(rows)
            note = why
        yield f"\n], {json.dumps({'count': written, 'complete': not note, 'note': note})[1:]}"

    def _bounded(self) -> Iterator[tuple[Rows, str]]:
        """Rows, and why nothing follows although there is more. When the file is full, one page
        more is read to know that.
        """
        left = MOST
        try:
            for rows in self.pages:
                yield rows[:left], ""
                if len(rows) > left:
                    why = (
                        f"a file ends after {MOST:,} {self.things}: narrow the filters for the rest"
                    )
                    yield [], why
                    return
                left -= len(rows)
        except TooBroad:
            yield [], "the search took too long here and was stopped: narrow it"
        except Ended as ended:
            yield [], str(ended)


def cell(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else str(value)
    text = "" if value is None else text
    return f"'{text}" if text.startswith(FORMULAS) else text


def _line(cells: Sequence[str]) -> str:
    text = io.StringIO()
    csv.writer(text).writerow(cells)
    return text.getvalue()


async def _in_threads(parts: Iterator[str]) -> AsyncIterator[str]:
    def following() -> str | None:
        return next(parts, None)

    while (part := await sync_to_async(following)()) is not None:
        yield part
