"""`manage.py workers`: list, show, quiet, resume, stop, recover, forget."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from rich.table import Table

from jobs import lifecycle, workers
from jobs.console.words import off
from jobs.database import DjangoDatabase
from jobs.doctor.findings import age, many
from jobs.management.arguments import print_json, print_table, refusals, shown
from jobs.workers import WorkerFacts, WorkerState

BY = "manage.py"
NAMES = {"worker": "WORKER"}
MOST = 1_000


class Command(BaseCommand):
    help = "Show worker processes, and what may be asked of one. Exits with 1 when it is refused."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        listing = actions.add_parser("list", help="those that live, or say so")
        listing.add_argument("--all", action="store_true", help="those that ended, too")
        actions.add_parser("show", help="one of them, and the jobs that it holds")
        actions.add_parser("quiet", help="let it claim nothing until it is resumed")
        actions.add_parser("resume", help="let it claim again")
        actions.add_parser("stop", help="let it finish what it runs and end, unreplaced")
        actions.add_parser("recover", help="declare a silent one dead, and take back its jobs")
        actions.add_parser("forget", help="delete the row of a dead one")
        for name, each in actions.choices.items():
            if name != "list":
                each.add_argument(
                    "worker", metavar="WORKER", help="its name, its id, or how that begins"
                )
            if name not in ("list", "show", "resume"):
                each.add_argument("--reason", default="", metavar="TEXT", help="for the audit")
            each.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *_: Any, **options: Any) -> None:
        acts: dict[str, Callable[[str, dict[str, Any]], str]] = {
            "quiet": _quiet,
            "resume": _resume,
            "stop": _stop,
            "recover": _recover,
            "forget": _forget,
        }
        database = DjangoDatabase()
        with refusals(NAMES):
            if options["action"] == "list":
                self.list(options)
                return
            id = workers.named(database, options["worker"])
            act = acts.get(options["action"])
            said = act(id, options) if act else ""
            if options["action"] == "forget":
                self._tell({"forgotten": id}, said, options)
                return
            found = workers.one(database, id)
            self._tell(_plain(found), said or _in_words(found), options)

    def list(self, options: dict[str, Any]) -> None:
        database = DjangoDatabase()
        if options["all"]:
            found = workers.listed(database, limit=MOST)
        else:
            found = workers.living(database, limit=MOST)
        if options["json"]:
            print_json(self.stdout, [_plain(worker) for worker in found])
        elif found:
            print_table(self.stdout, _table(found))
        else:
            self.stdout.write("No worker is running.")

    def _tell(self, facts: dict[str, Any], said: str, options: dict[str, Any]) -> None:
        if options["json"]:
            print_json(self.stdout, facts)
        else:
            self.stdout.write(said)


def _quiet(id: str, options: dict[str, Any]) -> str:
    asked = lifecycle.quiet_worker(id, reason=options["reason"], by=BY)
    return (
        "Asked to be quiet: it claims nothing until it is resumed." if asked else _before("quiet")
    )


def _resume(id: str, options: dict[str, Any]) -> str:  # noqa: ARG001
    return (
        "Asked to go on." if lifecycle.resume_worker(id, by=BY) else "It was not asked to be quiet."
    )


def _stop(id: str, options: dict[str, Any]) -> str:
    asked = lifecycle.stop_worker(id, reason=options["reason"], by=BY)
    return "Asked to stop: it finishes what it runs, and ends." if asked else _before("stop")


def _recover(id: str, options: dict[str, Any]) -> str:
    count = lifecycle.recover_worker(id, reason=options["reason"], by=BY)
    return f"It is declared dead, and {many(count, 'job')} taken back."


def _forget(id: str, options: dict[str, Any]) -> str:
    lifecycle.forget_worker(id, reason=options["reason"], by=BY)
    return "Forgotten."


def _before(what: str) -> str:
    return f"It had been asked to {'be ' if what == 'quiet' else ''}{what} before."


def _in_words(worker: WorkerFacts) -> str:
    lines = [
        f"{shown(worker.name)} ({worker.id})",
        f"  state     {_state(worker)}, last seen {age(worker.heartbeat_age_seconds)} ago",
        f"  host      {shown(worker.host)}, process {worker.pid}, version {shown(worker.version)}",
        f"  queues    {shown(', '.join(worker.queues) or 'all')}",
        f"  slots     {worker.busy} of {worker.concurrency} busy, {many(worker.held, 'job')} held",
        f"  clock     {_clock(worker)}",
    ]
    lines += [
        f"  runs      {shown(job.type)} {job.id} in {shown(job.queue)} for {age(job.seconds)}"
        + (", asked to stop" if job.cancelling else "")
        for job in worker.jobs
    ]
    return "\n".join(lines)


def _table(found: list[WorkerFacts]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("ID", "NAME", "STATE", "BUSY", "QUEUES", "LAST SEEN", "VERSION", "CLOCK"):
        table.add_column(title, no_wrap=title in ("ID", "NAME"))
    for worker in found:
        style = "red" if worker.state is WorkerState.STALE else ""
        table.add_row(
            worker.id,
            shown(worker.name),
            shown(_state(worker), style),
            f"{worker.busy}/{worker.concurrency}",
            shown(", ".join(worker.queues) or "all"),
            f"{age(worker.heartbeat_age_seconds)} ago",
            shown(worker.version),
            _clock(worker) if worker.telling_skew else "",
        )
    return table


def _state(worker: WorkerFacts) -> str:
    """What it does, and what it was asked to do."""
    asked = ""
    if worker.state in (WorkerState.RUNNING, WorkerState.STALE):
        if worker.stop_requested_at is not None:
            asked = ", asked to stop"
        elif worker.quiet_requested_at is not None:
            asked = ", quiet" if worker.quiet_at is not None else ", asked to be quiet"
    return f"{worker.state.value}{asked}"


def _clock(worker: WorkerFacts) -> str:
    skew = worker.telling_skew
    if worker.clock_skew_seconds is None:
        return "not measured"
    return off(skew) if skew else "as the database's"


def _plain(worker: WorkerFacts) -> dict[str, Any]:
    def plain(value: Any) -> Any:
        match value:
            case datetime():
                return value.isoformat()
            case dict():
                return {key: plain(each) for key, each in value.items()}
            case list():
                return [plain(each) for each in value]
            case _:
                return value

    found: dict[str, Any] = plain(asdict(worker))
    return found
