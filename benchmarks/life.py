"""The whole life of no-op jobs: claimed, run, completed, with attempts and log, durably.

Two worker processes beside the same statements and tables without Python (`floor.py`).
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks import floor
from benchmarks.draining import QUEUE, Load, drain, fill, numbered
from benchmarks.figures import Figure, Goal
from benchmarks.stage import Database, Scale, Stage
from jobs import lifecycle

SIZES = {Scale.FULL: (150_000, 15_000), Scale.QUICK: (30_000, 3_000), Scale.SMOKE: (400, 60)}
FLOOR_CONNECTIONS = 2
ATOMIC_CONNECTIONS = 32
"""As many as two processes have slots."""


def measure(stage: Stage) -> list[Figure]:
    plain, atomic = SIZES[stage.scale]
    ways: dict[str, Callable[[], float]] = {
        "floor": lambda: _floor(stage, "noop", plain, connections=FLOOR_CONNECTIONS),
        "worker": lambda: _worker(stage, "noop", plain),
        "worker, two log lines a job": lambda: _worker(stage, "noop", plain, log_level="INFO"),
        "atomic, floor": lambda: _floor(
            stage, "noop_atomic", atomic, connections=ATOMIC_CONNECTIONS, limit=16, size=1
        ),
        "atomic, worker": lambda: _worker(stage, "noop_atomic", atomic),
    }
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(stage.repeat):
        for name, way in ways.items():
            rates[name].append(way())
    beside = {
        "worker": "floor",
        "worker, two log lines a job": "worker",
        "atomic, worker": "atomic, floor",
    }
    goals = {"worker": Goal(at_least=0.5, of_ratio=True)}
    return [
        Figure(
            name=name,
            unit="jobs/s",
            samples=samples,
            beside=beside.get(name, ""),
            goal=goals.get(name),
        )
        for name, samples in rates.items()
    ]


def _worker(stage: Stage, type: str, count: int, log_level: str = "WARNING") -> float:
    with stage.database() as database:
        load = fill(database, type, numbered(count))
        result = drain(database, load, processes=stage.processes, log_level=log_level)
        _check(database, load)
        return result.per_second


def _floor(
    stage: Stage, type: str, count: int, *, connections: int, limit: int = 500, size: int = 500
) -> float:
    with stage.database() as database:
        floor.install(database)
        load = fill(database, type, numbered(count))
        lifecycle.resume_queue(QUEUE)
        seconds = floor.run(database, type, connections=connections, limit=limit, size=size)
        _check(database, load)
        return count / seconds


def _check(database: Database, load: Load) -> None:
    """Each job is completed by one attempt, and its two changes of status are in the log."""
    attempts, lines = database.rows(
        "SELECT (SELECT count(*) FROM jobs_attempt), (SELECT count(*) FROM jobs_joblog)"
    )[0]
    completed = database.one("SELECT count(*) FROM jobs_job WHERE status = 'completed'")
    counts = (completed, attempts, lines)
    assert counts == (load.count, load.count, 2 * load.count), counts
