"""The overview's panel of range runs that are active: where each is done, how far, and until when."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any

from django.http import HttpRequest

from jobs import conf
from jobs.console import panels
from jobs.console.kept import kept
from jobs.database import DjangoDatabase
from jobs.errors import CoppiceError
from ranges.drawing import coverage
from ranges.models import RangeRun
from ranges.progress import Progress, in_words, progress_of
from ranges.states import RunStatus

NAME = "runs"
FRESH_SECONDS = 2.0
MOST = 4
WIDTH = 120
"""Pieces of the strip."""
ACTIVE = (RunStatus.RUNNING, RunStatus.PAUSED)


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A stretch of the strip that is the same throughout."""

    state: str
    start: int
    width: int


@dataclass(frozen=True, kw_only=True)
class Shown:
    id: str
    name: str
    status: str
    percent: float
    rate: float | None
    left: str
    """For how long it will run, in words; empty: not known."""
    failures: int
    pieces: list[Piece]
    marks: list[int]
    """Where something has failed: one failed leaf in a million must be seen."""
    width: int
    started_at: datetime | None


@panels.add(
    name=NAME,
    title="Range runs",
    template="admin/ranges/overview_panel.html",
    column="side",
    order=30,
)
def runs(request: HttpRequest) -> dict[str, Any] | None:  # noqa: ARG001
    """None where no run has ever been made."""
    found = kept(NAME, FRESH_SECONDS, _read)
    if found is None:
        return None
    shown, more = found
    return {"runs": shown, "more": more}


def _read() -> tuple[list[Shown], bool] | None:
    alias = conf.get().database
    known = RangeRun.objects.using(alias)
    active = list(known.filter(status__in=ACTIVE).order_by("-id")[: MOST + 1])
    if not active:
        return ([], False) if known.exists() else None
    database = DjangoDatabase()
    progress = progress_of(active[:MOST], database=database)
    shown = [
        _shown(run, progress[str(run.id)], database)
        for run in active[:MOST]
        if str(run.id) in progress
    ]
    return shown, len(active) > MOST


def _shown(run: RangeRun, progress: Progress, database: DjangoDatabase) -> Shown:
    eta = progress.eta_seconds
    try:
        buckets = coverage(run, width=WIDTH, database=database)["buckets"]
    except CoppiceError:  # not planned yet, or of a type that this process does not know
        buckets = []
    states = [bucket["state"] for bucket in buckets]
    is_running = progress.status is RunStatus.RUNNING
    return Shown(
        id=str(run.id),
        name=run.name,
        status=progress.status.value,
        percent=min(99.9, round(progress.percent, 1)) if progress.percent < 100 else 100.0,
        rate=progress.rows_per_second if is_running else None,
        left=in_words(eta[0]) if eta and eta[0] and is_running else "",
        failures=progress.open_failures,
        pieces=pieces(states),
        marks=[place for place, bucket in enumerate(buckets) if int(bucket["failed"] or 0)],
        width=len(states) or 1,
        started_at=run.started_at,
    )


def pieces(states: list[str]) -> list[Piece]:
    """Neighbours that are the same, as one."""
    found, start = [], 0
    for state, group in groupby(states):
        width = len(list(group))
        found.append(Piece(state=state, start=start, width=width))
        start += width
    return found
