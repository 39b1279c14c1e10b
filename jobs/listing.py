"""Pages of the list of jobs, and how many there are, both in bounded time.

Newest first; dead letters by the time of their death. Every status has an index in that order, so
a page reads as many rows as it shows. A filter beyond the status is checked row by row; when it
lets so little through that this takes long, the answer is `TooBroad`.

What is listed: `filtering.py` and `matching.py`; in which order: `walking.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from django.db import connections

from jobs.database import DjangoDatabase
from jobs.errors import InvalidInput, TooBroad
from jobs.filtering import Filters, range_of
from jobs.limits import limited
from jobs.matching import INTERNAL, matching, of_status, within
from jobs.models import Job
from jobs.querysets import JobQuerySet
from jobs.states import State, Status
from jobs.walking import HEAVY, Sort, SortedPlace, order_of, place, queryset, rows, sorted_ids

__all__ = [
    "HEAVY",
    "INTERNAL",
    "Count",
    "Filters",
    "Page",
    "Sort",
    "count",
    "matching",
    "of_status",
    "page",
    "queryset",
    "range_of",
]

SECONDS = 3.0
COUNT_SECONDS = 1.0
MOST = 1_000
COUNTED = 10_000
"""How far a list is counted."""
LOOKED_AT = 50_000
"""How many rows are looked at for that, when not all of them match."""


@dataclass(frozen=True, kw_only=True)
class Page:
    jobs: list[Job]
    """Without what is heavy; error texts are cut."""
    now: float
    """The database's time, epoch seconds: what `Job.state_at` wants."""
    next: str | None
    """The place behind which the next page begins; None after the last."""
    previous: str | None
    """The place before which the previous page ends; None where the walk began."""


@dataclass(frozen=True, kw_only=True)
class Count:
    exact: int | None
    at_least: int


def page(
    filters: Filters,
    *,
    after: str | None = None,
    before: str | None = None,
    limit: int = 50,
    offset: int = 0,
    sort: Sort | None = None,
) -> Page:
    """One page of jobs, behind a place or before one. Raises InvalidInput and TooBroad."""
    if not 1 <= limit <= MOST:
        raise InvalidInput(f"must be from 1 to {MOST:,}", field="limit")
    database = DjangoDatabase()
    with limited(database, seconds=SECONDS) as now:
        if sort is None:
            found = queryset(filters, after=after, before=before)[offset : offset + limit + 1]
            jobs = [(job, place(filters, job)) for job in found]
        else:
            jobs = _sorted(database, filters, sort, after, before, limit + 1, offset)
    more, jobs = len(jobs) > limit, jobs[:limit]
    if before is not None:
        jobs.reverse()
    # From where a walk goes back, there is something ahead, and the other way round.
    first, last = (jobs[0][1], jobs[-1][1]) if jobs else (None, None)
    return Page(
        jobs=[_with_error(job) for job, _ in jobs],
        now=now,
        next=last if more or before is not None else None,
        previous=first if after is not None or (before is not None and more) else None,
    )


def count(filters: Filters) -> Count:
    """How many match: exactly up to COUNTED, unless that would look at more than LOOKED_AT rows."""
    try:
        with limited(DjangoDatabase(), seconds=COUNT_SECONDS):
            edge = _edge(filters)
            if edge is None:
                found = capped(filters).count()
            else:
                found = queryset(filters, before=edge).order_by()[: COUNTED + 1].count()
    except TooBroad:
        return Count(exact=None, at_least=0)
    is_exact = edge is None and found <= COUNTED
    return Count(exact=found if is_exact else None, at_least=found)


def capped(filters: Filters) -> JobQuerySet:
    """What matches, up to one more than is counted, in the order in which its index has it.

    In another order the few dead letters of a large table would be looked for among all jobs.
    """
    order = [f"-{name}" for name in order_of(filters)]
    return matching(filters).order_by(*order)[: COUNTED + 1]


def _edge(filters: Filters) -> str | None:
    """The place of the last row to look at, where that is not the end of the list."""
    walked = Filters(status=filters.status)
    match filters.state:
        case State.READY | State.SCHEDULED:
            walked = Filters(status=Status.PENDING)
        case None:
            pass
        case _:
            walked = Filters(state=filters.state)
    if filters.schedule is not None or replace(filters, internal=None) == walked:
        return None  # an index has them, and no others
    # No more columns than the index has.
    order = order_of(walked)
    rows = within(matching(walked), filters).only(*order).order_by(*(f"-{name}" for name in order))
    last = rows[LOOKED_AT : LOOKED_AT + 1].first()
    return None if last is None else place(walked, last)


def _sorted(
    database: DjangoDatabase,
    filters: Filters,
    sort: Sort,
    after: str | None,
    before: str | None,
    limit: int,
    offset: int,
) -> list[tuple[Job, str]]:
    """Two statements: the ids in that order, then their rows."""
    given = after or before
    behind = None if given is None else SortedPlace.parse(given)
    if behind is not None:
        top = behind.top
    else:
        newest = queryset(filters).first()
        if newest is None:
            return []
        top = place(filters, newest)
    sql, params = sorted_ids(filters, sort, top=top, place=behind, backwards=before is not None)
    with connections[database.alias].cursor() as cursor:
        cursor.execute(sql, (*params, limit, offset))
        found = cursor.fetchall()
    known = rows([id for id, _ in found])
    return [
        (known[id], str(SortedPlace(value=value, id=id, top=top)))
        for id, value in found
        if id in known
    ]


def _with_error(job: Job) -> Job:
    """With the beginning of its error where the whole would be loaded."""
    job.last_error = job.error_start  # type: ignore[attr-defined]
    return job
