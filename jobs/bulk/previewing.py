"""What an operation would change, looked at in bounded time before anybody asks for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import TextField
from django.db.models.functions import Cast

from jobs.bulk.actions import Action, Family, check_filters, each_status, find, in_words
from jobs.bulk.choosing import order_of
from jobs.database import DjangoDatabase
from jobs.errors import TooBroad
from jobs.filtering import Filters
from jobs.limits import limited
from jobs.listing import HEAVY, matching
from jobs.models import Job
from jobs.querysets import JobQuerySet
from jobs.states import Status

CAP = 10_000
SAMPLE = 10
SECONDS = 3.0

type Pool = tuple[Status | None, JobQuerySet]
"""Jobs of one status that match."""


@dataclass(frozen=True, kw_only=True)
class Preview:
    action: str
    in_words: str
    """The filters."""
    count: int
    is_capped: bool
    """There are at least `count`."""
    oldest: datetime | None
    """Of dead letters when they died, of others when they were made."""
    newest: datetime | None
    sample: list[Job]
    """The newest; without payload and result."""
    now: float
    """The database's time, epoch seconds: what `Job.state_at` wants."""


def preview(action: str, filters: Filters) -> Preview:
    """Count, ends and a sample. Raises InvalidInput, and TooBroad after 3 s."""
    found = find(action)
    check_filters(found, filters)
    pools = _pools(found, filters)
    order = order_of(found)
    backwards = [f"-{name}" for name in order]
    reading = _Reading(SECONDS)
    counted, is_capped = _count(reading, pools)
    oldest = reading.list(lambda: _first(pools, order, 1))
    sample = reading.list(lambda: _first(pools, backwards, SAMPLE))
    return Preview(
        action=found.name,
        in_words=in_words(found, filters),
        count=counted,
        is_capped=is_capped,
        oldest=_time(found, oldest),
        newest=_time(found, sample),
        sample=sample,
        now=reading.now,
    )


def count(action: Action, filters: Filters) -> tuple[int, bool]:
    """How many match, and whether it stopped at the cap. Raises TooBroad."""
    return _count(_Reading(SECONDS), _pools(action, filters))


class _Reading:
    """Several statements that share one limit of time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._ends_at = time.monotonic() + seconds
        self.now = 0.0

    def list[T](self, read: Callable[[], T]) -> T:
        left = self._ends_at - time.monotonic()
        if left <= 0:
            raise TooBroad(f"is too broad: it took more than {self._seconds:g} s", field="filter")
        with limited(DjangoDatabase(), seconds=max(left, 0.01)) as self.now:
            return read()


def _pools(action: Action, filters: Filters) -> list[Pool]:
    return [(each.status, matching(each)) for each in each_status(action, filters)]


def _count(reading: _Reading, pools: list[Pool]) -> tuple[int, bool]:
    total = 0
    for _, pool in pools:
        total += reading.list(lambda pool=pool: pool.order_by()[: CAP + 1].count())  # type: ignore[misc]
    return min(total, CAP), total > CAP


def _first(pools: list[Pool], order: Sequence[str], most: int) -> list[Job]:
    """The first of all pools together; they are few."""
    jobs = [
        job for status, pool in pools for job in _in_order(pool.defer(*HEAVY), status, order)[:most]
    ]
    is_backwards = order[0].startswith("-")
    names = [name.removeprefix("-") for name in order]
    jobs.sort(key=lambda job: [getattr(job, name) for name in names], reverse=is_backwards)
    return jobs[:most]


def _in_order(jobs: JobQuerySet, status: Status | None, order: Sequence[str]) -> JobQuerySet:
    """Those that run are few, and are sorted, by something that no index has: the planner would take
    them to lie evenly among all jobs, and look for the oldest from the first job that ever was.
    """
    if status is not Status.PROCESSING:
        return jobs.order_by(*order)
    key = Cast("id", TextField())
    return jobs.order_by(key.desc() if order[0].startswith("-") else key.asc())


def _time(action: Action, jobs: list[Job]) -> datetime | None:
    if not jobs:
        return None
    return jobs[0].failed_at if action.family is Family.DEAD else jobs[0].created_at
