"""The example's loading and handlers, on the database."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from examples.geonames import handlers, loading
from examples.geonames.locating import NOON, locate
from examples.geonames.models import City, CountrySummary
from jobs import Discard, WaitFor
from jobs.answers import ChildResult
from jobs.drafts import check_payload
from jobs.errors import InvalidInput
from jobs.registry import get

pytestmark = pytest.mark.django_db


class Context:
    """What summarise_country asks of its context."""

    def __init__(self, children: Sequence[ChildResult] = ()) -> None:
        self.children = children
        self.warnings: list[str] = []
        self.log = self

    def warning(self, message: str, **_: Any) -> None:
        self.warnings.append(message)


def ended(status: str = "completed") -> ChildResult:
    return ChildResult(
        key="from 1",
        job_id="1",
        type="geonames.locate_cities",
        status=status,
        result=None,
        error="",
    )


def expected(city: City) -> tuple[int, str]:
    location = locate(city.latitude, city.longitude, city.time_zone, NOON)
    return location.utc_offset_minutes, location.geohash


@pytest.fixture(scope="module")
def rows() -> list[tuple[Any, ...]]:
    return list(loading.rows(300))


@pytest.fixture
def cities(rows: list[tuple[Any, ...]]) -> list[City]:
    names = loading.COLUMNS.split(", ")
    City.objects.bulk_create(City(**dict(zip(names, row, strict=True))) for row in rows)
    return list(City.objects.order_by("id"))


@pytest.mark.django_db(transaction=True)
def test_loading_takes_the_most_populous_and_a_second_time_changes_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    call_command("load_cities", limit=50)
    assert "50 cities, 50 of them new" in capsys.readouterr().out
    assert City.objects.filter(population__lt=1_000_000).count() == 0
    city = City.objects.order_by("id")[0]
    City.objects.filter(id=city.id).update(geohash="u", population=1)
    call_command("load_cities", limit=50)
    assert "50 cities, 1 of them new or changed" in capsys.readouterr().out
    mended = City.objects.get(id=city.id)
    assert (mended.population, mended.geohash) == (city.population, "u")


def test_all_cities_of_the_package_have_keys_of_their_own_and_lie_on_the_globe() -> None:
    rows = list(loading.rows())
    assert len(rows) == len({row[0] for row in rows}) > 200_000
    for _, name, country, latitude, longitude, _, time_zone in rows[::1_000]:
        assert name
        assert len(country) == 2
        locate(latitude, longitude, time_zone, NOON)


def test_locating_one_city_writes_and_returns_its_location(cities: list[City]) -> None:
    result = handlers.locate_city({"city": cities[0].id, "at": NOON})
    city = City.objects.get(id=cities[0].id)
    assert (city.utc_offset_minutes, city.geohash) == expected(city)
    assert result == {"utc_offset_minutes": city.utc_offset_minutes, "geohash": city.geohash}
    assert City.objects.exclude(geohash="").count() == 1


def test_a_city_that_does_not_exist_is_discarded(cities: list[City]) -> None:
    with pytest.raises(Discard, match="no city 1"):
        handlers.locate_city({"city": 1, "at": NOON})


def test_a_batch_is_located_by_two_statements(cities: list[City]) -> None:
    ids = [city.id for city in cities[:200]]
    context: Any = Context()
    with CaptureQueriesContext(connection) as queries:
        assert handlers.locate_cities({"cities": [*ids, 1], "at": NOON}, context) == {
            "located": 200
        }
    assert len(queries) == 2
    assert context.warnings == ["some cities do not exist"]
    for city in City.objects.filter(id__in=ids):
        assert (city.utc_offset_minutes, city.geohash) == expected(city)


def test_a_country_waits_for_batches_that_cover_its_cities_once(
    cities: list[City], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handlers, "BATCH", 20)
    context: Any = Context()
    answer = handlers.summarise_country({"country": "CN", "at": NOON}, context)
    assert isinstance(answer, WaitFor)
    batches = [each.payload["cities"] for each in answer.jobs]
    assert len({each.key for each in answer.jobs}) == len(batches) > 1
    assert all(before[-1] < after[0] for before, after in pairwise(batches))
    assert [id for batch in batches for id in batch] == [
        city.id for city in cities if city.country == "CN"
    ]
    for each in answer.jobs:
        check_payload(get(each.type), each.payload)


def test_a_country_is_added_up_when_its_batches_are_done(cities: list[City]) -> None:
    ours = [city for city in cities if city.country == "US"]
    handlers.locate_all([city.id for city in ours], NOON)
    context: Any = Context([ended()])
    result = handlers.summarise_country({"country": "US", "at": NOON}, context)
    summary = CountrySummary.objects.get()
    assert (summary.code, summary.cities) == ("US", len(ours)) == ("US", result["cities"])
    assert summary.population == sum(city.population for city in ours)
    assert summary.highest_offset_minutes == max(expected(city)[0] for city in ours)
    assert all(expected(city)[1].startswith(summary.geohash_prefix) for city in ours)


def test_a_country_is_not_added_up_when_a_batch_has_failed(cities: list[City]) -> None:
    context: Any = Context([ended(), ended("failed")])
    with pytest.raises(Discard, match="1 of 2"):
        handlers.summarise_country({"country": "US", "at": NOON}, context)
    assert not CountrySummary.objects.exists()


def test_the_largest_city_of_a_name_is_found_and_a_missing_one_fails(cities: list[City]) -> None:
    largest = max(cities, key=lambda city: city.population)
    assert handlers.find_city({"name": largest.name})["city"] == largest.id
    with pytest.raises(City.DoesNotExist):
        handlers.find_city({"name": "Nowhere on this map"})


def test_the_report_counts_what_is_left(cities: list[City]) -> None:
    handlers.locate_all([cities[0].id], NOON)
    report = handlers.nightly_report()
    assert report == {"cities": 300, "unlocated": 299, "countries": 0, "population": 0}


@pytest.mark.parametrize(
    ("type", "payload"),
    [
        ("geonames.locate_city", {"city": 0, "at": "2026-01-01T00:00:00Z"}),
        ("geonames.locate_city", {"city": 17}),
        ("geonames.locate_cities", {"cities": [], "at": "2026-01-01T00:00:00Z"}),
        ("geonames.locate_cities", {"cities": [1] * 2_001, "at": "2026-01-01T00:00:00Z"}),
        ("geonames.summarise_country", {"country": "usa", "at": "2026-01-01T00:00:00Z"}),
        ("geonames.find_city", {"name": ""}),
    ],
)
def test_senseless_payloads_are_refused_when_the_job_is_made(type: str, payload: Any) -> None:
    with pytest.raises(InvalidInput):
        check_payload(get(type), payload)
