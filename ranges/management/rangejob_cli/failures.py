"""`manage.py rangejob failures`: the keys that would not be processed."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError, OutputWrapper
from rich.table import Table
from rich.text import Text

from jobs import conf
from jobs.management.arguments import print_json, print_table, shown
from ranges.management.rangejob_cli.facts import FAILURE_COLOURS
from ranges.management.rangejob_cli.options import find_run
from ranges.models import RangeFailure
from ranges.states import FailureState

HELP = "the keys, or small ranges, of a run that failed"


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("id", metavar="RUN", help="its id, or how that begins")
    parser.add_argument(
        "--state",
        choices=[state.value for state in FailureState],
        metavar="STATE",
        help="open, retried or waived; default: all",
    )
    parser.add_argument("--limit", type=int, default=50, metavar="N", help="at most so many (50)")
    parser.add_argument("--tracebacks", action="store_true", help="with their tracebacks")


def run(stdout: OutputWrapper, options: dict[str, Any]) -> None:
    if not 1 <= options["limit"] <= 10_000:
        raise CommandError("--limit: must be from 1 to 10,000")
    found = RangeFailure.objects.using(conf.get().database).filter(run=find_run(options["id"]))
    if options["state"] is not None:
        found = found.filter(state=options["state"])
    rows = list(found.order_by("id")[: options["limit"]])
    if options["json"]:
        print_json(stdout, {"failures": [_facts(row, options["tracebacks"]) for row in rows]})
    elif not rows:
        stdout.write("There are no such failures.")
    else:
        print_table(stdout, _table(rows))
        if options["tracebacks"]:
            for row in rows:
                stdout.write(f"\n{row.id}:")
                for line in row.traceback.splitlines():
                    stdout.write(shown(line).plain)


def _facts(row: RangeFailure, with_traceback: bool) -> dict[str, Any]:
    found = {
        "id": row.id,
        "key": row.key,
        "upto": row.upto or None,
        "items": row.items,
        "attempts": row.attempts,
        "error": row.error,
        "state": row.state,
        "reason": row.reason,
        "resolved_by": row.resolved_by,
        "created_at": row.created_at.isoformat(),
        "resolved_at": None if row.resolved_at is None else row.resolved_at.isoformat(),
    }
    return found | {"traceback": row.traceback} if with_traceback else found


def _table(rows: list[RangeFailure]) -> Table:
    made = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("id", "items", "attempts"):
        made.add_column(name, justify="right", no_wrap=True)
    made.add_column("keys", no_wrap=True)
    made.add_column("state", no_wrap=True)
    made.add_column("error", max_width=80)
    for row in rows:
        keys = f"{row.key} to before {row.upto}" if row.upto else row.key
        state = FailureState(row.state)
        made.add_row(
            str(row.id),
            f"{row.items:,}",
            str(row.attempts),
            shown(keys),
            Text(state.value, style=FAILURE_COLOURS[state]),
            shown((row.reason or row.error)[:160].replace("\n", " ")),
        )
    return made
