"""`manage.py rangejob status`"""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import OutputWrapper
from rich.table import Table
from rich.text import Text

from jobs.management.arguments import print_json, print_table, shown
from jobs.masking import COMMAND_LINE
from ranges.drawing import coverage
from ranges.facts import bounds, facts, why_idle
from ranges.management.rangejob_cli.facts import in_table, status_text
from ranges.management.rangejob_cli.following import follow
from ranges.management.rangejob_cli.options import find_run
from ranges.models import RangeRun
from ranges.progress import Progress, in_words, progress
from ranges.states import NodeState

HELP = "one run: how far it is, how fast it goes, and what failed"
STRIP = 64
MARKS = {
    NodeState.DONE: ("█", "green"),
    NodeState.SKIPPED: ("░", "dim"),
    NodeState.ERROR: ("!", "bold red"),
    NodeState.RUNNING: ("▒", "bold cyan"),
    NodeState.PENDING: ("·", "blue"),
}


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("id", metavar="RUN", help="its id, or how that begins")
    parser.add_argument("--follow", action="store_true", help="go on until it ends, or Ctrl-C")


def run(stdout: OutputWrapper, options: dict[str, Any]) -> None:
    run = find_run(options["id"])
    if options["follow"]:
        follow(stdout, run, as_json=options["json"])
        return
    known = progress(run)
    why = why_idle(run, known)
    if options["json"]:
        said = {
            "params": COMMAND_LINE.value(run.name, run.params),
            "metadata": COMMAND_LINE.value(run.name, run.metadata),
            "reasons": why,
        }
        print_json(stdout, facts(run) | said | {"progress": known.as_json()})
        return
    print_table(stdout, _table(run, known))
    for reason in why:
        stdout.write(f"Not at work: {shown(reason)}.")


def _table(run: RangeRun, known: Progress) -> Table:
    made = Table(box=None, show_header=False, pad_edge=False)
    made.add_column(no_wrap=True, style="dim")
    made.add_column(overflow="fold")

    def row(name: str, value: str | Text) -> None:
        made.add_row(name, value if isinstance(value, Text) else shown(value))

    lo, hi = bounds(run)
    row("run", str(run.id))
    row("range job", run.name)
    row("keys", f"from {_key(lo, 'the first')} to before {_key(hi, 'the end')}")
    row("status", status_text(run.status))
    row("", known.line)
    if run.planned:
        row("coverage", strip(run))
    if known.total is not None:
        for part in ("processed", "skipped", "failed", "left"):
            number = getattr(known, part)
            if number or part in ("processed", "left"):
                row(part, f"{number:,}")
    row(
        "rows", f"{known.rows:,}" + (f", {known.rows_failed:,} failed" if known.rows_failed else "")
    )
    retries = f", {known.retries:,} tries failed" if known.retries else ""
    row("leaves", f"{known.leaves:,}{retries}")
    if known.mean_seconds is not None:
        row("a leaf takes", _leaf_seconds(known))
    counts = (f"{count:,} {state}" for state, count in known.nodes.items() if count)
    row("nodes", ", ".join(counts) or "none yet")
    row("lanes", f"{known.lanes:,} of {run.concurrency:,} at work")
    row("active", in_words(known.active_seconds))
    for name, number in (
        ("commits fenced", known.fenced),
        ("prune errors", known.prune_errors),
        ("probe time-outs", known.probe_timeouts),
    ):
        if number:
            row(name, f"{number:,}")
    return made


def strip(run: RangeRun) -> Text:
    """The range from end to end: one character for each part of it."""
    text = Text()
    for bucket in coverage(run, width=STRIP)["buckets"]:
        mark, style = MARKS[NodeState(bucket["state"])]
        text.append(mark, style=style)
    return text


def _leaf_seconds(known: Progress) -> str:
    parts = [f"mean {known.mean_seconds:.3f} s"]
    for name in ("p50", "p95", "p99"):
        seconds = getattr(known, f"{name}_seconds")
        if seconds is not None:
            parts.append(f"{name} {seconds:.3f} s")
    return ", ".join(parts)


def _key(key: Any, otherwise: str) -> str:
    return otherwise if key is None else in_table(key)
