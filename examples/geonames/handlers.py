"""The jobs of this application: locate cities, add up countries, report."""

from __future__ import annotations

from datetime import datetime
from itertools import batched
from typing import Any

from django.db import connection
from django.db.models import Count, Max, Min, Sum
from rest_framework import serializers

from examples.geonames.geohash import shared_prefix
from examples.geonames.locating import Location, locate
from examples.geonames.models import City, CountrySummary
from jobs import Context, Discard, WaitFor, child, handler

BATCH = 500
MOST_CITIES = 2_000

# One statement for a batch, its rows locked in key order: batches that share cities cannot
# deadlock.
WRITE_LOCATIONS = """
WITH locked AS MATERIALIZED (
    SELECT id FROM geonames_city WHERE id = ANY(%(ids)s) ORDER BY id FOR NO KEY UPDATE
)
UPDATE geonames_city c SET utc_offset_minutes = l.minutes, geohash = l.geohash
FROM unnest(%(ids)s::bigint[], %(minutes)s::smallint[], %(geohashes)s::text[])
    AS l (id, minutes, geohash), locked
WHERE c.id = l.id AND locked.id = l.id
"""


class CityPayload(serializers.Serializer[Any]):
    city = serializers.IntegerField(min_value=1)
    at = serializers.DateTimeField()


class CitiesPayload(serializers.Serializer[Any]):
    cities = serializers.ListField(
        child=serializers.IntegerField(min_value=1), min_length=1, max_length=MOST_CITIES
    )
    at = serializers.DateTimeField()


class CountryPayload(serializers.Serializer[Any]):
    country = serializers.RegexField(r"^[A-Z]{2}\Z")
    at = serializers.DateTimeField()


class NamePayload(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=200)


@handler("geonames.locate_city", payload=CityPayload, atomic=True)
def locate_city(payload: dict[str, Any]) -> dict[str, Any]:
    """Find the geohash of a city and its offset from UTC at a moment."""
    if not locate_all([payload["city"]], payload["at"]):
        raise Discard(f"there is no city {payload['city']}")
    return dict(City.objects.values("utc_offset_minutes", "geohash").get(id=payload["city"]))


@handler("geonames.locate_cities", payload=CitiesPayload, atomic=True, timeout=60)
def locate_cities(payload: dict[str, Any], context: Context) -> dict[str, int]:
    """The same for a batch. All of it is written together with the job's end, or nothing."""
    ids = payload["cities"]
    located = locate_all(ids, payload["at"])
    if located < len(set(ids)):
        context.log.warning("some cities do not exist", missing=len(set(ids)) - located)
    return {"located": located}


@handler("geonames.summarise_country", payload=CountryPayload, atomic=True, timeout=60)
def summarise_country(payload: dict[str, Any], context: Context) -> Any:
    """Have all cities of a country located in batches, wait for these, and add the country up."""
    code, at = payload["country"], payload["at"].isoformat()
    ids = City.objects.filter(country=code).order_by("id").values_list("id", flat=True)
    if not ids:
        raise Discard(f"there is no city in {code}")
    if not context.children:
        return WaitFor(
            [
                child("geonames.locate_cities", {"cities": batch, "at": at}, key=f"from {batch[0]}")
                for batch in batched(ids, BATCH)
            ]
        )
    unlocated = [each for each in context.children if each.status != "completed"]
    if unlocated:
        raise Discard(f"{len(unlocated)} of {len(context.children)} batches were not located")
    return add_up(code)


@handler("geonames.find_city", payload=NamePayload)
def find_city(payload: dict[str, Any]) -> dict[str, Any]:
    """The largest city of a name. Fails where there is none, as it may be loaded later."""
    city = City.objects.filter(name=payload["name"]).order_by("-population", "id").first()
    if city is None:
        raise City.DoesNotExist("there is no city of that name")
    return {"city": city.id, "country": city.country, "population": city.population}


@handler("geonames.nightly_report", priority=3)
def nightly_report() -> dict[str, Any]:
    """How much of the world is located."""
    return {
        "cities": City.objects.count(),
        "unlocated": City.objects.filter(geohash="").count(),
        "countries": CountrySummary.objects.count(),
        "population": CountrySummary.objects.aggregate(sum=Sum("population"))["sum"] or 0,
    }


def locate_all(ids: list[int], at: datetime) -> int:
    """Locate those of the cities that exist, and return how many these are."""
    found: dict[int, Location] = {
        id: locate(latitude, longitude, time_zone, at)
        for id, latitude, longitude, time_zone in City.objects.filter(id__in=ids).values_list(
            "id", "latitude", "longitude", "time_zone"
        )
    }
    with connection.cursor() as cursor:
        cursor.execute(
            WRITE_LOCATIONS,
            {
                "ids": list(found),
                "minutes": [location.utc_offset_minutes for location in found.values()],
                "geohashes": [location.geohash for location in found.values()],
            },
        )
    return len(found)


def add_up(code: str) -> dict[str, Any]:
    """Write the summary of a country whose cities are located, and return it."""
    summary = City.objects.filter(country=code).aggregate(
        cities=Count("id"),
        population=Sum("population"),
        lowest_offset_minutes=Min("utc_offset_minutes"),
        highest_offset_minutes=Max("utc_offset_minutes"),
        first=Min("geohash"),
        last=Max("geohash"),
    )
    summary["geohash_prefix"] = shared_prefix(summary.pop("first"), summary.pop("last"))
    CountrySummary.objects.update_or_create(code=code, defaults=summary)
    return summary
