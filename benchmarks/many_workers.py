"""Whether workers get in each other's way: eight of eight slots, beside one of eight.

The jobs sleep, so that cores are not what is measured; the rate is per slot.
"""

from __future__ import annotations

from benchmarks.draining import drain, fill, numbered
from benchmarks.figures import Figure, Goal
from benchmarks.stage import Scale, Stage

PER_SLOT = {Scale.FULL: 1_000, Scale.QUICK: 400, Scale.SMOKE: 10}
WORKERS = {Scale.FULL: 8, Scale.QUICK: 8, Scale.SMOKE: 2}
SLOTS = 8
SECONDS = 0.005


def measure(stage: Stage) -> list[Figure]:
    workers = WORKERS[stage.scale]
    one, many = "one worker", f"{workers} workers"
    rates: dict[str, list[float]] = {one: [], many: []}
    for _ in range(stage.repeat):
        rates[one].append(_per_slot(stage, 1))
        rates[many].append(_per_slot(stage, workers))
    goal = Goal(at_least=0.9, of_ratio=True)
    return [
        Figure(name=one, unit="jobs/s per slot", samples=rates[one]),
        Figure(name=many, unit="jobs/s per slot", samples=rates[many], beside=one, goal=goal),
    ]


def _per_slot(stage: Stage, workers: int) -> float:
    slots = workers * SLOTS
    with stage.database() as database:
        jobs = numbered(slots * PER_SLOT[stage.scale], seconds=SECONDS)
        load = fill(database, "sleep", jobs)
        return drain(database, load, processes=workers, concurrency=SLOTS).per_second / slots
