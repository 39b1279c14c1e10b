"""`manage.py jobs stats`"""

from __future__ import annotations

import time
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandError, OutputWrapper
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from jobs.database import DjangoDatabase
from jobs.doctor.findings import age
from jobs.management.arguments import print_json, print_table, shown
from jobs.stats import Stats, stats

HELP = "how many jobs there are, by status, state and queue"


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--watch", action="store_true", help="go on until Ctrl-C")
    parser.add_argument("--every", type=float, default=1.0, metavar="SECONDS", help="(1)")


def run(stdout: OutputWrapper, options: dict[str, Any]) -> None:
    if options["every"] < 0.1:
        raise CommandError("--every: must be at least 0.1 seconds")
    if options["watch"]:
        _watch(stdout, options)
        return
    found = stats(DjangoDatabase())
    if options["json"]:
        print_json(stdout, asdict(found))
        return
    print_table(stdout, _numbers(found))
    if found.queues:
        stdout.write("")
        print_table(stdout, _queues(found))


def _watch(stdout: OutputWrapper, options: dict[str, Any]) -> None:
    try:
        if options["json"] or not stdout.isatty():
            while True:
                found = stats(DjangoDatabase())
                if options["json"]:
                    print_json(stdout, asdict(found))
                else:
                    stdout.write(_line(found))
                stdout.flush()
                time.sleep(options["every"])
        console = Console(markup=False, highlight=False)
        with Live(_screen(), console=console, auto_refresh=False) as live:
            while True:
                time.sleep(options["every"])
                live.update(_screen(), refresh=True)
    except KeyboardInterrupt:
        pass


def _screen() -> Group:
    found = stats(DjangoDatabase())
    parts: list[Table | Text] = [_numbers(found)]
    if found.queues:
        parts += [Text(""), _queues(found)]
    return Group(*parts)


def _numbers(found: Stats) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right")
    table.add_column(style="dim")

    def row(name: str, count: int, note: str = "", style: str = "") -> None:
        about = "about " if name in found.estimated else ""
        about = "at least " if name in found.at_least else about
        table.add_row(Text(name, style=style), f"{about}{count:,}", note)

    row("pending", found.pending)
    for name, count in found.states.items():
        about = "at least " if name in found.at_least else ""
        table.add_row(Text(f"  {name}"), f"{about}{count:,}", "")
    row("processing", found.processing)
    row("completed", found.completed, style="green")
    row("failed", found.failed, "dead letters", style="red" if found.failed else "")
    row("cancelled", found.cancelled)
    row("total", found.total, style="bold")
    return table


def _queues(found: Stats) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("queue")
    table.add_column("due", justify="right")
    table.add_column("oldest waits", justify="right")
    table.add_column("")
    for queue in found.queues:
        table.add_row(
            shown(queue.name),
            f"{queue.depth:,}{'+' if queue.is_capped else ''}",
            "" if queue.oldest_wait_seconds is None else age(queue.oldest_wait_seconds),
            Text("paused", style="yellow") if queue.paused else "",
        )
    return table


def _line(found: Stats) -> str:
    names = ("pending", "processing", "completed", "failed", "cancelled")
    return "  ".join(f"{name} {getattr(found, name):,}" for name in names)
