"""`manage.py queues`: list, pause, resume."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from rich.table import Table
from rich.text import Text

from jobs import lifecycle, queues
from jobs.database import DjangoDatabase
from jobs.doctor.findings import age
from jobs.management.arguments import as_moment, print_json, print_table, refusals, shown
from jobs.queues import QueueFacts

BY = "manage.py"
NAMES = {"queue": "NAME", "until": "--until"}


class Command(BaseCommand):
    help = "Show queues, and pause and resume one. Exits with 1 when it is refused."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        actions.add_parser("list", help="how deep, how late and how fast each is")
        pausing = actions.add_parser("pause", help="let no worker claim from it")
        pausing.add_argument(
            "--until", metavar="TIME", help="when it goes on by itself; else when it is resumed"
        )
        pausing.add_argument("--reason", default="", metavar="TEXT", help="shown with the queue")
        resuming = actions.add_parser("resume", help="let workers claim from it again")
        for each in (pausing, resuming):
            each.add_argument("name", metavar="NAME")
        for each in actions.choices.values():
            each.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *_: Any, **options: Any) -> None:
        actions = {"list": self.list, "pause": self.pause, "resume": self.resume}
        with refusals(NAMES):
            actions[options["action"]](options)

    def list(self, options: dict[str, Any]) -> None:
        database = DjangoDatabase()
        found = queues.facts(database, queues.names(database))
        if options["json"]:
            print_json(self.stdout, [_plain(queue) for queue in found])
        elif found:
            print_table(self.stdout, _table(found))
        else:
            self.stdout.write("No queue holds anything.")

    def pause(self, options: dict[str, Any]) -> None:
        name = options["name"]
        until = as_moment(options["until"])
        changed = lifecycle.pause_queue(name, until=until, reason=options["reason"], by=BY)
        said = f"Paused {shown(name)}. What runs goes on."
        self._tell(said if changed else f"{shown(name)} was paused before.", options)

    def resume(self, options: dict[str, Any]) -> None:
        name = options["name"]
        changed = lifecycle.resume_queue(name, by=BY)
        said = f"{shown(name)} goes on." if changed else f"{shown(name)} was not paused."
        self._tell(said, options)

    def _tell(self, said: str, options: dict[str, Any]) -> None:
        if options["json"]:
            found = queues.one(DjangoDatabase(), options["name"], must_be_known=False)
            print_json(self.stdout, _plain(found))
        else:
            self.stdout.write(said)


def _plain(queue: QueueFacts) -> dict[str, Any]:
    found = asdict(queue)
    for name in ("changed_at", "paused_until"):
        found[name] = None if found[name] is None else found[name].isoformat()
    return found


def _table(found: list[QueueFacts]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("NAME", no_wrap=True)
    for title in ("READY", "LATER", "RUNNING", "OLDEST", "DONE/MIN", "FAILED/MIN", "WORKERS"):
        table.add_column(title, justify="right")
    table.add_column("PAUSED")
    for queue in found:
        table.add_row(
            shown(queue.name),
            f"{queue.depth:,}{'+' if queue.depth_is_capped else ''}",
            f"{queue.later:,}{'+' if queue.later_is_capped else ''}",
            f"{queue.running:,}",
            "" if queue.oldest_wait_seconds is None else age(queue.oldest_wait_seconds),
            f"{queue.completed_per_minute:,g}",
            f"{queue.failed_per_minute:,g}",
            str(queue.workers),
            _paused(queue),
        )
    return table


def _paused(queue: QueueFacts) -> Text:
    if not queue.paused:
        return Text()
    by = f" by {queue.changed_by}" if queue.changed_by else ""
    why = f": {queue.reason}" if queue.reason else ""
    end = f" until {queue.paused_until:%Y-%m-%d %H:%M:%S %Z}" if queue.paused_until else ""
    return shown(f"paused{end}{by}{why}", "yellow")
