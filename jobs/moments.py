"""Moments, lengths of time and zones, as callers give them. Pure: there is no clock in here."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from math import isfinite
from zoneinfo import ZoneInfo

from jobs.errors import InvalidInput

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
INSTANT = timedelta(microseconds=1)
"""The shortest time between two moments that differ."""
LONGEST_DURATION = timedelta(days=36_525)

_ISO_8601 = re.compile(r"[0-9TWZtwz:+., -]{1,40}")
_ZONE_NAME = re.compile(r"[A-Za-z0-9_+-]{1,30}(/[A-Za-z0-9_+-]{1,30}){0,2}")


def parse_moment(value: object, field: str) -> datetime:
    """An aware datetime, ISO 8601 text with an offset, or whole Unix milliseconds, as UTC.

    A time without an offset is refused: it would mean another instant on another machine.
    """
    try:
        if isinstance(value, str):
            if not _ISO_8601.fullmatch(value):  # the parser lets some odd endings pass
                raise ValueError
            value = datetime.fromisoformat(value.upper())
        elif isinstance(value, int) and not isinstance(value, bool):
            return EPOCH + timedelta(milliseconds=value)
        if isinstance(value, datetime):
            if value.utcoffset() is None:
                raise InvalidInput("has no time zone: give an offset, such as Z", field=field)
            return value.astimezone(UTC)
    except OverflowError:
        raise InvalidInput("is outside the years 1 to 9999", field=field) from None
    except InvalidInput:
        raise
    except ValueError:
        raise InvalidInput("is not an ISO 8601 time with an offset", field=field) from None
    raise InvalidInput(
        f"must be an ISO 8601 text, Unix milliseconds or a datetime, not {type(value).__name__}",
        field=field,
    )


def parse_duration(value: object, field: str) -> float:
    """Seconds, or a timedelta, as seconds from 0 to 100 years."""
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise InvalidInput(
            f"must be a number of seconds or a timedelta, not {type(value).__name__}", field=field
        )
    most = LONGEST_DURATION.total_seconds()
    finite = (
        value.is_finite()
        if isinstance(value, Decimal)
        else isinstance(value, int) or isfinite(value)
    )
    if not finite or not 0 <= value <= most:
        raise InvalidInput("must be from 0 seconds to 100 years", field=field)
    return abs(float(value))  # no minus zero


def zone_named(name: object) -> ZoneInfo:
    """Raises InvalidInput."""
    # "localtime" and its like depend on the machine.
    if isinstance(name, str) and _ZONE_NAME.fullmatch(name) and name[0].isupper():
        try:
            return ZoneInfo(name)
        except (KeyError, ValueError, OSError):
            pass
    raise InvalidInput("is not a known IANA time zone such as Europe/Berlin", field="time_zone")


def as_utc(moment: datetime) -> datetime:
    return moment if moment.tzinfo is UTC else parse_moment(moment, "moment")
