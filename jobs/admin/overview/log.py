"""What happened last, as lines: the end of the stream of live events."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from jobs import conf
from jobs.live import stream
from jobs.live.entries import Entry
from jobs.publishing import STREAM

LINES = 40
LOOKED_AT = 200
"""The most entries that are read to find them."""
SILENT = ("job.log", "job.progress", "stats.updated")
"""Too many to be read, and not sent to the overview."""

LEVELS = {
    "job.dlq_entry": "error",
    "worker.lost": "error",
    "type.unknown": "error",
    "alert.dead_letters": "error",
    "alert.schedule_overdue": "error",
    "range.failed": "error",
    "job.failed": "warning",
    "job.retry_scheduled": "warning",
    "job.cancelled": "warning",
    "job.purged": "warning",
    "queue.paused": "warning",
    "schedule.missed": "warning",
    "worker.stop_requested": "warning",
    "worker.quiet_requested": "warning",
    "jobs.reset": "warning",
    "range.partially_failed": "warning",
    "range.paused": "warning",
    "range.cancelled": "warning",
}
"""By the name of the event; all others are "info"."""

TOLD = ("name", "schedule", "status", "action", "error", "reason", "by")
"""The facts that a line tells, in this order, if the event has them. The page's script does the same."""


def newest(*, may_see: bool) -> list[dict[str, Any]] | None:
    """The newest first; empty where there is no feed; None when it cannot be read."""
    if not stream.is_configured():
        return []
    try:
        page: Any = stream.client().xrevrange(conf.key(STREAM), count=LOOKED_AT)
    except stream.AWAY:
        return None
    entries = (entry for entry in stream.decode(page) if isinstance(entry, Entry))
    told = [entry for entry in entries if is_told(entry.name)][:LINES]
    return [line(json.loads(entry.text(may_see=may_see))) for entry in told]


def is_told(name: str) -> bool:
    return name not in SILENT and not name.startswith("node.")


def line(event: dict[str, Any]) -> dict[str, Any]:
    """An event as it is shown."""
    facts = event["facts"]
    words = [str(facts[name]) for name in TOLD if facts.get(name)]
    return {
        "at": datetime.fromtimestamp(event["at"], UTC),
        "level": LEVELS.get(event["name"], "info"),
        "name": event["name"],
        "job_id": event["job_id"],
        "subject": event["type"] or event["queue"],
        "text": " · ".join(words)[:200],
    }
