"""How soon an idle worker starts a job: from the moment before `enqueue` to the handler's start.

Beside it the least that PostgreSQL allows: a durable INSERT with NOTIFY, and a listener in another
process that reads the row (`echo.py`).
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from benchmarks import echo, records
from benchmarks.figures import Figure, Goal, percentile
from benchmarks.stage import CHECKOUT, Database, Scale, Stage, wait_until
from jobs import enqueue

TIMES = {Scale.FULL: 200, Scale.QUICK: 100, Scale.SMOKE: 5}
EVERY_SECONDS = 0.05
WARM_UP = {Scale.FULL: 20, Scale.QUICK: 20, Scale.SMOKE: 2}
"""Jobs before those that count: statements are prepared, threads are there."""
PERCENTS = (50, 95, 99)
GOALS = {50: Goal(at_most=2.5), 99: Goal(at_most=4.0)}


def measure(stage: Stage) -> list[Figure]:
    ours: list[list[float]] = []
    bare: list[list[float]] = []
    for _ in range(stage.repeat):
        bare.append(_bare(stage))
        ours.append(_worker(stage))
    figures = []
    for percent in PERCENTS:
        beside = f"bare NOTIFY and SELECT, p{percent}"
        figures += [
            Figure(name=beside, unit="ms", samples=[percentile(found, percent) for found in bare]),
            Figure(
                name=f"worker, p{percent}",
                unit="ms",
                samples=[percentile(found, percent) for found in ours],
                beside=beside,
                goal=GOALS.get(percent),
            ),
        ]
    return figures


def _worker(stage: Stage) -> list[float]:
    path = stage.file("latency")
    with stage.database() as database, database.workers(records=path):
        return _send(stage, path, lambda n: enqueue("watched", {"n": n}))


def _bare(stage: Stage) -> list[float]:
    path = stage.file("latency")
    with stage.database() as database:
        database.rows(echo.TABLE)
        with _listening(stage, database, path), psycopg.Cursor(database.connection) as cursor:
            return _send(stage, path, lambda n: cursor.execute(echo.SEND, [n], prepare=True))


@contextmanager
def _listening(stage: Stage, database: Database, path: Path) -> Iterator[None]:
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks.echo", database.url],
        cwd=CHECKOUT,
        env=stage.environment(records=path),
        stdout=subprocess.PIPE,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield
        finally:
            process.kill()


def _send(stage: Stage, path: Path, send: Callable[[int], object]) -> list[float]:
    """Milliseconds from before each call to the note of its arrival."""
    first = WARM_UP[stage.scale]
    sent = []
    for n in range(first + TIMES[stage.scale]):
        sent.append(time.monotonic())
        send(n)
        time.sleep(max(0.0, sent[-1] + EVERY_SECONDS - time.monotonic()))
    wait_until(lambda: len(records.read(path).starts) == len(sent), "all have arrived", 30)
    starts = records.read(path).starts
    return [(starts[n][0] - sent[n]) * 1000 for n in range(first, len(sent))]
