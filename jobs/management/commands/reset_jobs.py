"""`manage.py reset_jobs`: delete all jobs and what they left behind."""

from __future__ import annotations

import sys
from typing import Any

from django.apps import apps
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connections, transaction
from django.db.models import Model

from jobs import conf, events
from jobs.models import (
    Attempt,
    Job,
    JobDependency,
    JobLog,
    Leader,
    Queue,
    Rollup,
    Schedule,
    Total,
    Worker,
)

CLEARED = (Attempt, JobLog, JobDependency, Job, Schedule, Queue, Rollup, Total, Worker, Leader)
"""What work left behind. Accounts and configuration are not among it."""

DRIVEN_BY_JOBS = ("ranges",)
"""Apps whose tables mean nothing once the jobs that drive them are gone."""


class Command(BaseCommand):
    help = "Delete all jobs with their history, schedules, queues' pauses and counts."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--yes", action="store_true", help="do not ask")
        parser.add_argument("--force", action="store_true", help="although workers are running")

    def handle(self, *_args: Any, yes: bool, force: bool, **_options: Any) -> None:
        alias = conf.get().database
        jobs = Job.objects.using(alias).count()
        live = live_workers(alias)
        if live and not force:
            raise CommandError(f"{_many(live, 'worker')} running: stop them first, or give --force")
        if not yes:
            self._ask(f"Delete {_many(jobs, 'job')} and all history in {database_name(alias)}?")
        clear(alias)
        events.emit("jobs.reset")
        self.stdout.write(f"Deleted {_many(jobs, 'job')} and all history.")

    def _ask(self, question: str) -> None:
        if not sys.stdin.isatty():
            raise CommandError("nobody is there to confirm it: give --yes")
        self.stdout.write(f"{question} Type yes: ", ending="")
        self.stdout.flush()
        if sys.stdin.readline().strip().lower() != "yes":
            raise CommandError("nothing was deleted")


def clear(alias: str) -> None:
    """Empty the tables, all or none; gives up if somebody holds one for more than ten seconds."""
    models: list[type[Model]] = [*CLEARED]
    for label in DRIVEN_BY_JOBS:
        if apps.is_installed(label):
            models += apps.get_app_config(label).get_models()
    tables = ", ".join(f'"{model._meta.db_table}"' for model in models)  # noqa: SLF001 - a public name of Django's
    with transaction.atomic(using=alias), connections[alias].cursor() as cursor:
        cursor.execute("SET LOCAL lock_timeout = '10s'")
        cursor.execute(f"TRUNCATE {tables} RESTART IDENTITY")


def live_workers(alias: str) -> int:
    """Workers that have beaten lately; the row of a killed one may still say that it runs."""
    quiet = conf.get().dead_after_seconds
    with connections[alias].cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM jobs_worker WHERE state IN ('running', 'draining')"
            " AND beat_at > now() - %s * interval '1 second'",
            [quiet],
        )
        return int(cursor.fetchone()[0])


def database_name(alias: str) -> str:
    return str(connections[alias].settings_dict["NAME"])


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
