"""Heap against skip list, a sorted list, and the same structures in Node.

    python -m benchmarks.schedulers [--json FILE] [--repeat 7] [--sizes 1000,5000,10000,1000000]

Jobs of three priorities have waited for up to an hour. They are pushed in turn (oldest first, as a
worker claims them) or shuffled. Figures are medians in milliseconds for all jobs of a row.
"""

import argparse
import gc
import json
import os
import platform
import shutil
import subprocess
import time
from bisect import insort
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from statistics import median
from uuid import UUID

from rich.console import Console
from rich.table import Table

from jobs.order import score
from worker.schedulers import HeapScheduler, Scheduler, SkipListScheduler
from worker.schedulers.base import Item

NOW = 1_760_000_000.0
SPAN_SECONDS = 3600
SIZES = (1_000, 5_000, 10_000, 1_000_000)
SHAPES = ("in turn", "shuffled")
OPERATIONS = ("push", "push_many", "pop", "pop_many")
LARGE = 100_000


class Job:
    __slots__ = ("due_at", "id", "priority")

    def __init__(self, job_id: str, priority: int, due_at: float) -> None:
        self.id = job_id
        self.priority = priority
        self.due_at = due_at


class SortedListScheduler:
    """The plain way: one sorted list for each priority, kept by bisection."""

    def __init__(self) -> None:
        self._known: dict[str, Job] = {}
        self._lanes: dict[int, list[Item]] = {}

    def push(self, entry: Job) -> bool:
        if entry.id in self._known:
            return False
        self._known[entry.id] = entry
        insort(self._lanes.setdefault(entry.priority, []), (entry.due_at, entry.id))
        return True

    def push_many(self, entries: Iterable[Job]) -> int:
        return sum(map(self.push, entries))

    def pop(self, now: float) -> Job | None:
        best = self._best(now)
        return None if best is None else self._known.pop(self._lanes[best].pop(0)[1])

    def pop_many(self, n: int, now: float) -> list[Job]:
        popped: list[Job] = []
        while len(popped) < n and (entry := self.pop(now)) is not None:
            popped.append(entry)
        return popped

    def peek(self, now: float) -> Job | None:
        best = self._best(now)
        return None if best is None else self._known[self._lanes[best][0][1]]

    def discard(self, job_id: str) -> Job | None:
        entry = self._known.pop(job_id, None)
        if entry is not None:
            self._lanes[entry.priority].remove((entry.due_at, job_id))
        return entry

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, job_id: object) -> bool:
        return job_id in self._known

    def _best(self, now: float) -> int | None:
        firsts = [
            (score(priority, now - lane[0][0]), lane[0], priority)
            for priority, lane in self._lanes.items()
            if lane
        ]
        return min(firsts)[2] if firsts else None


STRUCTURES: dict[str, Callable[[], Scheduler[Job]]] = {
    "heap": HeapScheduler,
    "skip list": SkipListScheduler,
    "sorted list": SortedListScheduler,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    size: int
    shape: str
    structure: str
    operation: str
    median_ms: float


def main() -> None:
    options = read_options()
    results = [
        result
        for size in options.sizes
        for shape in SHAPES
        for result in measure_ours(size, shape, options.repeat)
    ]
    results += measure_node(options.sizes, options.repeat)
    show(results)
    if options.json:
        options.json.write_text(json.dumps(report(results, options.repeat), indent=2) + "\n")


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--repeat", type=int, default=7, help="runs per figure (at most 3 at 1M)")
    parser.add_argument(
        "--sizes",
        type=lambda text: [int(part) for part in text.split(",")],
        default=list(SIZES),
        help="numbers of jobs, separated by commas",
    )
    return parser.parse_args()


def measure_ours(size: int, shape: str, repeat: int) -> list[Result]:
    jobs = make_jobs(size, shape)
    results = []
    for structure, make in STRUCTURES.items():
        if structure == "sorted list" and size > LARGE:
            continue  # Quadratic: minutes for a figure that nobody needs.
        runs = [run_once(make, jobs) for _ in range(min(repeat, 3) if size > LARGE else repeat)]
        results += [
            Result(
                size=size,
                shape=shape,
                structure=structure,
                operation=operation,
                median_ms=median(run[operation] for run in runs),
            )
            for operation in OPERATIONS
        ]
    return results


def make_jobs(size: int, shape: str) -> list[Job]:
    random = Random(size)
    jobs = [
        Job(
            str(UUID(int=random.getrandbits(128))),
            random.randint(1, 3),
            NOW - SPAN_SECONDS * (1 - i / size),
        )
        for i in range(size)
    ]
    if shape == "shuffled":
        random.shuffle(jobs)
    return jobs


def run_once(make: Callable[[], Scheduler[Job]], jobs: list[Job]) -> dict[str, float]:
    one_by_one, at_once = make(), make()

    def push() -> None:
        push = one_by_one.push
        for job in jobs:
            push(job)

    def pop() -> None:
        pop = one_by_one.pop
        while pop(NOW) is not None:
            pass

    times = {
        "push": timed_ms(push),
        "pop": timed_ms(pop),
        "push_many": timed_ms(lambda: at_once.push_many(jobs)),
        "pop_many": timed_ms(lambda: at_once.pop_many(len(jobs), NOW)),
    }
    assert len(one_by_one) == len(at_once) == 0
    return times


def timed_ms(work: Callable[[], object]) -> float:
    gc.collect()
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1000


def measure_node(sizes: list[int], repeat: int) -> list[Result]:
    node = shutil.which("node")
    if node is None:
        return []
    script = Path(__file__).with_suffix(".mjs")
    arguments = json.dumps({"sizes": sizes, "repeat": repeat})
    done = subprocess.run([node, script, arguments], capture_output=True, text=True, check=True)
    return [Result(**row) for row in json.loads(done.stdout)]


def show(results: list[Result]) -> None:
    times = {(r.size, r.shape, r.operation, r.structure): r.median_ms for r in results}
    structures = list(dict.fromkeys(r.structure for r in results))
    table = Table(title="Schedulers: milliseconds for all jobs, median")
    for name in ("jobs", "pushed", "operation"):
        table.add_column(name)
    for name in (*structures, "heap / skip list"):
        table.add_column(name, justify="right")
    for size, shape, operation in dict.fromkeys((r.size, r.shape, r.operation) for r in results):
        row = [times.get((size, shape, operation, structure)) for structure in structures]
        ratio = times[size, shape, operation, "heap"] / times[size, shape, operation, "skip list"]
        table.add_row(
            f"{size:,}",
            shape,
            operation,
            *("" if value is None else f"{value:,.2f}" for value in row),
            f"{ratio:.2f}",
            end_section=operation == OPERATIONS[-1],
        )
    Console().print(table)


def report(results: list[Result], repeat: int) -> dict[str, object]:
    return {
        "measured_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "repeat": repeat,
        "results": [asdict(result) for result in results],
    }


if __name__ == "__main__":
    main()
