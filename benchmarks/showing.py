"""What a run prints: progress, and a table for each benchmark."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.figures import Figure, rows

_console = Console(width=None if sys.stdout.isatty() else 140)


def say(text: str) -> None:
    _console.print(f"{time.strftime('%H:%M:%S')} {text}", highlight=False, markup=False)


def heading(report: dict[str, Any]) -> None:
    machine, versions = report["machine"], report["versions"]
    say(
        f"{report['measured_at']}, {machine['cores']} cores, {machine['processor']}, "
        f"{machine['memory_gib']} GiB, {machine['system']}, "
        f"sync {machine['disk_sync_ms']} ms, load {report['load_before'][0]}"
    )
    say(", ".join(f"{name} {version}" for name, version in versions.items()))


def rows_of(name: str, figures: Sequence[Figure]) -> list[dict[str, Any]]:
    """Print a benchmark's table and return its rows as JSON."""
    found = rows(figures)
    table = Table(title=name)
    table.add_column("figure")
    for column in ("median", "unit", "ratio"):
        table.add_column(column, justify="right" if column != "unit" else "left")
    for column in ("beside", "goal"):
        table.add_column(column)
    for row in found:
        mark = {True: "[green]met[/green] ", False: "[red]not met[/red] ", None: ""}[row["met"]]
        table.add_row(
            row["name"],
            number(row["median"]),
            row["unit"],
            "" if row["ratio"] is None else f"{row['ratio']:.2f}",
            row["beside"],
            f"{mark}{row['goal']}",
        )
    _console.print(table)
    return found


def number(value: float) -> str:
    """Three digits that count."""
    if value == int(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"
