"""Jobs that only wait, 50 at a time: how near a worker comes to what waiting alone takes.

Beside it a plain thread pool and plain tasks that sleep as often, without any queue.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

from benchmarks.draining import drain, fill, numbered
from benchmarks.figures import Figure, Goal
from benchmarks.stage import Scale, Stage

COUNTS = {Scale.FULL: 2_000, Scale.QUICK: 1_000, Scale.SMOKE: 100}
SECONDS = 0.05
CONCURRENCY = 50


def measure(stage: Stage) -> list[Figure]:
    count = COUNTS[stage.scale]
    ideal = count * SECONDS / CONCURRENCY
    parts: dict[str, list[float]] = {
        "thread pool": [],
        "threads": [],
        "plain tasks": [],
        "async": [],
    }
    for _ in range(stage.repeat):
        parts["thread pool"].append(ideal / _pool_seconds(count))
        parts["threads"].append(ideal / _worker_seconds(stage, "sleep", count))
        parts["plain tasks"].append(ideal / asyncio.run(_tasks_seconds(count)))
        parts["async"].append(ideal / _worker_seconds(stage, "sleep_async", count))
    beside = {"threads": "thread pool", "async": "plain tasks"}
    return [
        Figure(
            name=name,
            unit="of ideal",
            samples=samples,
            beside=beside.get(name, ""),
            goal=Goal(at_least=0.99) if name in beside else None,
        )
        for name, samples in parts.items()
    ]


def _worker_seconds(stage: Stage, type: str, count: int) -> float:
    with stage.database() as database:
        load = fill(database, type, numbered(count, seconds=SECONDS))
        return drain(database, load, processes=1, concurrency=CONCURRENCY).seconds


def _pool_seconds(count: int) -> float:
    with ThreadPoolExecutor(CONCURRENCY) as pool:
        started = time.perf_counter()
        list(pool.map(time.sleep, [SECONDS] * count))
        return time.perf_counter() - started


async def _tasks_seconds(count: int) -> float:
    slots = asyncio.Semaphore(CONCURRENCY)

    async def one() -> None:
        async with slots:
            await asyncio.sleep(SECONDS)

    started = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(count)))
    return time.perf_counter() - started
