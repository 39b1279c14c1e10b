from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from examples.geonames import loading
from examples.geonames.models import City


class Command(BaseCommand):
    help = "Load the cities of the world. A second run changes only what differs."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--limit", type=int, metavar="N", help="only the N most populous")

    def handle(self, *_args: Any, limit: int | None, **_options: Any) -> None:
        changed = loading.load(limit)
        self.stdout.write(f"{City.objects.count():,} cities, {changed:,} of them new or changed.")
