"""Which jobs an operation is about, and the walk through them, in an order that an index has.

Dead letters are walked by the time of their death, live jobs by their id, which begins with the time
when they were made. The walk only goes forward, and ends at the moment when the operation was
created: so a job that dies again after a bulk retry is met once, and the walk cannot follow its own
tail. One statement reads both statuses of live jobs, since a job that changes between them must not
be missed.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.db.models import DateTimeField, F, Func, UUIDField, Value
from django.db.models.lookups import GreaterThan, LessThanOrEqual

from jobs.bulk.actions import Action, Family, each_status
from jobs.database import DjangoDatabase
from jobs.errors import TooBroad
from jobs.filtering import Filters
from jobs.limits import limited
from jobs.listing import matching
from jobs.querysets import JobQuerySet

SECONDS = 2.0
"""How long one look for the next jobs may take before it goes on in stretches."""
STRETCH = 20_000
"""Index entries that one look passes over then, whether they match or not."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """The last job that was met."""

    id: uuid.UUID
    died: datetime | None = None

    def as_text(self) -> str:
        return str(self.id) if self.died is None else f"{self.died.isoformat()}~{self.id}"

    @classmethod
    def from_text(cls, text: str) -> Place | None:
        if not text:
            return None
        died, _, id = text.rpartition("~")
        return cls(id=uuid.UUID(id), died=datetime.fromisoformat(died) if died else None)


@dataclass(frozen=True, kw_only=True)
class Found:
    """The next jobs, in the order of the walk; `place` is where it goes on."""

    jobs: Sequence[Place]
    place: Place | None
    is_last: bool
    """Nothing follows."""


@dataclass
class Walk:
    """The walk of one operation; forgets nothing but whether it goes in stretches."""

    action: Action
    filters: Filters
    before: datetime
    in_stretches: bool = False

    def next(self, after: Place | None, limit: int) -> Found:
        """At most `limit` jobs behind a place."""
        if not self.in_stretches:
            try:
                with limited(DjangoDatabase(), seconds=SECONDS):
                    jobs = self._look(after, limit)
                return Found(
                    jobs=jobs, place=jobs[-1] if jobs else after, is_last=len(jobs) < limit
                )
            except TooBroad:
                self.in_stretches = True
        end = self._end_of_stretch(after)
        jobs = self._look(after, limit, upto=end)
        if len(jobs) == limit:
            return Found(jobs=jobs, place=jobs[-1], is_last=False)
        return Found(jobs=jobs, place=end or after, is_last=end is None)

    def still(self, ids: Sequence[uuid.UUID]) -> list[str]:
        """Those that match now, locked in the order of ids, so that they stay so."""
        jobs = matching(replace(self.filters, internal=False)).filter(id__in=ids)
        jobs = jobs.filter(status__in=[status.value for status in self.action.statuses])
        jobs = _bounded(jobs, self.action, self.before).order_by("id")
        locked = jobs.select_for_update(no_key=True, of=("self",))
        return [str(id) for id in locked.values_list("id", flat=True)]

    def _look(self, after: Place | None, limit: int, upto: Place | None = None) -> list[Place]:
        pools = [
            _ordered(self.action, _between(pool, self.action, after, upto))[:limit]
            for pool in pools_of(self.action, self.filters, self.before)
        ]
        rows = (
            pools[0].union(*pools[1:], all=True).order_by("id")[:limit] if pools[1:] else pools[0]
        )
        return [_place(row) for row in rows]

    def _end_of_stretch(self, after: Place | None) -> Place | None:
        """The last of the next `STRETCH` jobs, whether they match or not; None if fewer are left."""
        statuses = [each.status for each in each_status(self.action, self.filters)]
        pools = [
            _ordered(
                self.action,
                _between(
                    _bounded(matching(Filters(status=status)), self.action, self.before),
                    self.action,
                    after,
                    None,
                ),
            )[:STRETCH]
            for status in statuses
        ]
        rows = pools[0].union(*pools[1:], all=True).order_by("id") if pools[1:] else pools[0]
        last = list(rows[STRETCH - 1 : STRETCH])
        return _place(last[0]) if last else None


def pools_of(action: Action, filters: Filters, before: datetime | None) -> list[JobQuerySet]:
    """The jobs that match, a queryset for each status; in the index of each."""
    pools = [matching(each) for each in each_status(action, filters)]
    return pools if before is None else [_bounded(pool, action, before) for pool in pools]


def order_of(action: Action) -> tuple[str, ...]:
    return ("failed_at", "id") if action.family is Family.DEAD else ("id",)


def _bounded(jobs: JobQuerySet, action: Action, before: datetime) -> JobQuerySet:
    """Those that were so before a moment."""
    column = "failed_at" if action.family is Family.DEAD else "created_at"
    return jobs.filter(**{f"{column}__lte": before})


def _ordered(action: Action, jobs: JobQuerySet) -> Any:
    return jobs.order_by(*order_of(action)).values_list(*order_of(action))


def _between(
    jobs: JobQuerySet, action: Action, after: Place | None, upto: Place | None
) -> JobQuerySet:
    """Behind a place, and not behind another, by the comparison of rows that the index knows."""
    if action.family is Family.LIVE:
        if after is not None:
            jobs = jobs.filter(id__gt=after.id)
        return jobs if upto is None else jobs.filter(id__lte=upto.id)
    if after is not None:
        jobs = jobs.filter(GreaterThan(_row(F("failed_at"), F("id")), _row(*_values(after))))
    if upto is not None:
        jobs = jobs.filter(LessThanOrEqual(_row(F("failed_at"), F("id")), _row(*_values(upto))))
    return jobs


def _row(*columns: Any) -> Func:
    return Func(*columns, function="ROW", output_field=DateTimeField())


def _values(place: Place) -> tuple[Value, Value]:
    return (
        Value(place.died, output_field=DateTimeField()),
        Value(place.id, output_field=UUIDField()),
    )


def _place(row: tuple[Any, ...]) -> Place:
    return Place(id=row[-1], died=row[0] if len(row) == 2 else None)
