"""The audit as a file, in the order and with the filters of the list."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jobs.admin.audit.asking import Ask
from jobs.admin.audit.rows import data_of
from jobs.admin.files import File, Rows
from jobs.database import DjangoDatabase
from jobs.limits import limited
from jobs.masking import Reader
from jobs.models import AuditEntry

CHUNK = 500
SECONDS = 10.0
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


def file_of(ask: Ask, reader: Reader, kind: str) -> File:
    pages = _pages(ask, reader)
    return File(name="audit", things="entries", pages=pages, columns=COLUMNS, kind=kind)


def _pages(ask: Ask, reader: Reader) -> Iterator[Rows]:
    rows, last = ask.rows().order_by("-id"), None
    while True:
        with limited(DjangoDatabase(), seconds=SECONDS):
            found = list((rows if last is None else rows.filter(id__lt=last))[:CHUNK])
        yield [_row(entry, reader) for entry in found]
        if len(found) < CHUNK:
            return
        last = found[-1].id


def _row(entry: AuditEntry, reader: Reader) -> dict[str, Any]:
    found = {name: getattr(entry, name) for name in COLUMNS}
    return {**found, "at": entry.at.isoformat(), "data": data_of(entry, reader)}
