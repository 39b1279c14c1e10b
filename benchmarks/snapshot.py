"""Claims while somebody holds a snapshot: a long report, a forgotten transaction, pg_dump.

Meanwhile vacuum removes nothing, so what was claimed and completed since stays in the claim index.
Jobs flow all the time. The drain without a snapshot is in the same run, on a fresh table.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import psycopg

from benchmarks.draining import completed, drain, fill, numbered
from benchmarks.figures import Figure, Goal
from benchmarks.looks import first_look_ms
from benchmarks.stage import Database, Scale, Stage, wait_until
from jobs import enqueue_many

BATCH_SECONDS = 0.1


@dataclass(frozen=True, kw_only=True)
class Size:
    held_seconds: float
    flow_per_second: int
    drained: int


SIZES = {
    Scale.FULL: Size(held_seconds=600, flow_per_second=1_000, drained=60_000),
    Scale.QUICK: Size(held_seconds=20, flow_per_second=1_000, drained=20_000),
    Scale.SMOKE: Size(held_seconds=1, flow_per_second=200, drained=300),
}


def measure(stage: Stage) -> list[Figure]:
    size = SIZES[stage.scale]
    rates: dict[str, list[float]] = {"none held": [], "held": []}
    looks: dict[str, list[float]] = {"none held": [], "held": []}
    for _ in range(stage.repeat):
        with stage.database() as database:
            _drain(database, size.drained, rates["none held"], looks["none held"])
    with stage.database() as database, psycopg.connect(database.url) as holder:
        holder.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        holder.execute("SELECT count(*) FROM jobs_job")
        held_at = time.monotonic()
        _flow(database, size)
        for _ in range(stage.repeat):
            _drain(database, size.drained, rates["held"], looks["held"])
        held_seconds = time.monotonic() - held_at
        holder.rollback()
    return [
        Figure(name="snapshot held for", unit="s", samples=[held_seconds]),
        Figure(name="drain, none held", unit="jobs/s", samples=rates["none held"]),
        Figure(
            name="drain, held",
            unit="jobs/s",
            samples=rates["held"],
            beside="drain, none held",
            goal=Goal(at_least=0.8, of_ratio=True),
        ),
        Figure(name="first look of 100, none held", unit="ms", samples=looks["none held"]),
        Figure(
            name="first look of 100, held",
            unit="ms",
            samples=looks["held"],
            beside="first look of 100, none held",
        ),
    ]


def _drain(database: Database, count: int, rates: list[float], looks: list[float]) -> None:
    load = fill(database, "noop", numbered(count))
    database.rows("UPDATE jobs_queue SET paused = false")
    looks.append(first_look_ms(database, "noop"))
    database.rows("UPDATE jobs_queue SET paused = true")
    rates.append(drain(database, load, processes=database.stage.processes).per_second)


def _flow(database: Database, size: Size) -> None:
    """Enqueue jobs steadily while workers complete them."""
    batch = int(size.flow_per_second * BATCH_SECONDS)
    made = 0
    with database.workers(processes=database.stage.processes):
        ends_at = time.monotonic() + size.held_seconds
        while (now := time.monotonic()) < ends_at:
            made += len(enqueue_many("noop", numbered(batch)))
            time.sleep(max(0.0, now + BATCH_SECONDS - time.monotonic()))
        wait_until(lambda: completed(database) == made, "all that flowed is completed", 60)
