"""`manage.py rangejob plan`: what a run would do, without doing it."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import OutputWrapper
from rich.table import Table

from jobs.management.arguments import print_json, print_table, shown
from ranges.management.rangejob_cli.facts import in_table
from ranges.management.rangejob_cli.options import (
    add_bounds,
    add_run_options,
    job_class,
    run_options,
)
from ranges.planning import Plan
from ranges.progress import in_words

HELP = "what a run would do: rows, leaves, the index it wants, seconds"

PROBING = {
    "none": "not asked for: every key is worked on",
    "witness": "passed over, one question for each gap",
    "filter": "walked over; each leaf leaves it out",
    "blocks": "asked of should_process, block by block",
}


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="a range job, say geonames.BackfillCells")
    add_bounds(parser)
    add_run_options(parser)


def run(stdout: OutputWrapper, options: dict[str, Any]) -> None:
    plan = job_class(options["name"]).plan(options["start"], options["end"], **run_options(options))
    if options["json"]:
        print_json(stdout, plan.as_json())
        return
    print_table(stdout, _table(plan))
    for warning in plan.warnings:
        stdout.write(f"Warning: {shown(warning)}.")
    if plan.index is not None and plan.index.ddl:
        stdout.write("This would help:")
        for statement in plan.index.ddl:
            stdout.write(f"    {statement};")


def _table(plan: Plan) -> Table:
    made = Table(box=None, show_header=False, pad_edge=False)
    made.add_column(no_wrap=True, style="dim")
    made.add_column(overflow="fold")

    def row(name: str, value: str) -> None:
        made.add_row(name, shown(value))

    row("range job", plan.job)
    row("keys", f"from {_key(plan.lo)} to before {_key(plan.hi)}")
    row("rows" if plan.counts == "rows" else "width", _number(plan.items))
    if plan.share is not None and plan.share < 1:
        row("to be done", f"about {_number(plan.items_left)} ({plan.share:.0%} of a sample)")
    if plan.null_keys:
        row("without a key", _number(plan.null_keys))
    row("leaves", f"{_number(plan.leaves)} of {plan.leaf_size:,}")
    row("lanes", f"{plan.concurrency:,}, on {plan.strands:,} strands at first")
    if plan.index is not None:
        row("finished work", PROBING[plan.index.probing])
        row("index", plan.index.index or "none")
    row("takes", "not known before a run has ended" if plan.seconds is None
        else f"about {in_words(plan.seconds)}")  # fmt: skip
    return made


def _key(key: Any) -> str:
    return "?" if key is None else in_table(key)


def _number(number: int | None) -> str:
    return "not known" if number is None else f"{number:,}"
