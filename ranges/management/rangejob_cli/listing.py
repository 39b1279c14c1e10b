"""`manage.py rangejob list`"""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError, OutputWrapper
from rich.table import Table

from jobs import conf
from jobs.management.arguments import print_json, print_table, shown
from ranges import declaring
from ranges.facts import facts
from ranges.management.rangejob_cli.facts import status_text
from ranges.models import RangeRun
from ranges.progress import Progress, progress
from ranges.states import RunStatus

HELP = "the newest runs, or those that the filters name"


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--name", metavar="NAME", help="runs of this range job")
    parser.add_argument("--status", choices=[s.value for s in RunStatus], metavar="STATUS")
    parser.add_argument("--limit", type=int, default=20, metavar="N", help="at most so many (20)")
    parser.add_argument(
        "--jobs", action="store_true", help="the range jobs that this code declares"
    )


def run(stdout: OutputWrapper, options: dict[str, Any]) -> None:
    if not 1 <= options["limit"] <= 1_000:
        raise CommandError("--limit: must be from 1 to 1,000")
    if options["jobs"]:
        _list_jobs(stdout, options)
        return
    found = RangeRun.objects.using(conf.get().database).order_by("-id")
    if options["name"] is not None:
        found = found.filter(name=options["name"])
    if options["status"] is not None:
        found = found.filter(status=options["status"])
    rows = [(run, progress(run)) for run in found[: options["limit"]]]
    if options["json"]:
        runs = [facts(run) | {"progress": known.as_json()} for run, known in rows]
        print_json(stdout, {"runs": runs})
    elif rows:
        print_table(stdout, _table(rows))
    else:
        stdout.write("There are no such runs.")


def _list_jobs(stdout: OutputWrapper, options: dict[str, Any]) -> None:
    names = declaring.names()
    if options["json"]:
        print_json(stdout, {"jobs": names})
    else:
        stdout.write("\n".join(names) or "No installed app has a range_jobs.py that declares one.")


def _table(rows: list[tuple[RangeRun, Progress]]) -> Table:
    made = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("id", "job", "status"):
        made.add_column(name, no_wrap=True)
    for name in ("done", "rows", "failed"):
        made.add_column(name, justify="right", no_wrap=True)
    made.add_column("created", no_wrap=True)
    made.add_column("reason", max_width=60)
    for run, known in rows:
        made.add_row(
            str(run.id),
            shown(run.name),
            status_text(run.status),
            f"{known.percent:.1f} %",
            f"{known.rows:,}",
            f"{known.rows_failed:,}" if known.rows_failed else "",
            f"{run.created_at:%Y-%m-%d %H:%M:%S}",
            shown(run.reason[:120].replace("\n", " ")),
        )
    return made
