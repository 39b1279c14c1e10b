"""`manage.py rangejob verify`: the proofs, as the database finds them now."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import OutputWrapper
from rich.table import Table
from rich.text import Text

from jobs.management.arguments import print_json, print_table, shown
from ranges.facts import findings
from ranges.management.rangejob_cli.options import find_run
from ranges.proof import Verdict, verify

HELP = "prove that the run covers its range; exits with 1 when it finds something"


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("id", metavar="RUN", help="its id, or how that begins")
    parser.add_argument(
        "--complete", action="store_true", help="also while it runs: nothing may be left"
    )


def run(stdout: OutputWrapper, options: dict[str, Any]) -> None:
    run = find_run(options["id"])
    verdict = verify(run)
    found = findings(run, verdict, must_be_complete=options["complete"])
    if options["json"]:
        print_json(stdout, verdict.as_json() | {"findings": found})
    else:
        if run.planned:
            print_table(stdout, _table(verdict))
        for finding in found:
            stdout.write(f"Found: {finding}.")
        if not found:
            stdout.write("All is as it should be." if run.planned else "Nothing was planned yet.")
    if found:
        sys.exit(1)


def _table(verdict: Verdict) -> Table:
    made = Table(box=None, show_header=False, pad_edge=False)
    made.add_column(no_wrap=True)
    made.add_column(no_wrap=True)
    made.add_column(style="dim")
    for name, holds, what in (
        ("chain", verdict.chain, "each node begins where the one before it ends"),
        ("union", verdict.multirange, "all nodes together are the range, none of it twice"),
        ("ledger", verdict.ledger, "worked on, passed over, failed and left add up in each node"),
    ):
        answer = {True: ("holds", "green"), False: ("BROKEN", "bold red"), None: ("-", "dim")}
        made.add_row(name, Text(*answer[holds]), what)
    made.add_row("nodes", f"{verdict.nodes:,}", "")
    made.add_row("rows", f"{verdict.rows_ok:,}", "done")
    if verdict.rows_failed:
        made.add_row("", f"{verdict.rows_failed:,}", "failed")
    if verdict.width is not None:
        for words, number in (
            ("worked on", verdict.width_ok),
            ("passed over", verdict.width_skipped),
            ("failed", verdict.width_failed),
            ("left", verdict.width_left),
        ):
            made.add_row("keys" if words == "worked on" else "", shown(f"{number:,}"), words)
    return made
