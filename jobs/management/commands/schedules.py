"""`manage.py schedules`: list, add, change, enable, disable, delete, run-now, skip-next, next."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.core.management.base import BaseCommand, CommandError, CommandParser
from rich.table import Table

from jobs import schedules
from jobs.database import DjangoDatabase
from jobs.management.arguments import (
    PAYLOAD_HELP,
    as_moment,
    given,
    print_json,
    print_table,
    read_json,
    refusals,
    shown,
)
from jobs.models import Schedule
from jobs.moments import parse_moment

FIELDS = {
    "recur_interval": "every",
    "cron": "cron",
    "time_zone": "tz",
    "queue": "queue",
    "priority": "priority",
    "max_attempts": "max_attempts",
    "misfire": "misfire",
    "allow_overlap": "overlap",
    "on_parent_failure": "on_parent_failure",
}
BY = "manage.py"


class Command(BaseCommand):
    help = "Show and change recurring jobs. Exits with 1 when a value is refused."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        listing = actions.add_parser("list", help="all schedules, or those of one type")
        listing.add_argument("--type", metavar="TYPE")
        adding = actions.add_parser("add", help="add a schedule")
        adding.add_argument("name", metavar="NAME", help="a name that no other schedule has")
        adding.add_argument("type", metavar="TYPE", help="a registered job type")
        adding.add_argument("--disabled", action="store_true", help="add it, but do not start it")
        changing = actions.add_parser("change", help="change what is given, leave the rest")
        changing.add_argument("name", metavar="NAME", help="name or id")
        changing.add_argument("--rename", metavar="NAME")
        changing.add_argument("--type", metavar="TYPE")
        coming = actions.add_parser(
            "next", help="the next runs of a schedule, or of a rule that is not stored"
        )
        coming.add_argument("name", metavar="NAME", nargs="?", help="name or id")
        coming.add_argument("--count", type=int, default=5, metavar="N", help="how many (5)")
        for each in (adding, changing, coming):
            _add_rule(each)
        for each in (adding, changing):
            _add_options(each)
        for action, what in (
            ("enable", "go on with the first slot from now on"),
            ("disable", "make no more jobs"),
            ("delete", "delete the schedule; its jobs stay"),
            ("run-now", "an extra job at once, outside the grid"),
            ("skip-next", "make no job for the next slot"),
        ):
            actions.add_parser(action, help=what).add_argument(
                "name", metavar="NAME", help="name or id"
            )
        for each in actions.choices.values():
            each.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *_: Any, **options: Any) -> None:
        actions = {
            "list": self.list,
            "add": self.add,
            "change": self.change,
            "enable": self.enable,
            "disable": self.disable,
            "delete": self.delete,
            "run-now": self.run_now,
            "skip-next": self.skip_next,
            "next": self.next,
        }
        with refusals():
            actions[options["action"]](options)

    def list(self, options: dict[str, Any]) -> None:
        found = Schedule.objects.using(DjangoDatabase().alias).order_by("name")
        if options["type"] is not None:
            found = found.filter(type=options["type"])
        rows = [_facts(schedule) for schedule in found]
        if options["json"]:
            print_json(self.stdout, rows)
        elif rows:
            print_table(self.stdout, _listing(rows))
        else:
            self.stdout.write("There are no schedules.")

    def add(self, options: dict[str, Any]) -> None:
        schedule = schedules.create(
            options["name"],
            options["type"],
            read_json(options["payload"], "--payload"),
            enabled=not options["disabled"],
            by=BY,
            **_fields(options),
        )
        self._tell("Added", schedule, options)

    def change(self, options: dict[str, Any]) -> None:
        changes = _fields(options)
        if options["payload"] is not None:
            changes["payload"] = read_json(options["payload"], "--payload")
        changes |= given(options, {"name": "rename", "type": "type"})
        if not changes:
            raise CommandError("nothing to change was given")
        self._tell("Changed", schedules.change(options["name"], by=BY, **changes), options)

    def enable(self, options: dict[str, Any]) -> None:
        self._tell("Enabled", schedules.enable(options["name"], by=BY), options)

    def disable(self, options: dict[str, Any]) -> None:
        self._tell("Disabled", schedules.disable(options["name"], by=BY), options)

    def delete(self, options: dict[str, Any]) -> None:
        schedule = schedules.get(options["name"])
        schedules.delete(schedule, by=BY)
        if options["json"]:
            print_json(self.stdout, {"deleted": str(schedule.id), "name": schedule.name})
        else:
            self.stdout.write(f"Deleted {shown(schedule.name)}.")

    def run_now(self, options: dict[str, Any]) -> None:
        job = schedules.run_now(options["name"], by=BY)
        if options["json"]:
            print_json(self.stdout, {"id": str(job.id), "type": job.type, "queue": job.queue})
        else:
            self.stdout.write(str(job.id))

    def skip_next(self, options: dict[str, Any]) -> None:
        self._tell("Skipped a run of", schedules.skip_next(options["name"], by=BY), options)

    def next(self, options: dict[str, Any]) -> None:
        rule = given(options, {"recur_interval": "every", "cron": "cron", "time_zone": "tz"})
        if options["start"] is not None:
            rule["anchor_at"] = as_moment(options["start"])
        if options["name"] is None:
            schedule = schedules.unsaved(**rule)
        elif rule:
            raise CommandError("give a NAME or a rule, not both")
        else:
            schedule = schedules.get(options["name"])
        runs = schedules.next_runs(schedule, options["count"])
        if options["json"]:
            print_json(
                self.stdout,
                {
                    "rule": schedules.describe(schedule),
                    "time_zone": schedule.time_zone,
                    "next_runs": [run.isoformat() for run in runs],
                },
            )
            return
        self.stdout.write(f"{shown(schedules.describe(schedule))}")
        if schedule.name and not schedule.enabled:
            self.stdout.write("The schedule is disabled. If it were enabled now, it would run at:")
        print_table(self.stdout, _runs(runs, schedule.time_zone))

    def _tell(self, what: str, schedule: Schedule, options: dict[str, Any]) -> None:
        if options["json"]:
            print_json(self.stdout, _facts(schedule))
            return
        words = f"{what} {shown(schedule.name)}: {shown(schedules.describe(schedule))}."
        if schedule.next_slot is not None:
            words += f" Next run: {_local(schedule.next_slot, schedule.time_zone)}."
        self.stdout.write(words)


def _add_rule(parser: CommandParser) -> None:
    parser.add_argument(
        "--every", metavar="INTERVAL", help="say every_5_minutes, every_1_hour or every_2_days"
    )
    parser.add_argument(
        "--cron", metavar="EXPRESSION", help="five fields, or an alias such as @daily"
    )
    parser.add_argument("--tz", metavar="ZONE", help="for --cron, say Europe/Berlin")
    parser.add_argument(
        "--from",
        dest="start",
        metavar="TIME",
        help="the first slot of an interval; with --cron no slot lies before it",
    )


def _add_options(parser: CommandParser) -> None:
    parser.add_argument("--payload", metavar="JSON", help=PAYLOAD_HELP)
    parser.add_argument("--metadata", metavar="JSON", help=f"an object; {PAYLOAD_HELP}")
    parser.add_argument("--queue", metavar="NAME")
    parser.add_argument("--priority", type=int, metavar="N", help="1 high, 2 medium, 3 low")
    parser.add_argument("--max-attempts", type=int, metavar="N")
    parser.add_argument(
        "--misfire",
        metavar="WHAT",
        help="slots that passed while nobody ran: once (default), skip or each",
    )
    overlap = parser.add_mutually_exclusive_group()
    overlap.add_argument(
        "--overlap",
        action="store_true",
        default=None,
        help="start a slot although the last one's job is still live",
    )
    overlap.add_argument("--no-overlap", dest="overlap", action="store_false", help="the default")
    parser.add_argument(
        "--on-parent-failure", metavar="WHAT", help="for its jobs: wait, cancel or run"
    )


def _fields(options: dict[str, Any]) -> dict[str, Any]:
    fields = given(options, FIELDS)
    if options["metadata"] is not None:
        fields["metadata"] = read_json(options["metadata"], "--metadata")
    if options["start"] is not None:
        fields["anchor_at"] = as_moment(options["start"])
    return fields


def _facts(schedule: Schedule) -> dict[str, Any]:
    """What `--json` prints: everything but the payload, which may be secret."""
    return {
        "id": str(schedule.id),
        "name": schedule.name,
        "type": schedule.type,
        "queue": schedule.queue,
        "priority": schedule.priority,
        "max_attempts": schedule.max_attempts,
        "rule": schedules.describe(schedule),
        "recur_interval": schedule.recur_interval,
        "cron": schedule.cron,
        "time_zone": schedule.time_zone,
        "anchor_at": _iso(schedule.anchor_at),
        "misfire": str(schedule.misfire),
        "allow_overlap": schedule.allow_overlap,
        "enabled": schedule.enabled,
        "last_slot": _iso(schedule.last_slot),
        "next_slot": _iso(schedule.next_slot),
        "missed_count": schedule.missed_count,
        "last_job_id": None if schedule.last_job_id is None else str(schedule.last_job_id),
        "last_error": schedule.last_error,
    }


def _listing(rows: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("NAME", "TYPE", "RUNS", "NEXT RUN", "LAST RUN"):
        table.add_column(title)
    table.add_column("MISSED", justify="right")
    table.add_column("STATE")
    for row in rows:
        state, style = ("on", "green") if row["enabled"] else ("off", "dim")
        if row["last_error"]:
            state, style = row["last_error"], "red"
        table.add_row(
            shown(row["name"]),
            shown(row["type"]),
            shown(row["rule"]),
            shown(_local(row["next_slot"], row["time_zone"])),
            shown(_local(row["last_slot"], row["time_zone"])),
            f"{row['missed_count']:,}",
            shown(state, style),
        )
    return table


def _runs(runs: list[datetime], zone: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(zone)
    if zone != "UTC":
        table.add_column("UTC")
    table.add_column("IN", justify="right")
    now = schedules.database_now()
    for run in runs:
        times = [_local(run, zone)] + ([_local(run, "UTC")] if zone != "UTC" else [])
        table.add_row(*times, _length(run - now))
    return table


def _local(moment: datetime | str | None, zone: str) -> str:
    """With the weekday and the offset of that day, or a dash."""
    if moment is None:
        return "-"
    try:
        place = ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        place = ZoneInfo("UTC")
    return f"{parse_moment(moment, 'moment').astimezone(place):%a %Y-%m-%d %H:%M:%S %z}"


def _length(length: timedelta) -> str:
    seconds = max(round(length.total_seconds()), 0)
    days, seconds = divmod(seconds, 86_400)
    hours, seconds = divmod(seconds, 3_600)
    minutes, seconds = divmod(seconds, 60)
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (seconds, "s")]
    said = [f"{number} {unit}" for number, unit in parts if number]
    return " ".join(said[:2]) or "now"


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()
