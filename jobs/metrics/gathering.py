"""Reads all parts in turn, and keeps what they said for a second."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from threading import Lock

import structlog
from django.db import DatabaseError, InterfaceError, OperationalError
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector, CollectorRegistry

from jobs.database import Database, DjangoDatabase
from jobs.errors import TooBroad
from jobs.limits import limited
from jobs.metrics import modules

KEPT_SECONDS = 1.0
SECONDS = 3.0
"""The longest that a part may take."""

type Part = Callable[[Database], Iterable[Metric]]

_parts: dict[str, Part] = {}
_log = structlog.get_logger("coppice.metrics")


def part(name: str) -> Callable[[Part], Part]:
    """Have a function asked at each scrape."""

    def decorate(read: Part) -> Part:
        _parts[name] = read
        return read

    return decorate


class _Last:
    """What was read last in this process."""

    metrics: tuple[Metric, ...] = ()
    at = float("-inf")
    lock = Lock()


def exposition(accept: str) -> tuple[bytes, str]:
    """The metrics in the form that the client understands best, and its content type."""
    encode, content_type = choose_encoder(accept)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Kept(current()))
    return encode(registry), content_type


def current() -> tuple[Metric, ...]:
    """All metrics, read at most a second ago; one reads, and the others wait for it."""
    with _Last.lock:
        if time.monotonic() - _Last.at >= KEPT_SECONDS:
            _Last.metrics = tuple(_read())
            _Last.at = time.monotonic()
        return _Last.metrics


def forget() -> None:
    """Read anew at the next look: between tests."""
    _Last.at = float("-inf")


def _read() -> Iterator[Metric]:
    for module in modules:
        import_module(module)
    database = DjangoDatabase()
    incomplete = GaugeMetricFamily(
        "coppice_metrics_incomplete", "1: this part took too long, and is missing.", labels=["part"]
    )
    for name, read in _parts.items():
        started = time.monotonic()
        try:
            with limited(database, seconds=SECONDS):
                yield from list(read(database))
            missing = 0
        except (OperationalError, InterfaceError):
            raise  # the database is away: the scrape fails as a whole
        except (TooBroad, DatabaseError) as error:
            _log.warning(
                "metrics.part_left_out",
                part=name,
                error=type(error).__name__,
                seconds=round(time.monotonic() - started, 3),
            )
            missing = 1
        incomplete.add_metric([name], missing)
    yield incomplete


class _Kept(Collector):
    def __init__(self, metrics: tuple[Metric, ...]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics
