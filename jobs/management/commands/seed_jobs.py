"""`manage.py seed_jobs`: varied jobs to look at."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from rich.console import Console
from rich.table import Table

from jobs.errors import CoppiceError
from jobs.seeding import Seed, plan, plant

MOST = 10_000


class Command(BaseCommand):
    help = "Make varied jobs to look at: priorities, times, series, dependencies, failures."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--count", type=int, default=120, help="how many (default: 120)")
        parser.add_argument(
            "--random-seed", type=int, default=1, help="the same number makes the same jobs"
        )

    def handle(self, *_args: Any, count: int, random_seed: int, **_options: Any) -> None:
        if not 1 <= count <= MOST:
            raise CommandError(f"--count must be from 1 to {MOST:,}, not {count}")
        try:
            seeds = plan(count, random_seed)
            plant(seeds)
        except CoppiceError as error:
            raise CommandError(str(error)) from error
        width = None if self.stdout.isatty() else 100
        Console(file=self.stdout, width=width).print(table(seeds))  # type: ignore[arg-type]


def table(seeds: Sequence[Seed]) -> Table:
    """What was made, by type and by what will become of it."""
    groups: dict[tuple[str, str], list[Seed]] = defaultdict(list)
    for seed in seeds:
        groups[seed.type, seed.expected].append(seed)
    found = Table(title=f"{len(seeds):,} jobs")
    for heading in ("type", "will be"):
        found.add_column(heading, no_wrap=True)
    for heading in ("jobs", "high", "medium", "low", "later", "series", "dependent"):
        found.add_column(heading, justify="right")
    for (type, expected), members in sorted(groups.items()):
        priorities = Counter(seed.priority for seed in members)
        numbers = (
            len(members),
            *(priorities[priority] for priority in (1, 2, 3)),
            sum(seed.due_in.total_seconds() > 0 for seed in members),
            sum(seed.recurs for seed in members),
            sum(bool(seed.depends_on) for seed in members),
        )
        found.add_row(type, expected, *(f"{number:,}" if number else "" for number in numbers))
    return found
