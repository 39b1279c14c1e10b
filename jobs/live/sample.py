"""The stats that go out once a second, counted by one process for all.

Whoever gets the short lock in Redis counts and leaves the answer there for a while; the others take
it from there. So the database is asked once a second, however many web processes and clients there
are. Without Redis each process counts for itself, no more often.
"""

from __future__ import annotations

import json
import time
from threading import Lock
from typing import Any, cast

import redis
import structlog

from jobs import conf
from jobs.database import Database, DjangoDatabase
from jobs.live import stream
from jobs.stats import QueueStats, stats

KEY = "coppice:live:stats"
LOCK = "coppice:live:stats:lock"
EVERY_SECONDS = 1.0
KEPT_SECONDS = 60
NUMBERS = (
    "pending",
    "processing",
    "completed",
    "failed",
    "cancelled",
    "dlq",
    "total",
    "estimated",
    "states",
    "at_least",
)
MOST_QUEUES = 100
MOST_WORKERS = 200

# Those that live, as they say; who is dead or stopped is history.
WORKERS = """
SELECT id::text, name, state, extract(epoch FROM beat_at)::float8
FROM jobs_worker WHERE state IN ('running', 'draining') ORDER BY name, id LIMIT %(most)s
"""

_log = structlog.get_logger("coppice.live")


def shared(connection: redis.Redis) -> str | None:
    """The newest stats as JSON; None if nobody could count for a while. Raises Redis's errors."""
    if connection.set(conf.key(LOCK), "1", nx=True, px=int(EVERY_SECONDS * 1000)):
        text = _counted()
        if text is not None:
            connection.set(conf.key(KEY), text, ex=KEPT_SECONDS)
            return text
    found = cast("bytes | None", connection.get(conf.key(KEY)))
    return None if found is None else found.decode()


class _Own:
    """This process's own stats, for when Redis is away."""

    lock = Lock()
    text: str | None = None
    counted_at = float("-inf")


def own() -> str | None:
    """The stats without Redis's help, at most a second old."""
    with _Own.lock:
        if time.monotonic() - _Own.counted_at >= EVERY_SECONDS:
            _Own.text = _counted() or _Own.text
            _Own.counted_at = time.monotonic()
        return _Own.text


def newest() -> str | None:
    """From Redis if it is there, else counted here."""
    if stream.is_configured():
        try:
            return shared(stream.client())
        except stream.AWAY:
            pass
    return own()


def count(database: Database) -> dict[str, Any]:
    """The stats as they go out."""
    found = stats(database)
    queues = sorted(found.queues, key=_by_need)
    return {
        "at": round(time.time(), 3),
        **{name: getattr(found, name) for name in NUMBERS},
        "queues": [_queue(queue) for queue in queues[:MOST_QUEUES]],
        "queues_left_out": max(0, len(queues) - MOST_QUEUES),
        "workers": [
            {"id": id, "name": name, "state": state, "beat_at": round(beat_at, 3)}
            for id, name, state, beat_at in database.rows(WORKERS, {"most": MOST_WORKERS})
        ],
    }


def _queue(queue: QueueStats) -> dict[str, Any]:
    return {
        "name": queue.name,
        "depth": queue.depth,
        "is_capped": queue.is_capped,
        "oldest_wait_seconds": queue.oldest_wait_seconds,
        "paused": queue.paused,
    }


def _by_need(queue: QueueStats) -> tuple[bool, int, str]:
    return not queue.paused, -queue.depth, queue.name


def _counted() -> str | None:
    try:
        return json.dumps(count(DjangoDatabase()), separators=(",", ":"))
    except Exception as error:  # noqa: BLE001 - the feed goes on without numbers, whatever it was
        _log.warning("the stats of the live feed could not be counted", error=type(error).__name__)
        return None
