"""In which order jobs are listed, and what lies behind a place in it.

By age, dead letters by the time of their death: as the index of each status has them. A place is
that of a job: its id, with the time of death before it where that decides.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Q
from django.db.models.functions import Left

from jobs.errors import InvalidInput
from jobs.filtering import Filters
from jobs.matching import matching
from jobs.models import Job
from jobs.querysets import JobQuerySet

HEAVY = ("payload", "metadata", "result")
"""Columns that no list shows."""
ERROR_SHOWN = 300
SORTED = 100_000
"""How many of the newest matches are sorted by something else than age."""
SORTABLE = ("attempt_count", "max_attempts", "priority")

# Around the newest matches, of which it takes two columns.
SORTED_IDS = """
SELECT newest.id, newest.{column} FROM ({newest}) newest
WHERE {behind} ORDER BY newest.{column} {order}, newest.id {id_order} LIMIT %s OFFSET %s
"""

_NUMBER = re.compile(r"-?[0-9]{1,10}\Z")


@dataclass(frozen=True, kw_only=True)
class Sort:
    """Another order than by age; of equals the newest first."""

    by: str
    """One of SORTABLE."""
    descending: bool = False


def queryset(
    filters: Filters,
    *,
    after: str | None = None,
    before: str | None = None,
    upto: str | None = None,
) -> JobQuerySet:
    """The statement, in order, without what is heavy; behind a place if one is given (`upto`: or
    at it). With `before` in the opposite order, so that the nearest come first.
    """
    jobs = matching(filters).defer(*HEAVY, "last_error")
    jobs = jobs.annotate(error_start=Left("last_error", ERROR_SHOWN))
    if filters.is_of_dead_letters:
        return _by_death(jobs, after, before, upto)
    if after is not None:
        jobs = jobs.filter(id__lt=_id(after))
    if upto is not None:
        jobs = jobs.filter(id__lte=_id(upto))
    if before is not None:
        return jobs.filter(id__gt=_id(before)).order_by("id")
    return jobs.order_by("-id")


def _by_death(
    jobs: JobQuerySet, after: str | None, before: str | None, upto: str | None
) -> JobQuerySet:
    """The row comparison is what the index understands; the second condition is implied."""
    if after is not None:
        died, last = _dead_place(after)
        behind = Q(failed_at__lt=died) | Q(failed_at=died, id__lt=last)
        jobs = jobs.filter(behind, failed_at__lte=died)
    if upto is not None:
        died, last = _dead_place(upto)
        behind = Q(failed_at__lt=died) | Q(failed_at=died, id__lte=last)
        jobs = jobs.filter(behind, failed_at__lte=died)
    if before is not None:
        died, last = _dead_place(before)
        ahead = Q(failed_at__gt=died) | Q(failed_at=died, id__gt=last)
        return jobs.filter(ahead, failed_at__gte=died).order_by("failed_at", "id")
    return jobs.order_by("-failed_at", "-id")


def order_of(filters: Filters) -> tuple[str, ...]:
    """The columns that order the list, all descending."""
    return ("failed_at", "id") if filters.is_of_dead_letters else ("id",)


def place(filters: Filters, job: Job) -> str:
    """Where a job stands in its list."""
    if filters.is_of_dead_letters:
        assert job.failed_at is not None
        return f"{job.failed_at.isoformat()}~{job.id}"
    return str(job.id)


def rows(ids: list[uuid.UUID]) -> dict[uuid.UUID, Job]:
    """The jobs of these ids as a list shows them."""
    found = queryset(Filters()).order_by().filter(id__in=ids)
    return {job.id: job for job in found}


# Another order


@dataclass(frozen=True, kw_only=True)
class SortedPlace:
    """Behind which value and id to go on, and the newest match when the walk began: jobs that are
    made meanwhile push no other out.
    """

    value: int
    id: uuid.UUID
    top: str

    def __str__(self) -> str:
        return f"{self.value}~{self.id}~{self.top}"

    @classmethod
    def parse(cls, text: str) -> SortedPlace:
        value, _, rest = text.partition("~")
        last, _, top = rest.partition("~")
        if not _NUMBER.match(value) or not top:
            raise _no_place()
        return cls(value=int(value), id=_id(last), top=top)


def sorted_ids(
    filters: Filters, sort: Sort, *, top: str, place: SortedPlace | None, backwards: bool
) -> tuple[str, list[Any]]:
    """The statement for (id, value) of the newest matches in that order, behind a place (or before
    it, nearest first). Two more parameters follow: limit and offset.
    """
    if sort.by not in SORTABLE:
        raise InvalidInput(f"must be one of {', '.join(SORTABLE)}", field="sort_by")
    newest, params = (
        queryset(filters, upto=top).values_list("id", sort.by)[:SORTED].query.sql_with_params()
    )
    up = sort.descending if backwards else not sort.descending
    behind, given = "true", list(params)
    if place is not None:
        further, beside = ">" if up else "<", ">" if backwards else "<"
        behind = (
            f"newest.{sort.by} {further} %s OR (newest.{sort.by} = %s AND newest.id {beside} %s)"
        )
        given += [place.value, place.value, place.id]
    statement = SORTED_IDS.format(
        column=sort.by,
        newest=newest,
        behind=behind,
        order="ASC" if up else "DESC",
        id_order="ASC" if backwards else "DESC",
    )
    return statement, given


def _dead_place(text: str) -> tuple[datetime, uuid.UUID]:
    died, _, last = text.partition("~")
    try:
        moment = datetime.fromisoformat(died)
    except ValueError:
        raise _no_place() from None
    if moment.utcoffset() is None:
        raise _no_place()
    return moment, _id(last)


def _id(text: str) -> uuid.UUID:
    try:
        return uuid.UUID(text)
    except ValueError:
        raise _no_place() from None


def _no_place() -> InvalidInput:
    return InvalidInput("is not the place of a page", field="after")
