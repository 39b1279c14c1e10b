"""What a benchmark finds: figures, each a few samples, most of them beside another figure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import median
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Goal:
    """What design asks for: of the ratio to the figure beside, or of the figure itself."""

    at_least: float | None = None
    at_most: float | None = None
    of_ratio: bool = False

    def is_met_by(self, value: float) -> bool:
        return (self.at_least is None or value >= self.at_least) and (
            self.at_most is None or value <= self.at_most
        )

    def __str__(self) -> str:
        least, most = self.at_least, self.at_most
        text = f"at least {least:g}" if least is not None else f"at most {most:g}"
        return f"ratio {text}" if self.of_ratio else text


@dataclass(frozen=True, kw_only=True)
class Figure:
    name: str
    unit: str
    samples: Sequence[float]
    beside: str = ""
    """The name of the figure of the same benchmark that this one is divided by."""
    goal: Goal | None = None

    @property
    def median(self) -> float:
        return median(self.samples)


def rows(figures: Iterable[Figure]) -> list[dict[str, Any]]:
    """The figures of one benchmark as JSON, with ratios and whether goals are met."""
    figures = list(figures)
    medians = {figure.name: figure.median for figure in figures}
    return [_row(figure, medians) for figure in figures]


def _row(figure: Figure, medians: dict[str, float]) -> dict[str, Any]:
    beside = medians[figure.beside] if figure.beside else 0.0
    ratio = figure.median / beside if beside else None
    goal = figure.goal
    judged = figure.median if goal is None or not goal.of_ratio else ratio
    return {
        "name": figure.name,
        "unit": figure.unit,
        "median": figure.median,
        "samples": list(figure.samples),
        "beside": figure.beside,
        "ratio": ratio,
        "goal": "" if goal is None else str(goal),
        "met": None if goal is None or judged is None else goal.is_met_by(judged),
    }


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that so many percent of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, ceil(len(ordered) * percent / 100) - 1)]
