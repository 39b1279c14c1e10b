"""The log as a file: from the place and with the filters of the page, towards older lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from jobs.admin.events import reading
from jobs.admin.events.asking import Ask
from jobs.admin.events.lines import data_of, shown
from jobs.admin.files import Ended, File, Rows
from jobs.context import LOG_LENGTH
from jobs.database import DjangoDatabase
from jobs.limits import limited
from jobs.masking import Reader

LOOKED_AT = 1_000_000
"""Lines that are looked at for one file."""
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


@dataclass(frozen=True, kw_only=True)
class Export:
    ask: Ask
    reader: Reader
    kind: str

    def file(self) -> File:
        pages = self._pages()
        return File(name="events", things="events", pages=pages, columns=COLUMNS, kind=self.kind)

    def _pages(self) -> Iterator[Rows]:
        below: int | None = reading.place_of(self.ask)
        looked = 0
        while below is not None:
            if looked >= LOOKED_AT and self._walk(below, size=1, most=1) != reading.NOTHING:
                raise Ended(
                    f"the search ends after {LOOKED_AT:,} lines: go on with an earlier time"
                )
            found = self._walk(below, size=CHUNK, most=STEP)
            # A full chunk ended somewhere within the step: it is not known where.
            looked += len(found.lines) if len(found.lines) == CHUNK else STEP
            below = found.end
            workers = reading.names_of(found.lines)
            yield [self._row(each, workers) for each in found.lines]

    def _walk(self, below: int, *, size: int, most: int) -> reading.Stretch:
        database = DjangoDatabase()
        with limited(database, seconds=SECONDS):
            return reading.walk(
                database, self.ask, below=below, size=size, most=most, length=LOG_LENGTH
            )

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
