"""`manage.py jobs show`"""

from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import OutputWrapper
from rich.table import Table

from jobs.database import DjangoDatabase
from jobs.edges import blocked_by
from jobs.errors import NotFound
from jobs.lifecycle.rows import canonical
from jobs.management.arguments import print_json, print_table, shown
from jobs.management.jobs_cli.facts import facts, state_text
from jobs.masking import COMMAND_LINE
from jobs.models import Attempt, Job, JobLog
from jobs.reasons import why_not_running

HELP = "one job: how it stands and why, its attempts and its log"
LINES = 200

NOW = "SELECT extract(epoch FROM statement_timestamp())::float8"


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID")
    parser.add_argument("--tracebacks", action="store_true", help="with the attempts' tracebacks")


def run(stdout: OutputWrapper, options: dict[str, Any]) -> None:
    database = DjangoDatabase()
    id = canonical(options["id"])
    job = Job.objects.using(database.alias).filter(id=id).first() if id else None
    if job is None:
        raise NotFound("job", options["id"][:60])
    now = float(database.rows(NOW, {})[0][0])
    attempts = list(Attempt.objects.using(database.alias).filter(job=job).order_by("lease_epoch"))
    # The newest lines, oldest of them first.
    logs = list(JobLog.objects.using(database.alias).filter(job=job).order_by("-id")[:LINES])[::-1]
    reasons = why_not_running(database, job, now)
    if options["json"]:
        print_json(stdout, _json(database, job, now, reasons, attempts, logs))
        return
    print_table(stdout, _columns(job, now, reasons))
    if attempts:
        stdout.write("\nAttempts")
        print_table(stdout, _attempts(attempts))
        if options["tracebacks"]:
            for attempt in attempts:
                if attempt.traceback:
                    stdout.write(f"\nAttempt {attempt.number}")
                    for line in attempt.traceback.splitlines():
                        stdout.write(shown(line).plain)
    if logs:
        stdout.write("\nLog" if len(logs) < LINES else f"\nLog (the last {LINES} lines)")
        print_table(stdout, _logs(logs))


def _columns(job: Job, now: float, reasons: list[str]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("id", str(job.id))
    table.add_row("state", state_text(job, now))
    for reason in reasons:
        table.add_row("why", shown(reason, "yellow"))
    hidden = {"id", "state", "status", "last_error", "hold_reason", "unmet_dependencies"}
    for name, value in facts(job, now).items():
        if name not in hidden and value not in (None, ""):
            table.add_row(name.removesuffix("_id").replace("_", " "), shown(value))
    table.add_row("payload", shown(_text(COMMAND_LINE.value(job.type, job.payload))))
    if job.metadata:
        table.add_row("metadata", shown(_text(COMMAND_LINE.value(job.type, job.metadata))))
    if job.result is not None:
        table.add_row("result", shown(_text(COMMAND_LINE.value(job.type, job.result))))
    for line in job.last_error.splitlines()[:10]:
        table.add_row("error", shown(line, "red"))
    return table


def _attempts(attempts: list[Attempt]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("attempt", "outcome", "started", "took", "worker", "error"):
        table.add_column(name, overflow="fold")
    for attempt in attempts:
        took = (attempt.finished_at - attempt.started_at).total_seconds()
        table.add_row(
            str(attempt.number),
            attempt.outcome,
            f"{attempt.started_at:%Y-%m-%d %H:%M:%S}",
            f"{took:.3f} s",
            str(attempt.worker_id or ""),
            shown(attempt.error.replace("\n", " ")),
        )
    return table


def _logs(logs: list[JobLog]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for log in logs:
        moved = log.to_status if log.to_status != log.from_status else ""
        table.add_row(
            f"{log.at:%Y-%m-%d %H:%M:%S.%f}"[:-3],
            shown(log.event if not moved else f"{log.event} → {moved}"),
            shown(log.message.replace("\n", " ")),
        )
    return table


def _json(
    database: DjangoDatabase,
    job: Job,
    now: float,
    reasons: list[str],
    attempts: list[Attempt],
    logs: list[JobLog],
) -> dict[str, Any]:
    blockers = blocked_by(database, [str(job.id)]).get(str(job.id), [])
    return {
        **facts(job, now),
        "reasons": reasons,
        "payload": COMMAND_LINE.value(job.type, job.payload),
        "metadata": COMMAND_LINE.value(job.type, job.metadata),
        "result": COMMAND_LINE.value(job.type, job.result),
        "blocked_by": [
            {"id": b.job_id, "type": b.type, "status": b.status, "kind": b.kind} for b in blockers
        ],
        "attempts": [
            {
                "number": a.number,
                "lease_epoch": a.lease_epoch,
                "outcome": a.outcome,
                "worker_id": None if a.worker_id is None else str(a.worker_id),
                "started_at": a.started_at.isoformat(),
                "finished_at": a.finished_at.isoformat(),
                "error": a.error,
                "traceback": a.traceback,
            }
            for a in attempts
        ],
        "logs": [
            {
                "at": log.at.isoformat(),
                "event": log.event,
                "from": log.from_status,
                "to": log.to_status,
                "attempt": log.attempt,
                "level": log.level,
                "message": log.message,
                "data": log.data,
            }
            for log in logs
        ],
    }


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
