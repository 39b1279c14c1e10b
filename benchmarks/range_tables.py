"""Ranges over tables: beside a loop written by hand, and with part of the rows done already."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.db.models import Q, QuerySet

from benchmarks.figures import Figure, Goal
from benchmarks.project.models import Row
from benchmarks.project.range_jobs import (
    LookAll,
    LookAnywhere,
    LookPrefix,
    LookRuns,
    Mark,
)
from benchmarks.range_runs import (
    LONGEST_SECONDS,
    leaf_seconds,
    new_notes,
    run_on_workers,
    wait_until_ended,
)
from benchmarks.stage import Database, Scale, Stage, wait_until
from ranges import Leaf, RangeJob
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
MARKS: dict[str, tuple[str, type[RangeJob], float]] = {
    "one prefix": ("a", LookPrefix, 4),
    "2,000 runs": ("b", LookRuns, 5),
    "anywhere": ("c", LookAnywhere, 6),
    "all": ("d", LookAll, 0.1),
}
"""Which rows are done: their column, the job over the others, and the seconds it should take."""
LOOKING_LANES = 2


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
    """The same UPDATEs by two loops without an engine: one finds the bounds, one adds to an id."""
    names = {
        "UPDATE in a loop that finds the bounds": (_loop_of_bounds, 1.02),
        "UPDATE in a loop of plain ids": (_loop_of_ids, 1.05),
    }
    seconds: dict[str, list[float]] = {name: [] for name in names}
    ours: list[float] = []
    for _ in range(stage.repeat):
        for name, (loop, _) in names.items():
            with stage.database() as database:
                _fill_undone(database, size.marked)
                seconds[name].append(loop(database, size))
        notes = new_notes(stage)
        with stage.database() as database:
            _fill_undone(database, size.marked)
            leaf = Leaf(max_size=size.marked_leaf)
            found = run_on_workers(database, Mark, lanes=1, leaf=leaf, notes=notes)
            assert found.rows == size.marked
        ours.append(leaf_seconds(notes))
    return [
        figure
        for name, (_, most) in names.items()
        for figure in (
            Figure(name=name, unit="s", samples=seconds[name]),
            Figure(name=f"range job, 1 lane, beside {name.removeprefix('UPDATE in ')}", unit="s",
                   samples=ours, beside=name, goal=Goal(at_most=most, of_ratio=True)),
        )
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


def _loop_of_ids(_: Database, size: Size) -> float:
    started = time.perf_counter()
    for lo in range(1, size.marked + 1, size.marked_leaf):
        _undone(lo, lo + size.marked_leaf).update(a=True)
    return time.perf_counter() - started


def _loop_of_bounds(_: Database, size: Size) -> float:
    """As one writes it who does not trust ids to be dense, nor all of them to need work."""
    started = time.perf_counter()
    lo, last = 1, size.marked + 1
    while lo < last:
        ids = _undone(lo, last).order_by("id").values_list("id", flat=True)
        hi = next(iter(ids[size.marked_leaf : size.marked_leaf + 1]), last)
        _undone(lo, hi).update(a=True)
        lo = hi
    return time.perf_counter() - started


def _undone(lo: int, hi: int) -> QuerySet[Row]:
    """With Django's queries, as `process` of the range job has them."""
    return Row.objects.filter(a=False, id__gte=lo, id__lt=hi)


def _done_before(stage: Stage, size: Size) -> Iterator[Figure]:
    """The walk alone; then whole runs whose `process` does nothing."""
    with stage.database() as database:
        database.rows(TABLE)
        facts = {
            "rows": size.rows,
            "done": size.rows * 2 // 5,
            "period": max(5, size.rows // RUNS),
        }
        database.connection.execute(FILL, facts)
        for mark, _, _ in MARKS.values():
            _index(database, mark)
        database.tidy()
        stage.say(f"{size.rows:,} rows are there")
        for words, (mark, job, most) in MARKS.items():
            left = database.one(f"SELECT count(*) FROM benchmark_row WHERE NOT {mark}")
            least = max(1, -(-left // size.leaf))
            walked = [_walk(Q(**{mark: False}), size.leaf) for _ in range(stage.repeat)]
            yield from _walk_figures(f"done: {words}", walked, least)
            # The goals are for 50 million rows.
            goal = Goal(at_most=most) if stage.scale is Scale.FULL else None
            looked = [_look(stage, database, job, size, left) for _ in range(stage.repeat)]
            yield Figure(name=f"done: {words}: run, {LOOKING_LANES} lanes, nothing done",
                         unit="s", samples=looked, goal=goal)  # fmt: skip


def _look(stage: Stage, database: Database, job: type[RangeJob], size: Size, left: int) -> float:
    """A run that does nothing about what it finds: from the first start to the last end.

    It would sweep three times more, so it is cancelled then. A run that finds nothing ends by
    itself: from before it is started to its end.
    """
    notes, leaf = new_notes(stage), Leaf(max_size=size.leaf)
    slots = LOOKING_LANES + 1
    with database.workers(processes=1, concurrency=slots, records=notes) as worker:
        started = time.time()
        run = job.start(concurrency=LOOKING_LANES, leaf=leaf)
        if not left:
            wait_until_ended(database, run, worker)
            run.refresh_from_db()
            assert run.status == "completed"
            assert run.finished_at is not None
            return run.finished_at.timestamp() - started
        wait_until(
            lambda: database.one("SELECT sweeps > 0 FROM ranges_rangerun WHERE id = %s", run.id),
            "all is looked at",
            LONGEST_SECONDS,
        )
        run.cancel()
    return leaf_seconds(notes)


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

    def next_leaves(self, cur: Position, hi: Position, size: int, count: int) -> list[Found]:
        self.questions += 1
        return super().next_leaves(cur, hi, size, count)


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
