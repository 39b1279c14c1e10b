"""The audit as a file, in the order and with the filters of the list; streamed, with a stated end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, StreamingHttpResponse
from django.utils import timezone

from jobs.admin.audit.asking import Ask
from jobs.admin.audit.rows import data_of
from jobs.admin.ledger.exporting import CHUNK, MOST, SECONDS, cell, in_threads, line
from jobs.database import DjangoDatabase
from jobs.errors import TooBroad
from jobs.limits import limited
from jobs.masking import Reader
from jobs.models import AuditEntry

COLUMNS = (
    "id",
    "at",
    "actor",
    "address",
    "action",
    "scope",
    "object_id",
    "changed",
    "reason",
    "data",
)
FORMATS = {"csv": "text/csv; charset=utf-8", "json": "application/json"}


def response(request: HttpRequest, ask: Ask, reader: Reader, kind: str) -> StreamingHttpResponse:
    parts = _csv(ask, reader) if kind == "csv" else _json(ask, reader)
    # A server that speaks ASGI would gather an ordinary iterator before it sends anything.
    content: Any = in_threads(parts) if isinstance(request, ASGIRequest) else parts
    answer = StreamingHttpResponse(content, content_type=FORMATS[kind])
    name = f"audit-{timezone.now():%Y%m%d-%H%M%S}.{kind}"
    answer["Content-Disposition"] = f'attachment; filename="{name}"'
    answer["Cache-Control"] = "no-store"
    return answer


def _csv(ask: Ask, reader: Reader) -> Iterator[str]:
    yield line(list(COLUMNS))
    written = 0
    for chunk, ended in _chunks(ask):
        written += len(chunk)
        found = [_row(entry, reader) for entry in chunk]
        for row in found:
            row["data"] = json.dumps(row["data"], ensure_ascii=False)
        yield "".join(line([cell(row[name]) for name in COLUMNS]) for row in found)
        if ended:
            yield line([f"# {written:,} rows; {ended}"])


def _json(ask: Ask, reader: Reader) -> Iterator[str]:
    yield '{"entries": ['
    written, why = 0, ""
    for chunk, ended in _chunks(ask):
        why = ended
        texts = [json.dumps(_row(entry, reader), ensure_ascii=False) for entry in chunk]
        yield (",\n" if written and texts else "\n") + ",\n".join(texts)
        written += len(chunk)
    yield f"\n], {json.dumps({'count': written, 'complete': not why, 'note': why})[1:]}"


def _chunks(ask: Ask) -> Iterator[tuple[list[AuditEntry], str]]:
    """Entries, and why nothing follows although there may be more."""
    last, left = None, MOST
    while left > 0:
        rows = ask.rows() if last is None else ask.rows().filter(id__lt=last)
        try:
            with limited(DjangoDatabase(), seconds=SECONDS):
                found = list(rows.order_by("-id")[: min(CHUNK, left)])
        except TooBroad:
            yield [], "the search took too long here and was stopped: narrow it"
            return
        left -= len(found)
        yield found, ""
        if len(found) < CHUNK:
            return
        last = found[-1].id
    yield [], f"an export ends after {MOST:,}: narrow the filters for the rest"


def _row(entry: AuditEntry, reader: Reader) -> dict[str, Any]:
    found = {name: getattr(entry, name) for name in COLUMNS}
    return {**found, "at": entry.at.isoformat(), "data": data_of(entry, reader)}
