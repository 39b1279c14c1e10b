"""`manage.py jobs prune`: what the leading worker does by itself, at once."""

from __future__ import annotations

from argparse import ArgumentParser
from dataclasses import replace
from typing import Any

from django.core.management.base import CommandError, OutputWrapper

from jobs import conf, pruning, retention
from jobs.database import DjangoDatabase
from jobs.management.arguments import print_json

HELP = "delete completed and cancelled jobs that are older than the retention; never dead letters"


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--days", type=float, metavar="N", help="instead of COPPICE_RETENTION_DAYS")


def run(stdout: OutputWrapper, options: dict[str, Any]) -> None:
    settings = conf.get()
    if options["days"] is not None:
        if not options["days"] > 0:
            raise CommandError("--days: must be more than 0")
        settings = replace(settings, retention_days=options["days"])
    if settings.retention_days <= 0:
        raise CommandError("jobs are kept for ever (COPPICE_RETENTION_DAYS=0): give --days")
    database = DjangoDatabase()
    deleted = {
        "jobs": retention.run_pass(database, settings),
        **pruning.prune(database, settings),
    }
    if options["json"]:
        print_json(stdout, deleted)
    else:
        stdout.write(
            f"Deleted {deleted.pop('jobs'):,} jobs older than {settings.retention_days:g} days."
        )
        for name, count in deleted.items():
            if count:
                stdout.write(f"Deleted {count:,} old rows of {name.replace('_', ' ')}.")
