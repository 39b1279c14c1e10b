"""Range runs: what lanes reach, what the engine costs, what is passed over, and large runs.

Each part is a module: `range_lanes.py`, `range_tables.py`, `range_books.py`.
"""

from __future__ import annotations

from benchmarks import range_books, range_lanes, range_tables
from benchmarks.figures import Figure
from benchmarks.stage import Stage


def measure(stage: Stage) -> list[Figure]:
    return [
        *range_lanes.measure(stage),
        *range_tables.measure(stage),
        *range_books.measure(stage),
    ]
