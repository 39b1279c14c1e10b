"""The example's range job: in memory, in this process, and with real workers that are killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from examples.geonames import loading
from examples.geonames.models import City
from examples.geonames.range_jobs import BackfillCells, cell_of
from jobs.testing import run_due_jobs
from ranges import IntRange, Leaf, LeafContext, LeafRange, RangeJob
from ranges.states import RunStatus
from tests.processes.harness import power_cut
from tests.processes.running import CHECKOUT, Tables, eventually, run, runworker

type Place = tuple[float, float]

COUNT = "SELECT count(*) FROM geonames_city WHERE cell <> ''"


def places() -> dict[int, Place]:
    """The cities of the package by id."""
    return {row[0]: (row[3], row[4]) for row in loading.rows()}


class CellsInMemory(RangeJob):
    """The same work without a database: which ids exist, and which are done, is known here."""

    over = IntRange(0, 2**24)
    leaf = Leaf(max_size=20_000)
    concurrency = 4

    def __init__(self) -> None:
        self.places = PLACES
        self.undone = [id for id in sorted(PLACES) if id not in DONE]

    def should_process(self, lo: int, hi: int, node: Any) -> bool:
        """Whether any city of the block is undone."""
        at = bisect_left(self.undone, lo)
        return at < len(self.undone) and self.undone[at] < hi

    def process(self, leaf: LeafRange, context: LeafContext) -> None:
        first, last = bisect_left(self.undone, leaf.lo), bisect_left(self.undone, leaf.hi)
        for id in self.undone[first:last]:
            CELLS[id] = [*CELLS.get(id, []), cell_of(*self.places[id])]


PLACES: dict[int, Place] = {}
DONE: set[int] = set()
CELLS: dict[int, list[str]] = {}


def test_the_cells_of_all_cities_are_found_in_memory_without_touching_what_is_done() -> None:
    PLACES.update(places())
    # A third is done: every third stretch of a hundred thousand ids.
    DONE.update(id for id in PLACES if id // 100_000 % 3 == 0)
    assert 0.2 < len(DONE) / len(PLACES) < 0.45

    found = CellsInMemory.run_in_memory()

    assert found.status is RunStatus.COMPLETED
    assert found.processed + found.skipped == found.total == 2**24
    assert found.skipped > 2**22
    right = {id: [cell_of(*place)] for id, place in PLACES.items() if id not in DONE}
    assert right == CELLS


@pytest.mark.django_db
def test_only_cities_without_a_cell_are_worked_on() -> None:
    names = loading.COLUMNS.split(", ")
    City.objects.bulk_create(City(**dict(zip(names, row, strict=True))) for row in loading.rows(60))
    City.objects.filter(country="CN").update(cell="kept")
    undone = City.objects.filter(cell="").count()

    made = BackfillCells.start()
    run_due_jobs(retries=True)

    made.refresh_from_db()
    assert made.status == RunStatus.COMPLETED
    assert made.assert_complete().rows_ok == undone
    for city in City.objects.all():
        right = "kept" if city.country == "CN" else cell_of(city.latitude, city.longitude)
        assert city.cell == right


def manage(url: str, *arguments: str) -> str:
    with run(["manage.py", *arguments], url) as command:
        assert command.ended(120) == 0
    command.follower.join(10)
    return "".join(command.other_output)


def in_json(url: str, *arguments: str) -> Any:
    """What a command prints on its standard output."""
    done = subprocess.run(
        [sys.executable, "manage.py", "rangejob", *arguments, "--json"],
        cwd=CHECKOUT,
        env={**os.environ, "DATABASE_URL": url, "REDIS_URL": "redis://127.0.0.1:1/0"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


@contextmanager
def nothing_written(url: str) -> Iterator[None]:
    """Whoever writes a cell waits in the midst of it: the run cannot end meanwhile."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SELECT pg_advisory_lock(1)")
        yield


def test_every_city_gets_its_cell_once_though_workers_are_killed_and_the_run_is_paused(
    project_database: str,
) -> None:
    url, tables = project_database, Tables(project_database)
    manage(url, "load_cities", "--limit", "15000")
    tables.rows("UPDATE geonames_city SET cell = 'done' WHERE country < 'FR'")
    tables.rows("CREATE TABLE touched (id bigint)")
    tables.rows(
        "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM pg_advisory_xact_lock_shared(1);"
        " INSERT INTO touched VALUES (NEW.id); RETURN NEW; END $$"
    )
    tables.rows(
        "CREATE TRIGGER note BEFORE UPDATE OF cell ON geonames_city"
        " FOR EACH ROW EXECUTE FUNCTION note()"
    )
    tables.rows("VACUUM ANALYZE geonames_city")
    done_before = tables.one(COUNT)
    options = ("--max-range-size=50", "--concurrency=4", "--param=seconds=0.12")

    id = in_json(url, "start", "geonames.BackfillCells", *options)["id"]
    with runworker(url, "--processes", "2", "--concurrency", "4") as worker:
        eventually(lambda: tables.one(COUNT) > done_before + 1_000, "some cells")
        with nothing_written(url):
            power_cut(worker)
    at_the_cut = tables.one(COUNT)
    assert at_the_cut < 15_000

    with runworker(url, "--processes", "2", "--concurrency", "4") as worker:
        eventually(lambda: tables.one(COUNT) > at_the_cut + 1_000, "others took over", 60)
        with nothing_written(url):
            assert in_json(url, "pause", id, "--reason=lunch")["status"] == "paused"
        working = "SELECT count(*) FROM ranges_rangenode WHERE state = 'running'"
        eventually(lambda: tables.one(working) == 0, "no leaf is at work")
        at_rest = tables.one(COUNT)
        assert in_json(url, "verify", id)["findings"] == []
        assert tables.one(COUNT) == at_rest < 15_000

        assert in_json(url, "resume", id)["status"] == "running"
        status = "SELECT status FROM ranges_rangerun"
        eventually(lambda: tables.one(status) == "completed", lambda: tables.one(status), 120)
        assert worker.stop() == 0

    found = in_json(url, "verify", id)
    assert (found["ok"], found["findings"], found["rows_ok"]) == (True, [], 15_000 - done_before)
    assert tables.one("SELECT count(*) FROM touched") == 15_000 - done_before
    assert tables.one("SELECT count(DISTINCT id) FROM touched") == 15_000 - done_before
    for country, latitude, longitude, cell in tables.rows(
        "SELECT country, latitude, longitude, cell FROM geonames_city"
    ):
        assert cell == ("done" if country < "FR" else cell_of(latitude, longitude))
