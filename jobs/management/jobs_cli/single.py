"""`manage.py jobs run-now`, `release`, `mark-lost` and `change`: of jobs named by their ids."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.core.management.base import CommandError, OutputWrapper

from jobs import audit, lifecycle
from jobs.errors import Conflict, NotFound
from jobs.lifecycle import Changed, Skipped
from jobs.management.arguments import PAYLOAD_HELP, as_moment, print_json, read_json

BY = "manage.py"
PLACE = ("priority", "queue", "at")


@dataclass(frozen=True, kw_only=True)
class Act:
    """Each job by itself: one that refuses keeps no other from it."""

    HELP: str
    done: str
    call: Callable[..., Any]

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("ids", nargs="+", metavar="ID")
        parser.add_argument("--reason", default="", metavar="TEXT", help="for the log")

    def run(self, stdout: OutputWrapper, options: dict[str, Any]) -> None:
        done, skipped = [], []
        with audit.as_one():
            for id in dict.fromkeys(options["ids"]):
                try:
                    self.call(id, by=BY, reason=options["reason"])
                except (Conflict, NotFound) as error:
                    skipped.append(Skipped(job_id=id, reason=str(error)))
                else:
                    done.append(id)
        _tell(stdout, Changed(done=tuple(done), skipped=tuple(skipped)), self.done, options)


class _Change:
    HELP = "change a pending job's priority, queue or time, or the payload of a dead letter"

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("id", metavar="ID")
        parser.add_argument("--priority", type=int, metavar="N", help="1 high, 2 medium, 3 low")
        parser.add_argument("--queue", metavar="QUEUE")
        parser.add_argument("--at", metavar="TIME", help="ISO 8601, or Unix milliseconds")
        parser.add_argument("--payload", metavar="JSON", help=PAYLOAD_HELP)
        parser.add_argument("--reason", default="", metavar="TEXT", help="for the log")

    def run(self, stdout: OutputWrapper, options: dict[str, Any]) -> None:
        by = {"by": BY, "reason": options["reason"]}
        moved = any(options[name] is not None for name in PLACE)
        if moved == (options["payload"] is not None):
            raise CommandError("give --payload, or some of --priority, --queue and --at")
        if not moved:
            payload = read_json(options["payload"], "--payload")
            lifecycle.edit_payload(options["id"], payload, **by)
            changed: tuple[str, ...] = ("payload",)
        else:
            changed = lifecycle.change(
                options["id"],
                priority=options["priority"],
                queue=options["queue"],
                scheduled_at=as_moment(options["at"]),
                **by,
            )
        if options["json"]:
            print_json(stdout, {"id": options["id"], "changed": list(changed)})
        elif changed:
            stdout.write(f"Changed {', '.join(changed)} of {options['id']}.")
        else:
            stdout.write("It was so before.")


def _tell(stdout: OutputWrapper, changed: Changed, done: str, options: dict[str, Any]) -> None:
    if options["json"]:
        skipped = [{"id": each.job_id, "reason": each.reason} for each in changed.skipped]
        print_json(stdout, {"done": list(changed.done), "skipped": skipped})
    else:
        stdout.write(changed.sentence(done))
    if not changed.done:
        raise CommandError(f"nothing was {done}")


RUN_NOW = Act(
    HELP="make scheduled, retrying or held jobs due at once",
    done="made due",
    call=lifecycle.run_now,
)
RELEASE = Act(
    HELP="let held jobs run: at their time, or at once", done="released", call=lifecycle.release
)
MARK_LOST = Act(
    HELP="take jobs away from a worker that is silent, or whose handler ignores its cancel",
    done="marked lost",
    call=lifecycle.mark_lost,
)
CHANGE = _Change()
