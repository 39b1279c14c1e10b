"""The benchmarks by name, each a module with one function: `measure(stage) -> list[Figure]`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks import (
    api,
    console,
    crash,
    enqueue,
    full,
    latency,
    life,
    live,
    many_workers,
    memory,
    ordering,
    outage,
    ranges,
    sleeping,
    snapshot,
)
from benchmarks.figures import Figure
from benchmarks.stage import Stage


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    measure: Callable[[Stage], list[Figure]]
    about: str


BENCHMARKS = {
    "schedulers": Benchmark(
        measure=ordering.measure,
        about="heap and skip list in memory, beside a sorted list and Node",
    ),
    "life": Benchmark(
        measure=life.measure,
        about="the life of no-op jobs, beside the same statements without Python",
    ),
    "enqueue": Benchmark(
        measure=enqueue.measure,
        about="jobs made one by one and in bulk, beside INSERT and COPY of the same rows",
    ),
    "latency": Benchmark(
        measure=latency.measure,
        about="from before enqueue to the handler's start, beside a bare NOTIFY and SELECT",
    ),
    "sleeping": Benchmark(
        measure=sleeping.measure,
        about="jobs that sleep, 50 at a time, beside a thread pool and tasks without a queue",
    ),
    "many_workers": Benchmark(
        measure=many_workers.measure,
        about="the rate per slot of eight workers, beside one worker's",
    ),
    "snapshot": Benchmark(
        measure=snapshot.measure,
        about="claims while a snapshot is held for long, beside the same without",
    ),
    "crash": Benchmark(
        measure=crash.measure,
        about="workers killed in the middle of their jobs: what is lost, and when it goes on",
    ),
    "full": Benchmark(
        measure=full.measure,
        about="claims, lists and statistics on a full table, beside an empty one",
    ),
    "api": Benchmark(
        measure=api.measure,
        about="lists and statistics over REST with five million jobs, beside a thousand",
    ),
    "console": Benchmark(
        measure=console.measure,
        about="every page of the console with ten million jobs, beside a thousand",
    ),
    "memory": Benchmark(
        measure=memory.measure,
        about="memory of a worker process, beside a bare Django process",
    ),
    "outage": Benchmark(
        measure=outage.measure,
        about="PostgreSQL away under four workers, beside a bare client that reconnects",
    ),
    "live": Benchmark(
        measure=live.measure,
        about="live events at 5,000 jobs a second, beside a bare reader of the Redis stream",
    ),
    "ranges": Benchmark(
        measure=ranges.measure,
        about="range runs: lanes, leaves without work, rows done before, a billion keys",
    ),
}
