"""The list of jobs: one statement, its filters, and where the next page begins.

Newest first; dead letters by the time of their death. Every status has an index in that order, so
a page reads as many rows as it shows. A filter beyond the status is checked row by row; when it
lets so little through that this takes long, the answer is `TooBroad`.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q

from jobs import conf
from jobs.database import DjangoDatabase
from jobs.errors import InvalidInput
from jobs.filtering import ID_SLACK, NUMBERS, TIMES, Filters, id_at, range_of, seconds_of
from jobs.limits import limited
from jobs.models import Job
from jobs.querysets import JobQuerySet
from jobs.states import State, Status

__all__ = ["Filters", "Page", "matching", "of_status", "page", "queryset", "range_of"]

SECONDS = 3.0
MOST = 1_000
HEAVY = ("payload", "metadata", "result")
"""Columns that no list shows."""
INTERNAL = {"internal": True}
"""How the metadata of a job says that the product made it for itself."""


@dataclass(frozen=True, kw_only=True)
class Page:
    jobs: list[Job]
    now: float
    """The database's time, epoch seconds: what `Job.state_at` wants."""
    next: str | None
    """Where the next page begins; None after the last."""


def page(filters: Filters, *, after: str | None = None, limit: int = 50) -> Page:
    """One page of jobs, without payloads and results. Raises InvalidInput and TooBroad."""
    if not 1 <= limit <= MOST:
        raise InvalidInput(f"must be from 1 to {MOST:,}", field="limit")
    rows = queryset(filters, after=after)[: limit + 1]
    with limited(DjangoDatabase(), seconds=SECONDS, field="filter") as now:
        jobs = list(rows)
    more = len(jobs) > limit
    jobs = jobs[:limit]
    return Page(jobs=jobs, now=now, next=_place(filters, jobs[-1]) if more else None)


def queryset(filters: Filters, *, after: str | None = None) -> JobQuerySet:
    """The statement itself, ordered, behind a place if one is given."""
    jobs = matching(filters).defer(*HEAVY)
    if filters.is_of_dead_letters:
        if after is not None:
            died, last = _dead_place(after)
            # The row comparison is what the index understands; the second half is implied.
            jobs = jobs.filter(Q(failed_at__lt=died) | Q(failed_at=died, id__lt=last)).filter(
                failed_at__lte=died
            )
        return jobs.order_by("-failed_at", "-id")
    if after is not None:
        jobs = jobs.filter(id__lt=_id(after, "after"))
    return jobs.order_by("-id")


def matching(filters: Filters) -> JobQuerySet:
    """The jobs that the filters let through, in no order."""
    jobs = Job.objects.using(conf.get().database).all()
    if filters.status is not None:
        jobs = of_status(jobs, filters.status)
    if filters.state is not None:
        jobs = _of_state(jobs, filters.state)
    if filters.type is not None:
        jobs = jobs.filter(type=filters.type)
    if filters.queue is not None:
        jobs = jobs.filter(queue=filters.queue)
    if filters.priority is not None:
        jobs = jobs.filter(priority=filters.priority)
    if filters.id_prefix is not None:
        first, last = range_of(filters.id_prefix)
        jobs = jobs.filter(id__gte=first, id__lte=last)
    if filters.recur_interval is not None:
        jobs = jobs.filter(schedule__interval_seconds=seconds_of(filters.recur_interval))
    if filters.schedule is not None:
        jobs = jobs.filter(schedule_id=filters.schedule)
    if filters.error_fingerprint is not None:
        jobs = jobs.filter(error_fingerprint=filters.error_fingerprint)
    if filters.internal is not None:
        is_internal = Q(metadata__contains=INTERNAL)
        jobs = jobs.filter(is_internal if filters.internal else ~is_internal)
    return _of_numbers(_of_times(jobs, filters), filters)


def _of_times(jobs: JobQuerySet, filters: Filters) -> JobQuerySet:
    """Between moments. No index has the times, but an id begins with the time when it was made,
    and nothing happens to a job before: so the walk through the ids is cut short.
    """
    for name, column in TIMES.items():
        after, before = getattr(filters, f"{name}_after"), getattr(filters, f"{name}_before")
        if after is not None:
            jobs = jobs.filter(**{f"{column}__gte": after})
        if before is not None:
            jobs = jobs.filter(**{f"{column}__lt": before, "id__lt": id_at(before, later=ID_SLACK)})
    if filters.created_after is not None:
        jobs = jobs.filter(id__gte=id_at(filters.created_after, later=-ID_SLACK))
    return jobs


def _of_numbers(jobs: JobQuerySet, filters: Filters) -> JobQuerySet:
    for name, column in NUMBERS.items():
        least, most = getattr(filters, f"min_{name}"), getattr(filters, f"max_{name}")
        if least is not None:
            jobs = jobs.filter(**{f"{column}__gte": least})
        if most is not None:
            jobs = jobs.filter(**{f"{column}__lte": most})
    return jobs


def of_status(jobs: JobQuerySet, status: str) -> JobQuerySet:
    """The jobs of one status, asked for as its index is declared."""
    return jobs.pending() if status == Status.PENDING else jobs.filter(status=status)


def _of_state(jobs: JobQuerySet, state: State) -> JobQuerySet:
    match state:
        case State.READY:
            return jobs.ready()
        case State.SCHEDULED:
            return jobs.scheduled()
        case State.RETRYING:
            return jobs.waiting().retrying()
        case State.BLOCKED:
            return jobs.waiting().blocked()
        case State.HELD:
            return jobs.waiting().held()
        case State.RUNNING:
            return jobs.processing().filter(cancel_requested_at__isnull=True)
        case State.CANCELLING:
            return jobs.processing().filter(cancel_requested_at__isnull=False)
        case State.COMPLETED:
            return jobs.filter(status=Status.COMPLETED)
        case State.DEAD:
            return jobs.dead()
        case State.CANCELLED:
            return jobs.filter(status=Status.CANCELLED)


def _place(filters: Filters, job: Job) -> str:
    if filters.is_of_dead_letters:
        assert job.failed_at is not None
        return f"{job.failed_at.isoformat()}~{job.id}"
    return str(job.id)


def _dead_place(text: str) -> tuple[datetime, uuid.UUID]:
    died, _, last = text.partition("~")
    try:
        moment = datetime.fromisoformat(died)
    except ValueError:
        moment = None
    if moment is None or moment.utcoffset() is None:
        raise InvalidInput("is not the place of a page", field="after")
    return moment, _id(last, "after")


def _id(text: str, field: str) -> uuid.UUID:
    try:
        return uuid.UUID(text)
    except ValueError:
        raise InvalidInput("is not a job's id", field=field) from None
