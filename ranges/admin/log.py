"""What happened in a run lately: the end of the stream of live events."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from jobs import conf
from jobs.live import stream
from jobs.live.entries import Entry
from jobs.live.positions import write
from jobs.publishing import STREAM

LINES = 40
LOOKED_AT = 1_000
"""The most entries of the stream that are read to find them."""
PERIODIC = ("range.stats_updated", "range.metrics_updated")

LEVELS = {
    "range.failed": "error",
    "node.failed": "error",
    "node.stale": "warning",
    "node.retrying": "warning",
    "node.bisected": "warning",
    "node.fenced": "warning",
    "range.partially_failed": "warning",
    "range.paused": "warning",
    "range.cancelled": "warning",
}
TOLD = ("reason", "by", "lo", "hi", "error", "concurrency", "failures", "kind", "node_id")
"""The facts that a line tells, in this order, if the event has them."""


def newest(run_id: str, *, may_see: bool) -> list[dict[str, Any]] | None:
    """The newest first. None: there is no feed, or it cannot be read."""
    if not stream.is_configured():
        return None
    try:
        page: Any = stream.client().xrevrange(conf.key(STREAM), count=LOOKED_AT)
    except stream.AWAY:
        return None
    entries = [entry for entry in stream.decode(page) if isinstance(entry, Entry)]
    told = [
        entry
        for entry in entries
        if entry.facts.get("run_id") == run_id and entry.name not in PERIODIC
    ]
    return [_line(entry, may_see=may_see) for entry in told[:LINES]]


def _line(entry: Entry, *, may_see: bool) -> dict[str, Any]:
    event = json.loads(entry.text(may_see=may_see))
    facts = event["facts"]
    words = [
        f"{name.removesuffix('_id')} {facts[name]}"
        if name in ("node_id", "by", "kind")
        else str(facts[name])
        for name in TOLD
        if facts.get(name) not in (None, "")
    ]
    return {
        "place": write(entry.position),
        "at": datetime.fromtimestamp(event["at"], UTC),
        "level": LEVELS.get(event["name"], "info"),
        "name": event["name"],
        "text": " · ".join(words)[:240],
    }
