"""`manage.py jobs`: list, show, stats, act on some or on many, prune, doctor."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any, Protocol

from django.core.management.base import BaseCommand, CommandParser, OutputWrapper

from jobs.management.arguments import refusals
from jobs.management.jobs_cli import (
    acting,
    bulk,
    diagnosing,
    groups,
    listing,
    pruning,
    showing,
    single,
    statistics,
)


class Action(Protocol):
    """One action: a module, or an object for each of three that are alike."""

    @property
    def HELP(self) -> str: ...  # noqa: N802
    def add_arguments(self, parser: ArgumentParser, /) -> None: ...
    def run(self, stdout: OutputWrapper, options: dict[str, Any], /) -> None: ...


ACTIONS: dict[str, Action] = {
    "list": listing,
    "show": showing,
    "stats": statistics,
    "groups": groups,
    "cancel": acting.CANCEL,
    "retry": acting.RETRY,
    "purge": acting.PURGE,
    "run-now": single.RUN_NOW,
    "release": single.RELEASE,
    "mark-lost": single.MARK_LOST,
    "change": single.CHANGE,
    "bulk": bulk,
    "prune": pruning,
    "doctor": diagnosing,
}


class Command(BaseCommand):
    help = "Look at jobs and act on them. Exits with 1 when something is refused or found."

    def add_arguments(self, parser: CommandParser) -> None:
        parsers = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        for name, action in ACTIONS.items():
            below = parsers.add_parser(name, help=action.HELP, description=action.HELP)
            action.add_arguments(below)
            below.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *_: Any, **options: Any) -> None:
        with refusals():
            ACTIONS[options["action"]].run(self.stdout, options)
