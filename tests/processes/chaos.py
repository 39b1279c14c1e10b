"""Kill workers at random moments while jobs flow, and say what became of the jobs.

    report = run_chaos(url, kills=25, seed=7)

Used by a test and, with many more kills, by the benchmarks. The moments and the victims follow from
the seed; what the machine does meanwhile does not.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from tests.processes.harness import World, children, power_cut, send
from tests.processes.running import Running, eventually, runworker

TYPES = ("prove.effect", "prove.atomic")
JOBS_PER_KILL = 40
IN_FULL_SWING = 0.8
LONGEST_PAUSE = 0.4

RUNNING = """
SELECT count(*) FROM jobs_job j JOIN effect e ON e.job_id = j.id AND e.epoch = j.lease_epoch
WHERE j.status = 'processing'
"""

DONE = """
SELECT j.type, count(*),
    count(*) FILTER (WHERE j.status = 'completed'),
    count(*) FILTER (WHERE coalesce(e.n, 0) = 0),
    count(*) FILTER (WHERE e.n > 1)
FROM jobs_job j LEFT JOIN (SELECT job_id, count(*) AS n FROM effect GROUP BY job_id) e
    ON e.job_id = j.id
GROUP BY j.type ORDER BY j.type
"""


@dataclass(frozen=True, kw_only=True)
class Fate:
    """What became of the jobs of one type."""

    created: int
    completed: int
    without_effect: int
    with_repeated_effects: int


@dataclass(frozen=True, kw_only=True)
class Report:
    kills: int
    """Processes, or whole workers, that were killed or told to stop."""
    seconds: float
    fates: dict[str, Fate]
    outcomes: dict[str, int]


def run_chaos(
    url: str,
    *,
    kills: int,
    seed: int,
    workers: int = 3,
    options: tuple[str, ...] = ("--concurrency", "4", "--graceful-timeout", "1"),
    **variables: str,
) -> Report:
    """Let jobs flow, strike `kills` times, let the last workers finish; raises if they do not."""
    world = World(url)
    rng = random.Random(seed)
    begun = time.monotonic()
    with ExitStack() as stack:

        def start() -> Running:
            worker: Running = stack.enter_context(runworker(url, *options, **variables))
            return worker

        running = [start() for _ in range(workers)]
        for _ in range(kills):
            for type in TYPES:
                world.enqueue_all(
                    type,
                    JOBS_PER_KILL // len(TYPES),
                    payload={"seconds": rng.choice([0.0, 0.01, 0.2, 1.0])},
                )
            if rng.random() < IN_FULL_SWING:
                eventually(lambda: world.one(RUNNING), "something runs")
            # Else perhaps within the start of a worker, or right after the kill before.
            time.sleep(rng.uniform(0.0, LONGEST_PAUSE))
            rng.choice(STRIKES)(rng, running)
            running = [each if each.process.poll() is None else start() for each in running]
        world.all_ended()
        for worker in running:
            worker.stop()
    return Report(
        kills=kills,
        seconds=time.monotonic() - begun,
        fates={
            type: Fate(
                created=created,
                completed=completed,
                without_effect=without,
                with_repeated_effects=repeated,
            )
            for type, created, completed, without, repeated in world.rows(DONE)
        },
        outcomes=world.outcomes(),
    )


type Strike = Callable[[random.Random, list[Running]], None]


def _whole_worker(rng: random.Random, running: list[Running]) -> None:
    power_cut(_victim(rng, running))


def _supervisor(rng: random.Random, running: list[Running]) -> None:
    send(signal.SIGKILL, _victim(rng, running).process.pid)


def _child(rng: random.Random, running: list[Running]) -> None:
    send(signal.SIGKILL, *children(_victim(rng, running))[:1])


def _politely(rng: random.Random, running: list[Running]) -> None:
    send(signal.SIGTERM, _victim(rng, running).process.pid)


def _impatiently(rng: random.Random, running: list[Running]) -> None:
    pid = _victim(rng, running).process.pid
    send(signal.SIGTERM, pid)
    time.sleep(rng.uniform(0.0, 0.1))
    send(signal.SIGTERM, pid)


def _victim(rng: random.Random, running: list[Running]) -> Running:
    """Rather one that runs jobs than one that is still starting."""
    return rng.choice([each for each in running if children(each)] or running)


STRIKES: list[Strike] = [_whole_worker, _supervisor, _child, _child, _politely, _impatiently]
