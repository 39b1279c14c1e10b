"""`/healthz`: this process lives. `/readyz`: it can do its work, or why not.

Both answer everybody, so neither says more than a sentence that could stand on a wall: no names, no
addresses, no texts of errors. What is asked is asked once a second, however many ask.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock
from typing import Any

import psycopg
import structlog
from django.db.migrations.loader import MigrationLoader
from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_safe

from jobs import conf
from jobs.database import DirectDatabase, django_conninfo
from jobs.errors import TryLater
from jobs.live import stream

KEPT_SECONDS = 1.0
OLD_SECONDS = 10.0
"""While somebody asks, the others are told what was found at most so long ago."""
CONNECT_SECONDS = 2
SESSION = ("SET statement_timeout = '2s'", "SET lock_timeout = '1s'")
OURS = ("jobs", "ranges")

READ_ONLY = "SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean"
APPLIED = "SELECT app, name FROM django_migrations WHERE app = ANY(%(apps)s)"
ALIVE = """
SELECT EXISTS (
    SELECT FROM jobs_worker WHERE state = 'running'
        AND beat_at > clock_timestamp() - %(dead_after)s * interval '1 second'
)
"""

_log = structlog.get_logger("coppice.health")


@dataclass(frozen=True, kw_only=True)
class Readiness:
    reasons: tuple[str, ...]
    """Why no request should be sent here."""
    warnings: tuple[str, ...]
    """What is wrong, but does not keep requests from being answered."""

    @property
    def is_ready(self) -> bool:
        return not self.reasons

    def as_json(self) -> dict[str, object]:
        return {
            "status": "ready" if self.is_ready else "not ready",
            "reasons": list(self.reasons),
            "warnings": list(self.warnings),
        }


@require_safe
def healthz(request: HttpRequest) -> JsonResponse:  # noqa: ARG001
    return _answer({"status": "ok"}, 200)


@require_safe
def readyz(request: HttpRequest) -> JsonResponse:  # noqa: ARG001
    found = current()
    return _answer(found.as_json(), 200 if found.is_ready else 503)


def _answer(body: dict[str, object], status: int) -> JsonResponse:
    return JsonResponse(body, status=status, headers={"Cache-Control": "no-store"})


class _Last:
    """What was found last in this process."""

    found: Readiness | None = None
    at = float("-inf")
    lock = Lock()


def current() -> Readiness:
    """How things are, found out at most a second ago; longer while somebody is finding out."""
    if _Last.found is not None and _age() < KEPT_SECONDS:
        return _Last.found
    is_known = _Last.found is not None and _age() < OLD_SECONDS
    if not _Last.lock.acquire(blocking=not is_known):
        assert _Last.found is not None
        return _Last.found
    try:
        if _Last.found is None or _age() >= KEPT_SECONDS:
            _Last.found = look()
            _Last.at = time.monotonic()
        return _Last.found
    finally:
        _Last.lock.release()


def forget() -> None:
    """Find out anew at the next look: between tests."""
    _Last.found = None
    _Last.at = float("-inf")


def look() -> Readiness:
    """Find out now."""
    database, worker = _database()
    found = {"database": database, "worker": worker, "redis": _redis()}
    fatal = {"database", *conf.get().needs}
    return Readiness(
        reasons=tuple(text for name, text in found.items() if text and name in fatal),
        warnings=tuple(text for name, text in found.items() if text and name not in fatal),
    )


def _database() -> tuple[str, str]:
    """What is wrong with the database, and with the workers as it knows them; empty: nothing.

    Over a connection of its own, which gives up soon: one of Django's could wait for minutes.
    """
    database = DirectDatabase(
        django_conninfo(), name="readyz", session=SESSION, connect_timeout=CONNECT_SECONDS
    )
    try:
        if database.rows(READ_ONLY, {})[0][0]:
            return "the database is read-only", ""
        applied = set(database.rows(APPLIED, {"apps": list(OURS)}))
        if missing := sum(_is_missing(key, applied) for key in _migrations()):
            return f"{missing} migrations are not applied: run manage.py migrate", ""
        dead_after = conf.get().dead_after_seconds
        lives = database.rows(ALIVE, {"dead_after": dead_after})[0][0]
        return "", "" if lives else "no worker is alive"
    except psycopg.errors.UndefinedTable:
        return "the database has no tables yet: run manage.py migrate", ""
    except (TryLater, psycopg.OperationalError, psycopg.InterfaceError):
        return "the database cannot be reached", ""
    except psycopg.Error as error:
        _log.warning("readyz.refused", error=type(error).__name__)
        return "the database refuses to be read", ""
    finally:
        database.close()


def _redis() -> str:
    if not stream.is_configured():
        return "Redis is not configured: there are no live events" if _is_asked_for() else ""
    try:
        stream.client().ping()
    except stream.AWAY:
        return "Redis cannot be reached: live events are dropped"
    return ""


def _is_asked_for() -> bool:
    return "redis" in conf.get().needs


@lru_cache(maxsize=1)
def _migrations() -> dict[tuple[str, str], list[tuple[str, str]]]:
    """Those that this code has, each with those that it replaces. They do not change meanwhile."""
    found = MigrationLoader(None).disk_migrations
    return {key: list(found[key].replaces) for key in found if key[0] in OURS}


def _is_missing(key: tuple[str, str], applied: set[Any]) -> bool:
    replaced = _migrations()[key]
    return key not in applied and not (replaced and applied.issuperset(replaced))


def _age() -> float:
    return time.monotonic() - _Last.at
