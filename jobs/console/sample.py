"""The numbers that every page shows, read once a second by one process and shared by the cache.

    @sample.part("runs")
    def runs() -> dict[str, Any]: ...      # plain JSON values, bounded work

Fifty open pages cost the database as much as one. Without a cache that is shared each process
reads for itself, as often. A part that fails is missing from the sample, which is then said.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from threading import Lock
from typing import Any

import structlog
from django.core.cache import cache
from django.db import DatabaseError

from jobs import conf, version
from jobs.live import positions, stream
from jobs.live.sample import newest

KEY = "coppice:console:sample"
READING = "coppice:console:sampling"
FRESH_SECONDS = 1.0
OLD_SECONDS = 5.0
"""A sample older than this is shown as of its time."""
KEPT_SECONDS = 60
SLOW_SECONDS = 0.5
ALONE_SECONDS = 15.0
"""How long a process reads for itself after the cache has failed or dawdled."""

type Part = Callable[[], dict[str, Any]]

_parts: dict[str, Part] = {}
_log = structlog.get_logger("coppice.console")


class _Here:
    """The last sample that this process knows."""

    value: dict[str, Any] | None = None
    alone_until = 0.0
    """Until then the cache is not asked."""
    lock = Lock()


def key(name: str) -> str:
    """In the cache. Of this version alone: during a deploy others may know answers of another form."""
    return conf.key(f"{name}:{version.ours()}")


def part(name: str) -> Callable[[Part], Part]:
    def decorate(read: Part) -> Part:
        _parts[name] = read
        return read

    return decorate


def current() -> dict[str, Any]:
    """The sample; `at` is when it was read, epoch seconds. At most a second old if all is well."""
    found = _Here.value
    if found is not None and _is_fresh(found):
        return found
    found = shared(lambda: cache.get(key(KEY))) or found
    if found is None or (not _is_fresh(found) and _may_read(found)):
        fresh = _read()
        shared(lambda: cache.set(key(KEY), fresh, KEPT_SECONDS))
        found = fresh
    _Here.value = found
    return found


def forget() -> None:
    """Read anew at the next look: after an action, and between tests."""
    _Here.value = None
    shared(lambda: cache.delete_many([key(KEY), key(READING)]))


def shared(ask: Callable[[], Any]) -> Any:
    """What the cache answers; None while it is away, or so slow that pages would feel it."""
    started = time.monotonic()
    if started < _Here.alone_until:
        return None
    try:
        answer = ask()
    except Exception as error:  # noqa: BLE001 - whatever the project's cache raises
        _log.warning("console.cache_away", error=type(error).__name__)
        answer = None
        _Here.alone_until = started + ALONE_SECONDS
    if time.monotonic() - started > SLOW_SECONDS:
        _Here.alone_until = time.monotonic() + ALONE_SECONDS
    return answer


def _is_fresh(found: dict[str, Any]) -> bool:
    return bool(0 <= time.time() - found["at"] < FRESH_SECONDS)


def _may_read(found: dict[str, Any]) -> bool:
    """One reader at a time; the others take the last sample, unless that is old."""
    if time.monotonic() < _Here.alone_until:
        return True
    return bool(shared(lambda: cache.add(key(READING), 1, timeout=1))) or _is_old(found)


def _is_old(found: dict[str, Any]) -> bool:
    return bool(time.time() - found["at"] > OLD_SECONDS)


def _read() -> dict[str, Any]:
    with _Here.lock:
        found: dict[str, Any] = {"at": time.time(), "missing": []}
        for name, read in _parts.items():
            try:
                found[name] = read()
            except DatabaseError:
                _log.exception("console.sample_failed", part=name)
                found["missing"].append(name)
        return found


@part("jobs")
def _jobs() -> dict[str, Any]:
    """What the live feed counts: pages and frames show the same numbers."""
    found: dict[str, Any] = json.loads(newest() or "{}")
    return found


@part("feed")
def _feed() -> dict[str, Any]:
    """Where the live feed stood: a page goes on from there, and nothing falls in between."""
    if not stream.is_configured():
        return {"seq": ""}
    try:
        return {"seq": positions.write(stream.end(stream.client()))}
    except stream.AWAY:
        return {"seq": ""}


def old_since(sample: dict[str, Any]) -> datetime | None:
    """When the numbers were read, if that is too long ago to pass for now."""
    at = sample.get("jobs", {}).get("at")
    if at is None or time.time() - at <= OLD_SECONDS:
        return None
    return datetime.fromtimestamp(at, UTC)


def stale_workers(sample: dict[str, Any]) -> int:
    """How many workers say that they work and show no sign of life."""
    found = sample.get("jobs", {})
    limit = conf.get().dead_after_seconds
    return sum(found["at"] - worker["beat_at"] > limit for worker in found.get("workers", []))


def paused_queues(sample: dict[str, Any]) -> int:
    return sum(queue["paused"] for queue in sample.get("jobs", {}).get("queues", []))
