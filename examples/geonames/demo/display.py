"""How the work goes on: bars in a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.table import Table

from examples.geonames.demo.workload import Progress

LINE_SECONDS = 2.0


class Display:
    """Use as a context manager; `show` may be called as often as one likes."""

    def __init__(self, console: Console, titles: Sequence[str]) -> None:
        self.console = console
        self.titles = titles
        self._bars = Bars(
            TextColumn("{task.description:<28}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
        )
        self._tasks: list[TaskID] = [self._bars.add_task(title, total=None) for title in titles]
        self._live = Live(console=console, refresh_per_second=8) if console.is_terminal else None
        self._line = ""
        self._line_at = float("-inf")

    def __enter__(self) -> Display:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, progress: Sequence[Progress], jobs: Mapping[str, int]) -> None:
        if self._live is None:
            self._print_line(progress, jobs)
            return
        for task, each in zip(self._tasks, progress, strict=True):
            self._bars.update(task, completed=each.done, total=each.total)
        self._live.update(Group(self._bars, _table(jobs)))

    def _print_line(self, progress: Sequence[Progress], jobs: Mapping[str, int]) -> None:
        parts = [
            f"{title}: {each.done:,}/{each.total:,}"
            for title, each in zip(self.titles, progress, strict=True)
        ]
        counts = ", ".join(f"{count:,} {status}" for status, count in jobs.items())
        line = "; ".join([*parts, f"jobs: {counts}"])
        ends = all(each.is_complete for each in progress)
        if line != self._line and (ends or time.monotonic() >= self._line_at + LINE_SECONDS):
            self._line, self._line_at = line, time.monotonic()
            self.console.print(line, soft_wrap=True, highlight=False)


def _table(jobs: Mapping[str, int]) -> Table:
    table = Table.grid(padding=(0, 3))
    table.add_row("Jobs", *(f"[bold]{count:,}[/] {status}" for status, count in jobs.items()))
    return table
