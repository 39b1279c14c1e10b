"""Where a city lies, and how far its clocks are from UTC. Pure: the work that the jobs do."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from zoneinfo import ZoneInfo

from examples.geonames import geohash

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
"""The moment that the demo asks about; any other would do."""


@dataclass(frozen=True, slots=True)
class Location:
    utc_offset_minutes: int
    geohash: str


def locate(latitude: float, longitude: float, time_zone: str, at: datetime) -> Location:
    return Location(utc_offset_minutes(time_zone, at), geohash.encode(latitude, longitude))


@lru_cache(maxsize=4_096)
def utc_offset_minutes(time_zone: str, at: datetime) -> int:
    """By how many minutes local clocks are ahead of UTC at that moment."""
    offset = at.astimezone(ZoneInfo(time_zone)).utcoffset()
    assert offset is not None
    return round(offset.total_seconds() / 60)
