"""`manage.py enqueue TYPE`: create one job and print its id."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from jobs import enqueue
from jobs.drafts import refuse_internal
from jobs.management.arguments import (
    PAYLOAD_HELP,
    as_moment,
    given,
    print_json,
    read_json,
    refusals,
)

FIELDS = {
    "priority": "priority",
    "queue": "queue",
    "depends_on": "depends_on",
    "unique_key": "unique_key",
    "recur_interval": "every",
    "cron": "cron",
    "time_zone": "tz",
    "max_attempts": "max_attempts",
    "on_parent_failure": "on_parent_failure",
}


class Command(BaseCommand):
    help = "Create a job and print its id. Exits with 1 when a value is refused."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("type", metavar="TYPE", help="a registered job type")
        parser.add_argument("--payload", metavar="JSON", help=PAYLOAD_HELP)
        parser.add_argument("--metadata", metavar="JSON", help=f"an object; {PAYLOAD_HELP}")
        parser.add_argument("--priority", type=int, metavar="N", help="1 high, 2 medium, 3 low")
        parser.add_argument(
            "--at", metavar="TIME", help="ISO 8601 with an offset, or Unix milliseconds"
        )
        parser.add_argument("--queue", metavar="NAME")
        parser.add_argument(
            "--depends-on",
            action="append",
            metavar="ID",
            help="wait until that job is completed; may be given again",
        )
        parser.add_argument(
            "--on-parent-failure",
            metavar="WHAT",
            help="when a job it waits for fails: wait (default), cancel or run",
        )
        parser.add_argument("--unique-key", metavar="KEY", help="at most one live job has this key")
        parser.add_argument("--max-attempts", type=int, metavar="N")
        parser.add_argument(
            "--every", metavar="INTERVAL", help="repeat, say every_5_minutes or every_2_hours"
        )
        parser.add_argument("--cron", metavar="EXPRESSION", help="repeat: five fields, or @daily")
        parser.add_argument("--tz", metavar="ZONE", help="for --cron, say Europe/Berlin")
        parser.add_argument("--json", action="store_true", help="print the job as JSON")

    def handle(self, *_: Any, **options: Any) -> None:
        payload = read_json(options["payload"], "--payload")
        fields = given(options, FIELDS)
        if options["metadata"] is not None:
            fields["metadata"] = read_json(options["metadata"], "--metadata")
        if options["at"] is not None:
            fields["scheduled_at"] = as_moment(options["at"])
        with refusals():
            refuse_internal(type=options["type"], metadata=fields.get("metadata"))
            job = enqueue(options["type"], payload, **fields)
        if options["json"]:
            print_json(
                self.stdout,
                {
                    "id": str(job.id),
                    "type": job.type,
                    "queue": job.queue,
                    "status": str(job.status),
                    "priority": job.priority,
                    "scheduled_at": job.scheduled_at.isoformat(),
                    "unmet_dependencies": job.unmet_dependencies,
                },
            )
        else:
            self.stdout.write(str(job.id))
