"""`manage.py unblock_login`: let those in at once who failed to sign in too often."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from jobs.management.arguments import refusals, shown
from jobs.security import tries


class Command(BaseCommand):
    help = "Forget failures to sign in. Exits with 1 if somebody named had none."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("who", metavar="WHO", nargs="*", help="a user's name, or an address")
        parser.add_argument("--all", action="store_true", help="everybody")

    def handle(self, *_: Any, **options: Any) -> None:
        if bool(options["who"]) == options["all"]:
            raise CommandError("name somebody, or give --all")
        with refusals():
            if options["all"]:
                self.stdout.write(f"Forgot the failures of {tries.release_all():,}.")
                return
            unknown = []
            for who in options["who"]:
                if tries.release(who):
                    self.stdout.write(f"{shown(who)} may try again at once.")
                else:
                    unknown.append(who)
        if unknown:
            raise CommandError(f"{', '.join(unknown)}: no failures are known")
