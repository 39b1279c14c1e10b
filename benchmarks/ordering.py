"""The schedulers in memory: `schedulers.py`, at this run's size and repeats."""

from __future__ import annotations

from benchmarks import schedulers
from benchmarks.figures import Figure, Goal
from benchmarks.stage import Scale, Stage

SIZES = {
    Scale.FULL: [1_000, 5_000, 10_000, 1_000_000],
    Scale.QUICK: [1_000, 10_000],
    Scale.SMOKE: [200],
}
GOALS = {
    ("skip list", "push", 10_000): Goal(at_most=18.0),
    ("skip list", "pop_many", 10_000): Goal(at_most=0.5),
    ("skip list", "pop", 10_000): Goal(at_most=8.0),
}


def measure(stage: Stage) -> list[Figure]:
    sizes, repeat = SIZES[stage.scale], max(1, stage.repeat)
    results = [
        result
        for size in sizes
        for shape in schedulers.SHAPES
        for result in schedulers.measure_ours(size, shape, repeat)
    ]
    results += schedulers.measure_node(sizes, repeat)
    names = {_name(result, result.structure) for result in results}
    figures = []
    for result in results:
        beside = "sorted list" if result.structure == "heap" else "heap"
        other = _name(result, beside)
        figures.append(
            Figure(
                name=_name(result, result.structure),
                unit="ms",
                samples=[result.median_ms],
                beside=other if other in names else "",
                goal=GOALS.get((result.structure, result.operation, result.size))
                if result.shape == "in turn"
                else None,
            )
        )
    return figures


def _name(result: schedulers.Result, structure: str) -> str:
    return f"{result.size:,} {result.shape}, {result.operation}, {structure}"
