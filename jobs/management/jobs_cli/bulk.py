"""`manage.py jobs bulk`: operations on all jobs that match, worked through by a worker."""

from __future__ import annotations

import argparse
import json
import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any

from django.core.management.base import CommandError, OutputWrapper
from rich.table import Table
from rich.text import Text

from jobs import bulk, conf
from jobs.doctor.findings import age
from jobs.filtering import NUMBERS, Filters
from jobs.management.arguments import OPTIONS, print_json, print_table, refusals, shown
from jobs.management.jobs_cli.facts import facts, table
from jobs.management.jobs_cli.filters import add_filters, filters
from jobs.models import BulkOperation

HELP = "act on all jobs that match filters, by a worker: list, show, start, pause, resume, abort"
BY = "manage.py"
COLOURS = {
    "running": "bold cyan",
    "paused": "yellow",
    "completed": "green",
    "aborted": "yellow",
    "failed": "bold red",
}
NAMES = {
    **OPTIONS,
    "type": "--type",
    "status": "--status",
    "state": "--state",
    "cap": "--most",
    "arguments": "--set-priority, --to-queue",
}
_AS_JSON = frozenset(
    {"payload", "recurring", "internal"}
    | {f"{side}_{name}" for side in ("min", "max") for name in NUMBERS}
)
"""Filters whose values are no text."""


def add_arguments(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="bulk_action", required=True, metavar="ACTION")

    def add(name: str, does: str) -> ArgumentParser:
        below = actions.add_parser(name, help=does, description=does)
        # The command's own --json comes before the name; here it may come after it.
        below.add_argument(
            "--json", action="store_true", default=argparse.SUPPRESS, help="print JSON"
        )
        return below

    listing = add("list", "the newest operations")
    listing.add_argument("--live", action="store_true", help="only those that have not ended")
    listing.add_argument("--limit", type=int, default=20, metavar="N", help="at most so many (20)")

    starting = add("start", "have an action done to all jobs that match")
    starting.add_argument("do", choices=bulk.ACTIONS, metavar="|".join(bulk.ACTIONS))
    add_filters(starting)
    starting.add_argument(
        "--where",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="any other filter of the API, such as failed_before=2026-01-31T00:00:00Z",
    )
    starting.add_argument("--set-priority", type=int, metavar="1|2|3", help="for change_priority")
    starting.add_argument("--to-queue", metavar="QUEUE", help="for move_queue")
    starting.add_argument("--most", type=int, metavar="N", help="change no more than so many")
    starting.add_argument("--reason", default="", metavar="TEXT", help="for the log and the audit")
    starting.add_argument(
        "--dry-run", action="store_true", help="show what it would change, and change nothing"
    )
    starting.add_argument("--yes", action="store_true", help="do not ask")
    starting.add_argument(
        "--follow", action="store_true", help="wait until it has ended; Ctrl-C leaves it running"
    )

    add("show", "one operation").add_argument("id", metavar="ID")
    for name, does in (
        ("pause", "stop an operation after the batch in hand"),
        ("resume", "go on behind the last batch"),
        ("abort", "end an operation after the batch in hand"),
    ):
        changing = add(name, does)
        changing.add_argument("id", metavar="ID")
        changing.add_argument("--reason", default="", metavar="TEXT", help="for the audit")


def run(stdout: OutputWrapper, options: dict[str, Any]) -> None:
    with refusals(NAMES):
        _RUN[options["bulk_action"]](stdout, options)


def _list(stdout: OutputWrapper, options: dict[str, Any]) -> None:
    if not 1 <= options["limit"] <= 1_000:
        raise CommandError("--limit: must be from 1 to 1,000")
    found = BulkOperation.objects.using(conf.get().database).all()
    if options["live"]:
        found = found.filter(status__in=["pending", "running", "paused"])
    rows = [bulk.as_json(operation) for operation in found[: options["limit"]]]
    if options["json"]:
        print_json(stdout, rows)
    elif rows:
        print_table(stdout, _table(rows))
    else:
        stdout.write("There are no bulk operations.")


def _show(stdout: OutputWrapper, options: dict[str, Any]) -> None:
    _print(stdout, bulk.get(options["id"]), options)


def _start(stdout: OutputWrapper, options: dict[str, Any]) -> None:
    action, chosen = options["do"], _filters(options)
    if options["dry_run"]:
        _preview(stdout, action, chosen, options)
        return
    if not options["yes"]:
        _ask(action, chosen)
    arguments = {"priority": options["set_priority"], "queue": options["to_queue"]}
    operation = bulk.create(
        action,
        chosen,
        arguments={name: value for name, value in arguments.items() if value is not None},
        cap=options["most"],
        reason=options["reason"],
        by=BY,
    )
    if options["follow"]:
        operation = _follow(stdout, operation)
    _print(stdout, operation, options)


def _change(call: Callable[..., BulkOperation]) -> Callable[..., None]:
    def change(stdout: OutputWrapper, options: dict[str, Any]) -> None:
        _print(stdout, call(options["id"], by=BY, reason=options["reason"]), options)

    return change


_RUN: dict[str, Callable[[OutputWrapper, dict[str, Any]], None]] = {
    "list": _list,
    "show": _show,
    "start": _start,
    "pause": _change(bulk.pause),
    "resume": _change(bulk.resume),
    "abort": _change(bulk.abort),
}


def _filters(options: dict[str, Any]) -> Filters:
    """Those with an option of their own, and those of `--where`."""
    stored = filters(options).as_json()
    for text in options["where"]:
        name, is_pair, value = text.partition("=")
        if not is_pair:
            raise CommandError(f"--where: {text!r} is not NAME=VALUE")
        stored[name] = _value(value) if name in _AS_JSON else value
    return Filters.from_json(stored)


def _value(text: str) -> Any:
    """What is no JSON stays text, and is refused by name."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _ask(action: str, chosen: Filters) -> None:
    if not sys.stdin.isatty():
        raise CommandError("nobody is here to be asked: say --yes")
    found = bulk.preview(action, chosen)
    answer = input(f"{action}: {_count(found)}, {found.in_words}. Go on? [y/N] ")
    if answer.strip().lower() not in ("y", "yes"):
        raise CommandError("nothing was done")


def _preview(stdout: OutputWrapper, action: str, chosen: Filters, options: dict[str, Any]) -> None:
    found = bulk.preview(action, chosen)
    if options["json"]:
        print_json(
            stdout,
            {
                "action": found.action,
                "in_words": found.in_words,
                "count": found.count,
                "is_capped": found.is_capped,
                "oldest": None if found.oldest is None else found.oldest.isoformat(),
                "newest": None if found.newest is None else found.newest.isoformat(),
                "sample": [facts(job, found.now) for job in found.sample],
            },
        )
        return
    stdout.write(f"{action} would be done to {_count(found)}: {found.in_words}.")
    if found.oldest is not None and found.newest is not None:
        stdout.write(
            f"The oldest is of {_time(found.oldest)}, the newest of {_time(found.newest)}."
        )
        stdout.write("")
        print_table(stdout, table(found.sample, found.now))


def _count(found: bulk.Preview) -> str:
    if found.is_capped:
        return f"at least {found.count:,} jobs"
    return "1 job" if found.count == 1 else f"{found.count:,} jobs"


def _follow(stdout: OutputWrapper, operation: BulkOperation) -> BulkOperation:
    try:
        while operation.finished_at is None and operation.status != "paused":
            time.sleep(0.5)
            operation = bulk.get(operation.id)
            if stdout.isatty():
                stdout.write(f"{operation.status}: {operation.changed:,} changed")
    except KeyboardInterrupt:
        pass
    return bulk.get(operation.id)


def _print(stdout: OutputWrapper, operation: BulkOperation, options: dict[str, Any]) -> None:
    row = bulk.as_json(operation)
    if options["json"]:
        print_json(stdout, row)
        return
    made = Table(box=None, show_header=False, pad_edge=False)
    made.add_column(style="bold", no_wrap=True)
    made.add_column(overflow="fold")
    made.add_row("id", row["id"])
    made.add_row("action", shown(f"{row['action']}: {row['in_words']}"))
    for name, value in row["arguments"].items():
        made.add_row(name, shown(value))
    made.add_row("status", Text(row["status"], style=COLOURS.get(row["status"], "")))
    made.add_row("progress", _progress(row))
    for reason, count in row["skipped_reasons"].items():
        made.add_row("skipped", shown(f"{count:,}: {reason}"))
    for failure in row["failures"]:
        made.add_row("failed", shown(f"{failure['id']}: {failure['error']}", "red"))
    hidden = {"waits_for": "waits for", "error": "error", "reason": "reason", "cap": "at most"}
    for name, label in hidden.items():
        if row[name]:
            made.add_row(label, shown(row[name]))
    made.add_row("by", shown(row["created_by"]))
    for name in ("created_at", "started_at", "finished_at"):
        if row[name] is not None:
            made.add_row(name.removesuffix("_at"), row[name])
    print_table(stdout, made)


def _table(rows: list[dict[str, Any]]) -> Table:
    made = Table(box=None, pad_edge=False, header_style="bold")
    made.add_column("id", no_wrap=True)
    for name in ("action", "jobs", "status", "progress", "by", "created"):
        made.add_column(name, overflow="fold", max_width=60)
    for row in rows:
        made.add_row(
            row["id"],
            row["action"],
            shown(row["in_words"]),
            Text(row["status"], style=COLOURS.get(row["status"], "")),
            _progress(row),
            shown(row["created_by"]),
            row["created_at"][:19],
        )
    return made


def _progress(row: dict[str, Any]) -> str:
    parts = [f"{row['changed']:,} changed"]
    if row["share"] is None:
        parts.append(f"at least {row['matched']:,} matched")
    elif not row["matched_is_capped"]:
        parts[0] += f" of {row['matched']:,}"
    parts += [f"{row[name]:,} {name}" for name in ("skipped", "failed") if row[name]]
    if row["per_second"]:
        parts.append(f"{row['per_second']:,.0f} a second")
    if row["seconds_left"]:
        parts.append(f"{age(row['seconds_left'])} left")
    return ", ".join(parts)


def _time(moment: Any) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S %Z}"
