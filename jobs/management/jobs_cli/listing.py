"""`manage.py jobs list`"""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import OutputWrapper

from jobs.listing import page
from jobs.management.arguments import print_json, print_table
from jobs.management.jobs_cli.facts import facts, table
from jobs.management.jobs_cli.filters import add_filters, filters

HELP = "the newest jobs, or those that the filters name"


def add_arguments(parser: ArgumentParser) -> None:
    add_filters(parser)
    parser.add_argument("--id", metavar="PREFIX", help="ids that begin so")
    parser.add_argument("--limit", type=int, default=20, metavar="N", help="at most so many (20)")
    parser.add_argument("--after", metavar="PLACE", help="go on where a page said")


def run(stdout: OutputWrapper, options: dict[str, Any]) -> None:
    found = page(filters(options), after=options["after"], limit=options["limit"])
    if options["json"]:
        rows = [facts(job, found.now) for job in found.jobs]
        print_json(stdout, {"jobs": rows, "next": found.next})
        return
    if not found.jobs:
        stdout.write("There are no such jobs.")
        return
    print_table(stdout, table(found.jobs, found.now))
    if found.next:
        stdout.write(f"More: --after {found.next}")
