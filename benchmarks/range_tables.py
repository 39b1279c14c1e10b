"""Ranges over tables: beside a loop written by hand, and with part of the rows done already."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
from django.db.models import Q

from benchmarks.figures import Figure, Goal
from benchmarks.project.models import Row
from benchmarks.project.range_jobs import Mark
from benchmarks.range_runs import run_on_workers
from benchmarks.stage import Database, Scale, Stage
from ranges import Leaf
from ranges.positions import Position
from ranges.querying import QuerySource
from ranges.sizing import LeafSizer
from ranges.sources import Found
from ranges.walking import Walker

TABLE = """
CREATE TABLE benchmark_row (
    id bigint PRIMARY KEY, a boolean NOT NULL, b boolean NOT NULL, c boolean NOT NULL,
    d boolean NOT NULL
) WITH (fillfactor = 50)
"""
# Two fifths are done: a: one prefix; b: in equal runs; c: anywhere; d: all.
FILL = """
INSERT INTO benchmark_row
SELECT n, n <= %(done)s, mod(n, %(period)s) < %(period)s * 2 / 5,
    (hashint8(n) & 1023) < 410, true
FROM generate_series(1, %(rows)s::bigint) n
"""
SPARSE = """
INSERT INTO benchmark_row
SELECT CASE WHEN n <= %(dense)s THEN n ELSE %(dense)s + (n - %(dense)s) * %(gap)s END,
    false, false, false, false
FROM generate_series(1, %(rows)s::bigint) n
"""
LAST_KEY = 2 * 10**15
RUNS = 2_000
MARKS = {"one prefix": "a", "2,000 runs": "b", "anywhere": "c", "all": "d"}


@dataclass(frozen=True, kw_only=True)
class Size:
    rows: int
    leaf: int
    marked: int
    """Rows of the loop written by hand."""
    marked_leaf: int
    skewed: int


SIZES = {
    Scale.FULL: Size(
        rows=50_000_000, leaf=10_000, marked=3_000_000, marked_leaf=10_000, skewed=5_000_000
    ),
    Scale.QUICK: Size(
        rows=2_000_000, leaf=1_000, marked=300_000, marked_leaf=5_000, skewed=500_000
    ),
    Scale.SMOKE: Size(rows=20_000, leaf=100, marked=2_000, marked_leaf=500, skewed=2_000),
}


def measure(stage: Stage) -> list[Figure]:
    size = SIZES[stage.scale]
    return [*_by_hand(stage, size), *_done_before(stage, size), *_skewed(stage, size)]


def _by_hand(stage: Stage, size: Size) -> list[Figure]:
    loop, ours = [], []
    for _ in range(stage.repeat):
        with stage.database() as database:
            _fill_undone(database, size.marked)
            loop.append(size.marked / _loop(database, size))
        with stage.database() as database:
            _fill_undone(database, size.marked)
            found = run_on_workers(database, Mark, lanes=1, leaf=Leaf(max_size=size.marked_leaf))
            assert found.rows == size.marked
            ours.append(size.marked / found.active_seconds)
    return [
        Figure(name="UPDATE in a loop by hand", unit="rows/s", samples=loop),
        Figure(name="the same as a range job, 1 lane", unit="rows/s", samples=ours,
               beside="UPDATE in a loop by hand", goal=Goal(at_least=0.98, of_ratio=True)),
    ]  # fmt: skip


def _fill_undone(database: Database, rows: int) -> None:
    database.rows(TABLE)
    database.connection.execute(
        "INSERT INTO benchmark_row SELECT n, false, false, false, false"
        " FROM generate_series(1, %s::bigint) n",
        (rows,),
    )
    _index(database, "a")
    database.tidy()


def _loop(database: Database, size: Size) -> float:
    with psycopg.connect(database.url, autocommit=True) as connection:
        started = time.perf_counter()
        for lo in range(1, size.marked + 1, size.marked_leaf):
            connection.execute(
                "UPDATE benchmark_row SET a = true WHERE id >= %s AND id < %s AND NOT a",
                (lo, lo + size.marked_leaf),
            )
        return time.perf_counter() - started


def _done_before(stage: Stage, size: Size) -> Iterator[Figure]:
    """The walk alone, without work: leaves, questions, and seconds for all of them."""
    with stage.database() as database:
        database.rows(TABLE)
        facts = {
            "rows": size.rows,
            "done": size.rows * 2 // 5,
            "period": max(5, size.rows // RUNS),
        }
        database.connection.execute(FILL, facts)
        for mark in MARKS.values():
            _index(database, mark)
        database.tidy()
        stage.say(f"{size.rows:,} rows are there")
        for words, mark in MARKS.items():
            walked = [_walk(Q(**{mark: False}), size.leaf) for _ in range(stage.repeat)]
            least = max(1, -(-database.one(f"SELECT count(*) FROM benchmark_row WHERE NOT {mark}")
                             // size.leaf))  # fmt: skip
            yield from _walk_figures(f"done: {words}", walked, least)


def _skewed(stage: Stage, size: Size) -> Iterator[Figure]:
    """Nine tenths of the ids are dense, the others lie far apart."""
    with stage.database() as database:
        database.rows(TABLE)
        dense = size.skewed * 9 // 10
        gap = LAST_KEY // (size.skewed - dense)
        database.connection.execute(SPARSE, {"rows": size.skewed, "dense": dense, "gap": gap})
        _index(database, "a")
        database.tidy()
        walked = [_walk(Q(a=False), size.leaf) for _ in range(stage.repeat)]
        yield from _walk_figures("skewed ids", walked, -(-size.skewed // size.leaf))


@dataclass(frozen=True, kw_only=True)
class _Walked:
    leaves: int
    questions: int
    seconds: float


class _Counting(QuerySource):
    questions = 0

    def next_leaf(
        self, cur: Position, hi: Position, size: int, *, blind: bool = False
    ) -> Found | None:
        self.questions += 1
        return super().next_leaf(cur, hi, size, blind=blind)


def _walk(todo: Q, leaf: int) -> _Walked:
    source = _Counting(Row.objects.all(), todo=todo)
    walker = Walker(source, LeafSizer(Leaf(max_size=leaf)))
    started = time.perf_counter()
    limits = source.limits()
    assert limits is not None
    at: Any
    at, end = limits
    leaves = 0
    while at != end:
        step = walker.next(at, end)
        leaves += step.lo is not None
        at = step.hi
    return _Walked(leaves=leaves, questions=source.questions, seconds=time.perf_counter() - started)


def _walk_figures(words: str, walked: list[_Walked], least: int) -> Iterator[Figure]:
    floor = f"{words}: least leaves"
    yield Figure(name=floor, unit="leaves", samples=[least])
    yield Figure(
        name=f"{words}: questions",
        unit="questions",
        samples=[each.questions for each in walked],
        beside=floor,
        # One question ends the walk.
        goal=Goal(at_most=max(1.04, 1 + 2 / least), of_ratio=True),
    )
    yield Figure(name=f"{words}: leaves", unit="leaves", samples=[each.leaves for each in walked],
                 beside=floor)  # fmt: skip
    yield Figure(name=f"{words}: walk", unit="s", samples=[each.seconds for each in walked])


def _index(database: Database, mark: str) -> None:
    database.rows(f"CREATE INDEX ON benchmark_row (id) WHERE NOT {mark}")
