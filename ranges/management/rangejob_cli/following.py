"""A run as it goes on: a bar in a terminal, a line now and then elsewhere."""

from __future__ import annotations

import json
import sys
from time import monotonic, sleep

from django.core.management.base import OutputWrapper
from rich.console import Console
from rich.progress import BarColumn, TaskProgressColumn, TextColumn
from rich.progress import Progress as Bars

from jobs.management.arguments import shown
from ranges.models import RangeRun
from ranges.progress import Progress, in_words, progress
from ranges.states import ENDED, RunStatus

LOOK_SECONDS = 0.5
LINE_SECONDS = 2.0
INTERRUPTED = 130


def follow(stdout: OutputWrapper, run: RangeRun, *, as_json: bool = False) -> None:
    """Until the run rests: 0 when it is completed, else 1. Ctrl-C ends only the looking: 130."""
    try:
        known = _bar(run) if stdout.isatty() and not as_json else _lines(stdout, run, as_json)
    except KeyboardInterrupt:
        stdout.write(f"\nThe run goes on. Look again: manage.py rangejob status {run.id} --follow")
        sys.exit(INTERRUPTED)
    if not as_json:
        stdout.write(f"{shown(_last_line(known))}.")
    if known.status != RunStatus.COMPLETED:
        sys.exit(1)


def _rests(known: Progress) -> bool:
    return known.status in ENDED or known.status in (RunStatus.PAUSED, RunStatus.CREATED)


def _bar(run: RangeRun) -> Progress:
    """Per cent of the keys, rows, rows a second, and when it will be done."""
    bars = Bars(
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        TaskProgressColumn(),
        TextColumn("{task.fields[rows]}"),
        TextColumn("{task.fields[rate]}", style="cyan"),
        TextColumn("{task.fields[eta]}", style="dim"),
        console=Console(markup=False, highlight=False),
    )
    with bars:
        task = bars.add_task(run.name, total=100.0, rows="", rate="", eta="")
        while True:
            known = progress(run)
            bars.update(
                task,
                completed=known.percent,
                rows=_rows(known),
                rate=_rate(known),
                eta=_eta(known),
            )
            if _rests(known):
                return known
            sleep(LOOK_SECONDS)


def _lines(stdout: OutputWrapper, run: RangeRun, as_json: bool) -> Progress:
    last, said_at = "", float("-inf")
    while True:
        known = progress(run)
        line = json.dumps(known.as_json()) if as_json else known.line
        rests = _rests(known)
        if line != last and (rests or monotonic() >= said_at + LINE_SECONDS):
            if as_json or not rests:
                stdout.write(line)
                stdout.flush()
            last, said_at = line, monotonic()
        if rests:
            return known
        sleep(LOOK_SECONDS)


def _last_line(known: Progress) -> str:
    seconds = in_words(known.active_seconds)
    return f"{known.line}; {_rows(known)} in {known.leaves:,} leaves and {seconds}"


def _rows(known: Progress) -> str:
    return f"{known.rows:,} rows" if known.rows != 1 else "1 row"


def _rate(known: Progress) -> str:
    return "" if known.rows_per_second is None else f"{known.rows_per_second:,.0f}/s"


def _eta(known: Progress) -> str:
    if known.eta_seconds is None or not known.eta_seconds[1]:
        return ""
    return f"{in_words(known.eta_seconds[0])} left"
