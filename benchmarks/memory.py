"""Memory of one worker process: draining, with a million jobs waiting, after thousands of ORM jobs.

Beside it a bare Django process with the same settings that has made one query.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass

from benchmarks.draining import drain, fill, let_go, numbered
from benchmarks.figures import Figure, Goal
from benchmarks.stage import CHECKOUT, Memory, Scale, Stage, Worker

EVERY_SECONDS = 0.25


@dataclass(frozen=True, kw_only=True)
class Size:
    few: int
    many: int
    orm: int


SIZES = {
    Scale.FULL: Size(few=100_000, many=1_000_000, orm=5_000),
    Scale.QUICK: Size(few=20_000, many=100_000, orm=1_000),
    Scale.SMOKE: Size(few=200, many=400, orm=20),
}


class Peak:
    """The most that any child has held, seen a few times a second."""

    def __init__(self) -> None:
        self.memory = Memory(resident=0.0, proportional=0.0)
        self._seen_at = 0.0

    def look(self, worker: Worker) -> None:
        now = time.monotonic()
        if now - self._seen_at < EVERY_SECONDS and self._seen_at:
            return
        self._seen_at = now
        for each in worker.memory():
            if each.resident > self.memory.resident:
                self.memory = each


def measure(stage: Stage) -> list[Figure]:
    size = SIZES[stage.scale]
    few = f"draining {size.few:,}"
    many = f"draining {size.few:,} of {size.many:,}"
    some, all_ = f"after {size.orm // 5:,} ORM jobs", f"after {size.orm:,} ORM jobs"
    found: dict[str, list[Memory]] = {name: [] for name in ("bare Django", few, many, some, all_)}
    for _ in range(stage.repeat):
        found["bare Django"].append(_bare(stage))
        found[few].append(_draining(stage, size.few, size.few))
        found[many].append(_draining(stage, size.many, size.few))
        for name, memory in zip((some, all_), _orm(stage, size), strict=True):
            found[name].append(memory)
    beside = {few: "bare Django", many: few, some: "bare Django", all_: some}
    limit = Goal(at_most=150)
    return [
        Figure(
            name=name,
            unit="MiB resident",
            samples=[each.resident for each in memories],
            beside=beside.get(name, ""),
            goal=limit if name in beside else None,
        )
        for name, memories in found.items()
    ] + [
        Figure(
            name=f"{name}, proportional",
            unit="MiB",
            samples=[each.proportional for each in memories],
        )
        for name, memories in found.items()
    ]


def _bare(stage: Stage) -> Memory:
    with stage.database() as database:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.bare"],
            cwd=CHECKOUT,
            env=stage.environment(database=database.name),
            capture_output=True,
            text=True,
            check=True,
        )
    return Memory(**json.loads(done.stdout))


def _draining(stage: Stage, present: int, drained: int) -> Memory:
    peak = Peak()
    with stage.database() as database:
        load = fill(database, "noop", numbered(present))
        drain(database, load, processes=1, at_least=drained, watch=peak.look)
    return peak.memory


def _orm(stage: Stage, size: Size) -> tuple[Memory, Memory]:
    """After a fifth of the jobs, when all that is loaded late is there, and after all of them."""
    early, late = Peak(), Peak()
    with stage.database() as database, database.workers() as worker:
        fifth = size.orm // 5
        let_go(database, fill(database, "orm", numbered(fifth)))
        early.look(worker)
        let_go(database, fill(database, "orm", numbered(size.orm - fifth)))
        late.look(worker)
    return early.memory, late.memory
