"""`manage.py jobs doctor`"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import OutputWrapper
from rich.table import Table
from rich.text import Text

from jobs.database import DjangoDatabase
from jobs.doctor import Level, examine
from jobs.management.arguments import print_json, print_table, shown

HELP = "look for what keeps jobs from running well; exits with 1 when it finds something"

COLOURS = {Level.ERROR: "bold red", Level.WARNING: "yellow"}


def add_arguments(_: ArgumentParser) -> None:
    pass


def run(stdout: OutputWrapper, options: dict[str, Any]) -> None:
    checks = examine(DjangoDatabase())
    found = sum(len(check.findings) for check in checks)
    if options["json"]:
        print_json(stdout, {"findings": found, "checks": [asdict(check) for check in checks]})
    else:
        table = Table(box=None, show_header=False, pad_edge=False)
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        for check in checks:
            if not check.findings:
                table.add_row(check.name, Text("ok", style="green"), "")
            for finding in check.findings:
                level = Text(finding.level.value, style=COLOURS[finding.level])
                table.add_row(check.name, level, shown(finding.message))
                table.add_row("", "", shown(f"→ {finding.advice}", "dim"))
        print_table(stdout, table)
    if found:
        sys.exit(1)
