"""Every page of the console on a table of ten million jobs, beside one of a thousand.

Requests go through Django in one process, as a server would hand them over: what is measured is the
time in the server, with the page rendered, and without a network or a browser.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass

from benchmarks.api import fill
from benchmarks.figures import Figure, Goal, percentile
from benchmarks.stage import CHECKOUT, Scale, Stage

P95_MS = 300


@dataclass(frozen=True, kw_only=True)
class Size:
    jobs: int
    beside: int
    looks: int


SIZES = {
    Scale.FULL: Size(jobs=10_000_000, beside=1_000, looks=40),
    Scale.QUICK: Size(jobs=300_000, beside=1_000, looks=20),
    Scale.SMOKE: Size(jobs=3_000, beside=300, looks=1),
}


def measure(stage: Stage) -> list[Figure]:
    size = SIZES[stage.scale]
    few = _measured(stage, size.beside, size.looks)
    many = _measured(stage, size.jobs, size.looks)
    figures = []
    for name, samples in many.items():
        beside = f"{name}, p95, {size.beside:,} jobs"
        figures += [
            Figure(name=beside, unit="ms", samples=few[name]),
            Figure(
                name=f"{name}, p95, {size.jobs:,} jobs",
                unit="ms",
                samples=samples,
                beside=beside,
                goal=Goal(at_most=P95_MS),
            ),
        ]
    return figures


def _measured(stage: Stage, count: int, looks: int) -> dict[str, list[float]]:
    with stage.database() as database:
        fill(stage, database, count)
        database.tidy()
        found: dict[str, list[float]] = {}
        for _ in range(stage.repeat):
            done = subprocess.run(
                [sys.executable, "-m", "benchmarks.console_pages", str(looks)],
                cwd=CHECKOUT,
                env=stage.environment(database=database.name),
                stdout=subprocess.PIPE,
                check=True,
                text=True,
            )
            for name, times in json.loads(done.stdout).items():
                found.setdefault(name, []).append(percentile(times, 95))
        return found
