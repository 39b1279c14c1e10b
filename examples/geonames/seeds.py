"""What this application adds to `seed_jobs`, once its cities are loaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from random import Random

from django.db.models import Count

from examples.geonames.locating import NOON
from examples.geonames.models import City
from jobs.seeding import Kind, Seed

AT = NOON.isoformat()
NO_CITY = 1
"""No city has this key."""
NO_NAME = "Nowhere on this map"


def kinds() -> Sequence[Kind]:
    cities = list(City.objects.order_by("id").values_list("id", flat=True))
    if not cities:
        return ()
    names = list(City.objects.order_by("-population", "id").values_list("name", flat=True)[:500])
    small = list(
        City.objects.values("country")
        .annotate(cities=Count("id"))
        .filter(cities__lte=100)
        .order_by("country")
        .values_list("country", flat=True)
    )
    made = [
        Kind(make=_one_city(cities), weight=8),
        Kind(make=_some_cities(cities), weight=4),
        Kind(make=_find(names), weight=4),
        Kind(make=_find_in_vain, weight=2),
        Kind(make=_no_such_city),
        Kind(make=_after_a_failure(cities), size=4),
        Kind(make=_hourly, once=True),
        Kind(make=_nightly, once=True),
    ]
    if small:
        made.append(Kind(make=_summary(small), size=2, weight=2))
    return made


def _one_city(cities: list[int]) -> Callable[[Random], list[Seed]]:
    def make(random: Random) -> list[Seed]:
        return [
            Seed(
                type="geonames.locate_city",
                payload={"city": random.choice(cities), "at": AT},
                shows="a write that is one transaction with the job's end",
                priority=random.randint(1, 3),
                due_in=timedelta(minutes=-random.choice((0, 0, 0, 12, 45))),
            )
        ]

    return make


def _some_cities(cities: list[int]) -> Callable[[Random], list[Seed]]:
    def make(random: Random) -> list[Seed]:
        batch = sorted(random.sample(cities, min(len(cities), random.randrange(20, 200))))
        return [
            Seed(
                type="geonames.locate_cities",
                payload={"cities": batch, "at": AT},
                shows="a batch that is written as a whole",
                due_in=timedelta(seconds=random.choice((0, 0, 5, 10))),
            )
        ]

    return make


def _find(names: list[str]) -> Callable[[Random], list[Seed]]:
    def make(random: Random) -> list[Seed]:
        return [
            Seed(
                type="geonames.find_city",
                payload={"name": random.choice(names)},
                shows="a result",
                priority=random.randint(1, 3),
            )
        ]

    return make


def _find_in_vain(random: Random) -> list[Seed]:
    attempts = random.randint(1, 3)
    return [
        Seed(
            type="geonames.find_city",
            payload={"name": NO_NAME},
            shows=f"fails {attempts} times, then is a dead letter",
            expected="failed",
            max_attempts=attempts,
        )
    ]


def _no_such_city(random: Random) -> list[Seed]:
    return [
        Seed(
            type="geonames.locate_city",
            payload={"city": NO_CITY, "at": AT},
            shows="discarded by its handler: a dead letter at once",
            expected="failed",
            priority=random.randint(1, 3),
        )
    ]


def _after_a_failure(cities: list[int]) -> Callable[[Random], list[Seed]]:
    def make(random: Random) -> list[Seed]:
        def dependent(policy: str, expected: str, shows: str) -> Seed:
            return Seed(
                type="geonames.locate_city",
                payload={"city": random.choice(cities), "at": AT},
                shows=shows,
                expected=expected,
                depends_on=("parent",),
                on_parent_failure=policy,
            )

        return [
            Seed(
                type="geonames.find_city",
                payload={"name": NO_NAME},
                shows="fails, and others depend on it",
                expected="failed",
                key="parent",
                max_attempts=2,
            ),
            dependent("wait", "pending", "blocked until somebody retries its parent"),
            dependent("cancel", "cancelled", "cancelled with its parent's failure"),
            dependent("run", "completed", "runs after its parent's failure"),
        ]

    return make


def _summary(countries: list[str]) -> Callable[[Random], list[Seed]]:
    def make(random: Random) -> list[Seed]:
        return [
            Seed(
                type="geonames.summarise_country",
                payload={"country": random.choice(countries), "at": AT},
                shows="makes children and waits for them without holding a worker",
                key="summary",
            ),
            Seed(
                type="geonames.nightly_report",
                payload={},
                shows="waits for a summary",
                depends_on=("summary",),
                priority=3,
            ),
        ]

    return make


def _hourly(random: Random) -> list[Seed]:
    return [
        Seed(
            type="geonames.nightly_report",
            payload={},
            shows="the first of a series, one every hour",
            recur_interval="every_1_hour",
            priority=random.randint(2, 3),
        )
    ]


def _nightly(random: Random) -> list[Seed]:
    return [
        Seed(
            type="geonames.nightly_report",
            payload={},
            shows="each night in a time zone with clock changes",
            expected="pending",
            cron=f"{random.randrange(60)} 4 * * *",
            time_zone="Europe/Berlin",
        )
    ]
