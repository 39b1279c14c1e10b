"""The jobs that a filter lets through, each asked for in the words of the index that has them."""

from __future__ import annotations

from django.db.models import Q

from jobs import conf
from jobs.filtering import ID_SLACK, NUMBERS, TIMES, Filters, id_at, range_of, seconds_of
from jobs.models import Job
from jobs.querysets import JobQuerySet
from jobs.states import State, Status

INTERNAL = {"internal": True}
"""How the metadata of a job says that the product made it for itself."""


def matching(filters: Filters) -> JobQuerySet:
    """The jobs that the filters let through, in no order."""
    jobs = Job.objects.using(conf.get().database).all()
    if filters.status is not None:
        jobs = of_status(jobs, filters.status)
    if filters.state is not None:
        jobs = _of_state(jobs, filters.state)
    for name in ("type", "queue", "priority", "error_fingerprint"):
        value = getattr(filters, name)
        if value is not None:
            jobs = jobs.filter(**{name: value})
    if filters.id_prefix is not None:
        first, last = range_of(filters.id_prefix)
        jobs = jobs.filter(id__gte=first, id__lte=last)
    jobs = _of_origin(_of_content(jobs, filters), filters)
    return _of_numbers(_of_times(jobs, filters), filters)


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


def _of_origin(jobs: JobQuerySet, filters: Filters) -> JobQuerySet:
    """By what made them, what runs them, and what they wait for."""
    if filters.recur_interval is not None:
        jobs = jobs.filter(schedule__interval_seconds=seconds_of(filters.recur_interval))
    if filters.schedule is not None:
        jobs = jobs.filter(schedule_id=filters.schedule)
    if filters.internal is not None:
        is_internal = Q(metadata__contains=INTERNAL)
        jobs = jobs.filter(is_internal if filters.internal else ~is_internal)
    if filters.worker is not None:
        jobs = jobs.filter(worker_id=filters.worker)
    if filters.recurring is not None:
        jobs = jobs.filter(schedule__isnull=not filters.recurring)
    if filters.depends_on is not None:
        jobs = jobs.filter(parent_edges__parent=filters.depends_on)
    return jobs


def _of_content(jobs: JobQuerySet, filters: Filters) -> JobQuerySet:
    """By what no index has: checked row by row."""
    if filters.error is not None:
        jobs = jobs.filter(last_error__icontains=filters.error)
    if filters.payload is not None:
        jobs = jobs.filter(payload__contains=dict(filters.payload))
    return jobs


def _of_times(jobs: JobQuerySet, filters: Filters) -> JobQuerySet:
    for name, column in TIMES.items():
        after, before = getattr(filters, f"{name}_after"), getattr(filters, f"{name}_before")
        if after is not None:
            jobs = jobs.filter(**{f"{column}__gte": after})
        if before is not None:
            jobs = jobs.filter(**{f"{column}__lt": before})
    return within(jobs, filters)


def within(jobs: JobQuerySet, filters: Filters) -> JobQuerySet:
    """No index has the times, but an id begins with the time when it was made, and nothing happens
    to a job before: so a walk through the ids is cut short at both ends.
    """
    ends = [getattr(filters, f"{name}_before") for name in TIMES]
    earliest = min((end for end in ends if end is not None), default=None)
    if earliest is not None:
        jobs = jobs.filter(id__lt=id_at(earliest, later=ID_SLACK))
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
