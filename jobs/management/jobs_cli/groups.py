"""`manage.py jobs groups`: dead letters by type and kind of error."""

from __future__ import annotations

from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import OutputWrapper
from rich.table import Table

from jobs import deadletters
from jobs.database import DjangoDatabase
from jobs.management.arguments import print_json, print_table, shown

HELP = "dead letters by type and kind of error, the biggest groups first"


def add_arguments(parser: ArgumentParser) -> None:
    """It takes none of its own."""


def run(stdout: OutputWrapper, options: dict[str, Any]) -> None:
    found = deadletters.groups(DjangoDatabase())
    if options["json"]:
        groups = [_plain(group) for group in found.groups]
        print_json(stdout, {"groups": groups, "is_cut": found.is_cut})
    elif found.groups:
        print_table(stdout, _table(found.groups))
    else:
        stdout.write("There are no dead letters.")


def _plain(group: deadletters.Group) -> dict[str, Any]:
    times = {"first_at": group.first_at.isoformat(), "last_at": group.last_at.isoformat()}
    return asdict(group) | times


def _table(groups: list[deadletters.Group]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("count", justify="right")
    for name in ("type", "fingerprint", "last", "newest"):
        table.add_column(name, no_wrap=True)
    table.add_column("error", max_width=80)
    for group in groups:
        table.add_row(
            f"{group.count:,}{'+' if group.is_capped else ''}",
            shown(group.type),
            shown(group.error_fingerprint),
            f"{group.last_at:%Y-%m-%d %H:%M}",
            group.job_id,
            shown(group.error[:160].replace("\n", " ")),
        )
    return table
