"""Every setting of Coppice: its name, its default, and what it means.

Each field is the Django setting `COPPICE_<NAME>`, read once, converted from text where it came
from the environment, and validated together. `docs/operating.md` has the same table.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import lru_cache
from math import isfinite
from typing import Any

from django.conf import settings as django_settings
from django.core.signals import setting_changed

from jobs.addresses import parse_networks, parse_proxies
from jobs.errors import SettingsError


@dataclass(frozen=True, kw_only=True)
class Settings:
    database: str = "default"
    """The Django database alias that holds the jobs."""
    database_direct_url: str = ""
    """A connection that does not pass through a transaction pooler, for LISTEN and sessions."""
    redis_url: str = ""
    """Where live events go; empty: nowhere."""
    redis_prefix: str = ""
    """What the names of our keys in Redis and in the cache begin with, where projects share one."""

    max_attempts: int = 3
    """Attempts of a job whose handler does not say."""
    timeout_seconds: float = 0.0
    """Time-out of an attempt whose handler does not say; 0: none."""
    max_payload_bytes: int = 1_048_576
    """Largest payload, metadata or result, as UTF-8 JSON."""
    max_wait_rounds: int = 1_000
    """How often one job may answer WaitFor before that counts as a failure."""

    aging_minutes: float = 10.0
    """Minutes of waiting after which a job gains one aging step; 0: strict priority."""
    aging_step: float = 0.5
    """How much priority one aging step is worth."""

    poll_seconds: float = 1.0
    """How often an idle worker looks for work without being woken."""
    prefetch_seconds: float = 0.05
    """How much work beyond the free slots a worker may hold, measured in its handlers' time."""
    prefetch_max: int = 2_000
    """The most jobs a worker process holds that have not started."""
    batch_rows: int = 500
    """The most outcomes that one completing transaction writes."""
    batch_seconds: float = 0.005
    """The longest that an outcome waits for others to share its transaction."""
    grace_seconds: float = 5.0
    """How long a handler may go on after its time-out before its slot is given up."""
    hung_seconds: float = 600.0
    """How long a child process may show no pulse, without an overdue job, before it is replaced."""

    beat_seconds: float = 2.0
    """How often a supervisor says that its children live."""
    dead_after_seconds: float = 15.0
    """How long a beat must stand still under observation before a worker is called dead."""
    lock_free_seconds: float = 3.0
    """The same, when the worker's session lock is free as well."""

    retention_days: float = 7.0
    """How long completed and cancelled jobs are kept, with attempts and logs; 0: for ever."""
    retention_batch: int = 1_000
    """The most jobs that one retention statement deletes."""
    audit_days: float = 365.0
    """How long the audit keeps what people did; 0: for ever."""
    unknown_type_alert_seconds: float = 60.0
    """How long a due job may wait for a worker that knows its type before an alert is raised."""
    unknown_type_after: float = 0.0
    """Seconds after which such a job is dead-lettered; 0: never."""
    dead_letter_alert: int = 100
    """How many dead letters raise an alert; 0: none."""
    event_queue: int = 10_000
    """The most events that wait for Redis in one process; more are dropped and counted."""

    live_connections: int = 500
    """The most sockets and event streams of one web process."""
    live_connections_per_user: int = 20
    """The same for one user."""
    live_recheck_seconds: float = 60.0
    """How often it is asked whether a live connection may go on."""
    environment: str = ""
    """The tag in the console's header, such as production (red) or staging (amber); empty: none."""

    trusted_proxies: str = ""
    """Proxies whose word about a client's address counts: addresses, networks, unix."""
    max_request_bytes: int = 33_554_432
    """Largest body of a request."""
    api_reads_per_minute: int = 6_000
    """Requests of one user that read, over the API; 0: as many as they like."""
    api_writes_per_minute: int = 6_000
    """The same for requests that change one thing."""
    api_bulk_per_minute: int = 120
    """The same for requests that make or change many jobs."""
    ready_needs: str = ""
    """What /readyz insists on beside the database: redis, worker, or both with a comma."""
    metrics_token: str = ""
    """Lets a scraper read /metrics with Authorization: Bearer; empty: API tokens only."""
    webhook_allow: str = ""
    """Networks that webhooks may reach although they are private, over http too: 10.0.0.0/8."""

    @property
    def needs(self) -> list[str]:
        """What `ready_needs` names."""
        return [need.strip() for need in self.ready_needs.split(",") if need.strip()]


MOST_ATTEMPTS = 1_000
NEEDS = ("redis", "worker")
SHORTEST_TOKEN = 20
# What every cache takes in a key.
_PREFIX = re.compile(r"[A-Za-z0-9_.:{}-]{0,100}")

_MINIMUM: dict[str, float] = {
    "max_attempts": 1,
    "timeout_seconds": 0,
    "max_payload_bytes": 1_024,
    "max_wait_rounds": 1,
    "aging_minutes": 0,
    "aging_step": 0,
    "poll_seconds": 0.05,
    "prefetch_seconds": 0,
    "prefetch_max": 1,
    "batch_rows": 1,
    "batch_seconds": 0,
    "grace_seconds": 0,
    "hung_seconds": 1,
    "beat_seconds": 0.05,
    "dead_after_seconds": 0.2,
    "lock_free_seconds": 0.2,
    "retention_days": 0,
    "retention_batch": 1,
    "audit_days": 0,
    "unknown_type_alert_seconds": 1,
    "unknown_type_after": 0,
    "dead_letter_alert": 0,
    "event_queue": 1,
    "live_connections": 1,
    "live_connections_per_user": 1,
    "live_recheck_seconds": 0.1,
    "max_request_bytes": 1_024,
    "api_reads_per_minute": 0,
    "api_writes_per_minute": 0,
    "api_bulk_per_minute": 0,
}


@lru_cache(maxsize=1)
def get() -> Settings:
    """The settings in force. Raises SettingsError naming every wrong one."""
    return load(lambda name: getattr(django_settings, name, None))


def key(name: str) -> str:
    """The name of a key of ours in Redis and in the cache."""
    return get().redis_prefix + name


def load(read: Callable[[str], Any]) -> Settings:
    """Build and validate settings from a reader of `COPPICE_*` names; None means the default."""
    values: dict[str, Any] = {}
    problems: list[str] = []
    for field in fields(Settings):
        key = f"COPPICE_{field.name.upper()}"
        given = read(key)
        if given is None:
            continue
        try:
            values[field.name] = _convert(given, type(field.default))
        except (TypeError, ValueError):
            kind = {int: "a whole number", float: "a number"}.get(type(field.default), "text")
            problems.append(f"{key}={given!r} must be {kind}")
    settings = Settings(**values)
    problems += _problems(settings)
    if problems:
        raise SettingsError("; ".join(problems))
    return settings


def _convert(given: Any, kind: type) -> Any:
    if kind is str:
        if not isinstance(given, str):
            raise TypeError
        return given
    if isinstance(given, bool):
        raise TypeError
    value = float(given)
    if not isfinite(value):
        raise ValueError
    if kind is int:
        if value != int(value):
            raise ValueError
        return int(value)
    return value


def _problems(settings: Settings) -> list[str]:
    problems = [
        f"COPPICE_{name.upper()}={getattr(settings, name)!r} must be at least {least:g}"
        for name, least in _MINIMUM.items()
        if getattr(settings, name) < least
    ]
    if settings.max_attempts > MOST_ATTEMPTS:
        problems.append(
            f"COPPICE_MAX_ATTEMPTS={settings.max_attempts} must be at most {MOST_ATTEMPTS:,}"
        )
    for name in ("dead_after_seconds", "lock_free_seconds"):
        # A beat that comes late once, or is lost once, must not look like death.
        needed = settings.beat_seconds * (3 if name == "dead_after_seconds" else 1)
        if getattr(settings, name) < needed:
            problems.append(
                f"COPPICE_{name.upper()}={getattr(settings, name):g} must be at least {needed:g}, "
                f"as COPPICE_BEAT_SECONDS is {settings.beat_seconds:g}"
            )
    if not set(settings.needs) <= {*NEEDS}:
        problems.append(
            f"COPPICE_READY_NEEDS={settings.ready_needs!r} must name redis, worker, or both"
        )
    if not _PREFIX.fullmatch(settings.redis_prefix):
        problems.append(
            f"COPPICE_REDIS_PREFIX={settings.redis_prefix!r} must have at most 100 letters, digits "
            "and _.:{}-"
        )
    if settings.metrics_token and len(settings.metrics_token) < SHORTEST_TOKEN:
        # Not with its value: it is a secret.
        problems.append(f"COPPICE_METRICS_TOKEN must have at least {SHORTEST_TOKEN} characters")
    try:
        parse_proxies(settings.trusted_proxies)
    except ValueError as error:
        problems.append(
            f"COPPICE_TRUSTED_PROXIES has {str(error)!r}, which must be an address, a network like "
            "10.0.0.0/8, or unix"
        )
    try:
        parse_networks(settings.webhook_allow)
    except ValueError as error:
        problems.append(
            f"COPPICE_WEBHOOK_ALLOW has {str(error)!r}, which must be an address or a network like "
            "10.0.0.0/8"
        )
    return problems


def _forget(*, setting: str, **_: object) -> None:
    if setting.startswith("COPPICE_"):
        get.cache_clear()


setting_changed.connect(_forget, dispatch_uid="coppice-settings")
