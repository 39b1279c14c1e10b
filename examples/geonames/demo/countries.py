"""The large workload: locate every city, country by country, and add the countries up."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from django.db import connection

from examples.geonames.demo.workload import Progress
from examples.geonames.geohash import shared_prefix
from examples.geonames.locating import NOON, Location, locate
from examples.geonames.models import City, CountrySummary
from jobs import enqueue_many
from jobs.models import Job
from jobs.states import LIVE

SUMMARISE, LOCATE = "geonames.summarise_country", "geonames.locate_cities"
LATER = 3
"""The priority: what is seeded beside it goes first."""
MOST_FINDINGS = 5


class Countries:
    title = "Cities located, by country"

    def __init__(self) -> None:
        self.cities = City.objects.count()

    def start(self) -> None:
        if not Job.objects.filter(type__in=[SUMMARISE, LOCATE], status__in=LIVE).exists():
            self._forget_the_last_run()
        codes = list(City.objects.order_by("country").values_list("country", flat=True).distinct())
        enqueue_many(
            SUMMARISE,
            ({"country": code, "at": NOON.isoformat()} for code in codes),
            unique_keys=[f"{SUMMARISE} {code}" for code in codes],
            priority=LATER,
        )

    def progress(self) -> Progress:
        unlocated = City.objects.filter(geohash="").count()
        at_work = Job.objects.filter(
            type=SUMMARISE, status__in=LIVE, unique_key__isnull=False
        ).count()
        # The last countries may still have to be added up when all their cities are located.
        done = self.cities - max(unlocated, 1 if at_work else 0)
        return Progress(done=done, total=self.cities)

    def findings(self) -> list[str]:
        """Compare all that the jobs wrote with a plain computation in this process."""
        found = list(self._wrong())
        if len(found) > MOST_FINDINGS:
            found[MOST_FINDINGS:] = [f"... and {len(found) - MOST_FINDINGS:,} more like these."]
        return found

    def _wrong(self) -> Iterator[str]:
        countries: dict[str, list[tuple[int, Location]]] = defaultdict(list)
        for (
            id,
            country,
            latitude,
            longitude,
            time_zone,
            population,
            minutes,
            geohash,
        ) in City.objects.values_list(
            "id",
            "country",
            "latitude",
            "longitude",
            "time_zone",
            "population",
            "utc_offset_minutes",
            "geohash",
        ).iterator(chunk_size=10_000):
            location = locate(latitude, longitude, time_zone, NOON)
            countries[country].append((population, location))
            if (minutes, geohash) != (location.utc_offset_minutes, location.geohash):
                yield f"City {id} has {minutes}, {geohash!r} and should have {location}."
        summaries = {summary.code: summary for summary in CountrySummary.objects.all()}
        for code in sorted(countries.keys() | summaries.keys()):
            right = _add_up(countries[code]) if code in countries else None
            if (given := _as_written(summaries.get(code))) != right:
                yield f"Country {code} has {given} and should have {right}."

    def _forget_the_last_run(self) -> None:
        CountrySummary.objects.all().delete()
        City.objects.exclude(geohash="").update(geohash="", utc_offset_minutes=None)
        with connection.cursor() as cursor:
            cursor.execute("VACUUM ANALYZE geonames_city")


def _add_up(cities: list[tuple[int, Location]]) -> dict[str, Any]:
    geohashes = [location.geohash for _, location in cities]
    offsets = [location.utc_offset_minutes for _, location in cities]
    return {
        "cities": len(cities),
        "population": sum(population for population, _ in cities),
        "geohash_prefix": shared_prefix(min(geohashes), max(geohashes)),
        "lowest_offset_minutes": min(offsets),
        "highest_offset_minutes": max(offsets),
    }


def _as_written(summary: CountrySummary | None) -> dict[str, Any] | None:
    if summary is None:
        return None
    return {
        "cities": summary.cities,
        "population": summary.population,
        "geohash_prefix": summary.geohash_prefix,
        "lowest_offset_minutes": summary.lowest_offset_minutes,
        "highest_offset_minutes": summary.highest_offset_minutes,
    }
