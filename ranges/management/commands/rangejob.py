"""`manage.py rangejob`: plan, create, start and watch runs over ranges of keys, and act on them."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any, Protocol

from django.core.management.base import BaseCommand, CommandParser, OutputWrapper

from jobs.management.arguments import refusals
from ranges.management.rangejob_cli import (
    acting,
    drawing,
    failures,
    listing,
    planning,
    showing,
    starting,
    verifying,
)
from ranges.management.rangejob_cli.options import NAMES


class Action(Protocol):
    """One action: a module, or an object for each of some that are alike."""

    @property
    def HELP(self) -> str: ...  # noqa: N802
    def add_arguments(self, parser: ArgumentParser, /) -> None: ...
    def run(self, stdout: OutputWrapper, options: dict[str, Any], /) -> None: ...


ACTIONS: dict[str, Action] = {
    "list": listing,
    "plan": planning,
    "create": starting.CREATE,
    "start": starting.START,
    "status": showing,
    "tree": drawing,
    "pause": acting.PAUSE,
    "force-pause": acting.FORCE_PAUSE,
    "resume": acting.RESUME,
    "cancel": acting.CANCEL,
    "retune": acting.RETUNE,
    "failures": failures,
    "retry-failed": acting.RETRY_FAILED,
    "waive": acting.WAIVE,
    "again": acting.AGAIN,
    "verify": verifying,
}


class Command(BaseCommand):
    help = "Run work over ranges of keys. Exits with 1 when something is refused or found."

    def add_arguments(self, parser: CommandParser) -> None:
        parsers = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        for name, action in ACTIONS.items():
            below = parsers.add_parser(name, help=action.HELP, description=action.HELP)
            action.add_arguments(below)
            below.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *_: Any, **options: Any) -> None:
        with refusals(NAMES):
            ACTIONS[options["action"]].run(self.stdout, options)
