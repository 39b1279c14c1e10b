"""One page of the list: the rows, what is beside them, and how many there are, in bounded time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from jobs import conf, listing
from jobs.admin.ledger.asking import Ask
from jobs.console.words import count
from jobs.database import DjangoDatabase
from jobs.errors import InvalidInput, TooBroad
from jobs.filtering import Filters
from jobs.limits import limited
from jobs.models import Job, Schedule, Worker
from jobs.states import State
from jobs.walking import place, queryset

SECONDS = 3.0
COUNT_SECONDS = 0.1
"""A count is not worth waiting for."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """A job as the list shows it."""

    job: Job
    state: str
    waiting_since: datetime | None = None
    waited: float | None = None
    running_since: datetime | None = None
    ran: float | None = None
    next_at: datetime | None = None
    ended_at: datetime | None = None
    worker: str = ""
    schedule: str = ""


@dataclass(kw_only=True)
class Listed:
    rows: list[Row] = field(default_factory=list)
    now: datetime | None = None
    newer: str = ""
    older: str = ""
    """Query strings."""
    too_broad: bool = False
    total: str = ""
    """How many match, as far as that is known: "1,039", "10,000+"."""


def read(ask: Ask) -> Listed:
    """The page that is asked for; one behind a place that is none begins at the newest."""
    try:
        return _read(ask)
    except InvalidInput as error:
        if isinstance(error, TooBroad):
            return Listed(too_broad=True)
        ask.after = ask.before = ""
        return _read(ask)


def rows_of(ids: Iterable[UUID]) -> list[Row]:
    """These jobs, whatever the filters say: what became of rows that are shown."""
    with limited(DjangoDatabase(), seconds=SECONDS) as now:
        jobs = [_with_error(job) for job in queryset(Filters()).filter(id__in=list(ids))]
    return _rows(jobs, _moment(now))


def _read(ask: Ask) -> Listed:
    jobs, now, newer, older = _sorted(ask) if ask.sort is not None else _newest(ask)
    listed = Listed(rows=_rows(jobs, _moment(now)), now=_moment(now))
    if newer:
        listed.newer = ask.url(before=newer)
    if older:
        listed.older = ask.url(after=older)
    listed.total = _total(ask, len(jobs), is_whole=not (newer or older))
    return listed


def _newest(ask: Ask) -> tuple[list[Job], float, str, str]:
    """The newest of all the lists that the tab shows together; each has an index in that order."""
    wanted = ask.size + 1
    with limited(DjangoDatabase(), seconds=SECONDS) as now:
        found = [
            (place(filters, job), job)
            for filters in ask.wholes
            for job in queryset(filters, after=ask.after or None, before=ask.before or None)[
                :wanted
            ]
        ]
    if len(ask.wholes) > 1:
        found.sort(key=lambda pair: pair[1].id, reverse=not ask.before)
    more, found = len(found) > ask.size, found[: ask.size]
    if ask.before:
        found.reverse()
    jobs = [_with_error(job) for _, job in found]
    if not found:
        return jobs, now, "", ""
    has_newer = bool(ask.after) or (bool(ask.before) and more)
    has_older = bool(ask.before) or more
    return jobs, now, found[0][0] if has_newer else "", found[-1][0] if has_older else ""


def _sorted(ask: Ask) -> tuple[list[Job], float, str, str]:
    page = listing.page(
        ask.whole,
        after=ask.after or None,
        before=ask.before or None,
        limit=ask.size,
        sort=ask.sort,
    )
    return page.jobs, page.now, page.previous or "", page.next or ""


def _total(ask: Ask, shown: int, *, is_whole: bool) -> str:
    if is_whole:
        return count(shown)
    total, is_least = 0, False
    try:
        with limited(DjangoDatabase(), seconds=COUNT_SECONDS):
            for filters in ask.wholes:
                total += listing.capped(filters).count()
    except TooBroad:
        return ""
    if total > listing.COUNTED:
        total, is_least = listing.COUNTED, True
    return count(total, is_least=is_least)


def _rows(jobs: list[Job], now: datetime) -> list[Row]:
    alias = conf.get().database
    workers = {job.worker_id for job in jobs if job.worker_id}
    schedules = {job.schedule_id for job in jobs if job.schedule_id}
    names: dict[Any, str] = {}
    if workers:
        found = Worker.objects.using(alias).filter(id__in=workers)
        names |= dict(found.values_list("id", "name"))
    if schedules:
        rules = Schedule.objects.using(alias).filter(id__in=schedules)
        names |= dict(rules.values_list("id", "name"))
    return [_row(job, now, names) for job in jobs]


def _row(job: Job, now: datetime, names: dict[Any, str]) -> Row:
    state = job.state_at(now.timestamp())
    ended_at = job.completed_at or job.failed_at or job.cancelled_at if job.is_terminal else None
    is_running = state in (State.RUNNING, State.CANCELLING)
    has_run = job.started_at is not None and (is_running or ended_at is not None)
    return Row(
        job=job,
        state=state.value,
        waiting_since=job.due_at if state is State.READY else None,
        waited=_between(job.due_at, job.started_at) if has_run else None,
        running_since=job.started_at if is_running else None,
        ran=_between(job.started_at, ended_at),
        next_at=job.due_at if state in (State.SCHEDULED, State.RETRYING) else None,
        ended_at=ended_at,
        worker=names.get(job.worker_id, "") if job.worker_id else "",
        schedule=names.get(job.schedule_id, "") if job.schedule_id else "",
    )


def _between(begin: datetime | None, end: datetime | None) -> float | None:
    if begin is None or end is None or end < begin:
        return None
    return (end - begin).total_seconds()


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _with_error(job: Job) -> Job:
    """With the beginning of its error where the whole would be loaded."""
    job.last_error = getattr(job, "error_start", "")
    return job
