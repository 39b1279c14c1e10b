"""Jobs to look at: a varied, repeatable set, put together from every app's `seeds.py`.

An app's `seeds.py` has a function `kinds() -> Sequence[Kind]`. Each kind makes one job, or a few that
depend on each other. All kinds appear once, then at random by weight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from importlib import import_module
from random import Random
from typing import Any

from django.apps import apps
from django.db import connections, transaction
from django.utils.module_loading import module_has_submodule

from jobs import conf
from jobs.enqueueing import enqueue, enqueue_jobs
from jobs.errors import CoppiceError
from jobs.specs import JobSpec
from jobs.states import OnParentFailure


@dataclass(frozen=True, kw_only=True)
class Seed:
    """One job to make, and how it ends if all goes as it should."""

    type: str
    payload: dict[str, Any]
    shows: str
    """What there is to see about it."""
    expected: str = "completed"
    """The status in the end: 'pending' where it waits for longer than anybody watches."""
    key: str | None = None
    depends_on: tuple[str, ...] = ()
    priority: int = 2
    due_in: timedelta = timedelta()
    max_attempts: int | None = None
    on_parent_failure: str = OnParentFailure.WAIT
    recur_interval: str | None = None
    cron: str | None = None
    time_zone: str | None = None

    @property
    def recurs(self) -> bool:
        return self.recur_interval is not None or self.cron is not None


@dataclass(frozen=True, kw_only=True)
class Kind:
    make: Callable[[Random], Sequence[Seed]]
    weight: int = 1
    size: int = 1
    """How many seeds it makes at a time."""
    once: bool = False


class NothingToSeed(CoppiceError):
    """No installed app has jobs to offer."""


def plan(count: int, random_seed: int) -> list[Seed]:
    """`count` seeds, the same ones for the same number and data."""
    kinds = _all_kinds()
    random = Random(random_seed)
    made: list[Seed] = []
    for number, kind in enumerate(_choose(kinds, count, random)):
        made.extend(_apart(seed, number) for seed in kind.make(random))
    return made


def plant(seeds: Sequence[Seed]) -> list[str]:
    """Enqueue them in one transaction and return their ids, in that order."""
    alias = conf.get().database
    with transaction.atomic(using=alias):
        with connections[alias].cursor() as cursor:
            cursor.execute("SELECT now()")
            (now,) = cursor.fetchone()
        ids = iter(enqueue_jobs(_spec(seed, now) for seed in seeds if not seed.recurs))
        return [_recurring(seed) if seed.recurs else next(ids) for seed in seeds]


def _all_kinds() -> list[Kind]:
    kinds: list[Kind] = []
    for app in apps.get_app_configs():
        if app.module is not None and module_has_submodule(app.module, "seeds"):
            kinds.extend(import_module(f"{app.name}.seeds").kinds())
    if not any(kind.size == 1 and not kind.once for kind in kinds):
        raise NothingToSeed(
            "no installed app offers jobs: the example app has no cities, and e-mail is not "
            "offered where it would really be sent"
        )
    return kinds


def _choose(kinds: list[Kind], count: int, random: Random) -> Iterator[Kind]:
    left = count
    for kind in kinds:
        if kind.size <= left:
            left -= kind.size
            yield kind
    again = [kind for kind in kinds if not kind.once]
    while left > 0:
        fitting = [kind for kind in again if kind.size <= left]
        [kind] = random.choices(fitting, [kind.weight for kind in fitting])
        left -= kind.size
        yield kind


def _apart(seed: Seed, number: int) -> Seed:
    """Keys are unique within what one kind made at a time; make them unique among all."""
    return replace(
        seed,
        key=None if seed.key is None else f"{number}:{seed.key}",
        depends_on=tuple(f"{number}:{key}" for key in seed.depends_on),
    )


def _spec(seed: Seed, now: datetime) -> JobSpec:
    return JobSpec(
        type=seed.type,
        payload=seed.payload,
        key=seed.key,
        depends_on=seed.depends_on,
        priority=seed.priority,
        scheduled_at=now + seed.due_in,
        metadata=_metadata(seed),
        max_attempts=seed.max_attempts,
        on_parent_failure=seed.on_parent_failure,
    )


def _recurring(seed: Seed) -> str:
    job = enqueue(
        seed.type,
        seed.payload,
        priority=seed.priority,
        recur_interval=seed.recur_interval,
        cron=seed.cron,
        time_zone=seed.time_zone,
        metadata=_metadata(seed),
        max_attempts=seed.max_attempts,
    )
    return str(job.id)


def _metadata(seed: Seed) -> dict[str, str]:
    return {"shows": seed.shows, "expected": seed.expected}
