"""Every page of the console on a table of ten million jobs, beside one of a thousand.

Requests go through Django in one process, as a server would hand them over: what is measured is the
time in the server, with the page rendered, and without a network or a browser. "First look" is with
nothing kept from a look before, as after a quiet hour.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass

from benchmarks.api import fill
from benchmarks.console_rows import Beside, fill_beside
from benchmarks.figures import Figure, Goal, percentile
from benchmarks.stage import CHECKOUT, Scale, Stage

P95_MS = 300


@dataclass(frozen=True, kw_only=True)
class Size:
    jobs: int
    beside: Beside


@dataclass(frozen=True, kw_only=True)
class Sizes:
    many: Size
    few: Size
    looks: int


FEW = Beside(
    dead=200, workers=2, schedules=5, bulk=5, audit=50, deliveries=50, runs=5, nodes=16, minutes=60,
    dependents=50, lines=500,
)  # fmt: skip
MANY = Beside(
    dead=200_000, workers=200, schedules=500, bulk=1_000, audit=200_000, deliveries=50_000, runs=2_000,
    nodes=5_000, minutes=10_080, dependents=10_000, lines=2_000_000,
)  # fmt: skip
QUICK = Beside(
    dead=100_000, workers=200, schedules=500, bulk=1_000, audit=20_000, deliveries=5_000, runs=2_000,
    nodes=5_000, minutes=1_440, dependents=10_000, lines=200_000,
)  # fmt: skip

SIZES = {
    Scale.FULL: Sizes(
        many=Size(jobs=10_000_000, beside=MANY), few=Size(jobs=1_000, beside=FEW), looks=40
    ),
    Scale.QUICK: Sizes(
        many=Size(jobs=300_000, beside=QUICK), few=Size(jobs=1_000, beside=FEW), looks=10
    ),
    Scale.SMOKE: Sizes(many=Size(jobs=3_000, beside=FEW), few=Size(jobs=300, beside=FEW), looks=1),
}


def measure(stage: Stage) -> list[Figure]:
    sizes = SIZES[stage.scale]
    few = _measured(stage, sizes.few, sizes.looks)
    many = _measured(stage, sizes.many, sizes.looks)
    figures = []
    for name, samples in many.items():
        beside = f"{name}, p95, {sizes.few.jobs:,} jobs"
        figures += [
            Figure(name=beside, unit="ms", samples=few[name]),
            Figure(
                name=f"{name}, p95, {sizes.many.jobs:,} jobs",
                unit="ms",
                samples=samples,
                beside=beside,
                goal=Goal(at_most=P95_MS),
            ),
        ]
    return figures


def _measured(stage: Stage, size: Size, looks: int) -> dict[str, list[float]]:
    with stage.database() as database:
        fill(stage, database, size.jobs)
        fill_beside(database, size.beside)
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
