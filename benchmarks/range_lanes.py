"""Lanes on leaves that sleep or do nothing, in memory and on PostgreSQL."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import records
from benchmarks.figures import Figure, Goal
from benchmarks.project.range_jobs import HotSpot, Nothing, Sleep, cost
from benchmarks.range_runs import leaf_seconds, new_notes, run_on_workers
from benchmarks.stage import Database, Scale, Stage
from ranges import Leaf

LEAF_SECONDS = (0.01, 0.05, 0.2)
LANES = (1, 10, 20)
HOT_LANES = (8, 16)


@dataclass(frozen=True, kw_only=True)
class Size:
    lane_seconds: float
    """How long each lane sleeps, of leaves that sleep."""
    leaf_seconds: tuple[float, ...]
    lanes: tuple[int, ...]
    in_memory: int
    """Leaves without work."""
    persisted: int
    hot_seconds: float
    """What a run with a hot spot takes at least."""
    hot_lanes: tuple[int, ...]


SIZES = {
    Scale.FULL: Size(
        lane_seconds=10.0, leaf_seconds=LEAF_SECONDS, lanes=LANES, in_memory=300_000,
        persisted=40_000, hot_seconds=20.0, hot_lanes=HOT_LANES,
    ),
    Scale.QUICK: Size(
        lane_seconds=2.0, leaf_seconds=LEAF_SECONDS, lanes=LANES, in_memory=50_000,
        persisted=3_000, hot_seconds=5.0, hot_lanes=HOT_LANES,
    ),
    Scale.SMOKE: Size(
        lane_seconds=0.02, leaf_seconds=(0.01,), lanes=(1, 4), in_memory=500,
        persisted=50, hot_seconds=0.2, hot_lanes=(4,),
    ),
}  # fmt: skip
KEYS = 1_000_000
"""Of a range with a hot spot."""


def measure(stage: Stage) -> list[Figure]:
    size = SIZES[stage.scale]
    return [*_sleeping(stage, size), *_idle(stage, size), *_hot(stage, size)]


def _sleeping(stage: Stage, size: Size) -> Iterator[Figure]:
    """Leaves a second from the first start to the last end, beside a loop that sleeps as often."""
    for seconds in size.leaf_seconds:
        each = max(2, round(size.lane_seconds / seconds))
        words = f"leaves of {seconds * 1000:.0f} ms"
        loop = f"{words}, plain loop"
        share = 0.97 if seconds >= 0.05 else 0.9
        yield Figure(
            name=loop,
            unit="leaves/s",
            samples=[_loop(each, seconds) for _ in range(stage.repeat)],
        )
        for lanes in size.lanes:
            for place in ("in memory", "persisted"):
                yield Figure(
                    name=f"{words}, {lanes} lane{'s' * (lanes > 1)}, {place}",
                    unit="leaves/s",
                    samples=[
                        each * lanes / _seconds(stage, place, each * lanes, lanes, seconds)
                        for _ in range(stage.repeat)
                    ],
                    beside=loop,
                    goal=Goal(at_least=share * lanes, of_ratio=True),
                )


def _loop(count: int, seconds: float) -> float:
    started = time.perf_counter()
    for _ in range(count):
        time.sleep(seconds)
    return count / (time.perf_counter() - started)


def _seconds(stage: Stage, place: str, count: int, lanes: int, seconds: float) -> float:
    params, notes = {"seconds": seconds}, new_notes(stage)
    if place == "in memory":
        _in_memory(Sleep, count, lanes=lanes, params=params, notes=notes)
    else:
        with stage.database() as database:
            run_on_workers(database, Sleep, 0, count, lanes=lanes, params=params, notes=notes)
    return leaf_seconds(notes, count)


def _in_memory(job: Any, keys: int, *, lanes: int, notes: Path | None, **options: Any) -> float:
    os.environ[records.PATH_VARIABLE] = str(notes or "")
    started = time.perf_counter()
    found = job.run_in_memory(0, keys, concurrency=lanes, **options)
    seconds = time.perf_counter() - started
    assert found.processed == keys
    return seconds


def _idle(stage: Stage, size: Size) -> list[Figure]:
    """Leaves without work: how many a second the engine goes through."""
    memory: list[float] = []
    persisted: list[float] = []
    several: list[float] = []
    commits: list[float] = []
    for _ in range(stage.repeat):
        memory.append(size.in_memory / _in_memory(
            Nothing, size.in_memory, lanes=1, leaf=Leaf(max_size=1), notes=None
        ))  # fmt: skip
        with stage.database() as database:
            commits.append(_commits(database, size.persisted))
        for lanes, samples in ((1, persisted), (8, several)):
            with stage.database() as database:
                found = run_on_workers(
                    database, Nothing, 0, size.persisted, lanes=lanes,
                    processes=min(lanes, stage.processes), leaf=Leaf(max_size=1),
                )  # fmt: skip
                samples.append(found.leaves / found.active_seconds)
    bare = "a bare connection's commits of one UPDATE"
    return [
        Figure(name="no work, in memory, 1 lane", unit="leaves/s", samples=memory,
               goal=Goal(at_least=100_000)),
        Figure(name=bare, unit="commits/s", samples=commits),
        Figure(name="no work, persisted, 1 lane", unit="leaves/s", samples=persisted, beside=bare),
        Figure(name="no work, persisted, 8 lanes", unit="leaves/s", samples=several, beside=bare,
               goal=Goal(at_least=2_000)),
    ]  # fmt: skip


def _commits(database: Database, count: int) -> float:
    database.rows("CREATE TABLE cursors (id integer PRIMARY KEY, at bigint) WITH (fillfactor = 50)")
    database.rows("INSERT INTO cursors VALUES (1, 0)")
    started = time.perf_counter()
    for at in range(count):
        database.connection.execute("UPDATE cursors SET at = %s WHERE id = 1", (at,))
    return count / (time.perf_counter() - started)


def _hot(stage: Stage, size: Size) -> Iterator[Figure]:
    """5 % of the keys cost twenty times as much: how near lanes come to sharing it equally."""
    whole = cost(0, KEYS, KEYS)
    for lanes in size.hot_lanes:
        pace = size.hot_seconds * lanes / whole
        ideal, pieces = f"hot spot, {lanes} lanes, ideal", KEYS // lanes
        worst = max(cost(n * pieces, (n + 1) * pieces, KEYS) for n in range(lanes))
        yield Figure(name=ideal, unit="s", samples=[size.hot_seconds])
        yield Figure(
            name=f"hot spot, {lanes} lanes, cut once into {lanes} pieces (computed)",
            unit="s",
            samples=[worst * pace],
            beside=ideal,
        )
        params = {"seconds": pace, "keys": KEYS}
        goal = Goal(at_most=1.1, of_ratio=True)
        for place in ("in memory", "persisted"):
            yield Figure(
                name=f"hot spot, {lanes} lanes, {place}",
                unit="s",
                samples=[_hot_seconds(stage, place, lanes, params) for _ in range(stage.repeat)],
                beside=ideal,
                goal=goal,
            )


def _hot_seconds(stage: Stage, place: str, lanes: int, params: dict[str, Any]) -> float:
    """From the first start to the last end."""
    notes = new_notes(stage)
    if place == "in memory":
        _in_memory(HotSpot, KEYS, lanes=lanes, params=params, notes=notes)
    else:
        with stage.database() as database:
            run_on_workers(database, HotSpot, 0, KEYS, lanes=lanes, params=params, notes=notes)
    return leaf_seconds(notes)
