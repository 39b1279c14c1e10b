"""Moments in addresses and filters: a field says them by the clock of its reader, an address not."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from django.http import HttpRequest
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from jobs import clocks
from jobs.errors import InvalidInput
from jobs.filtering import Filters


def pinned(request: HttpRequest, *names: str) -> str:
    """The address with the moments of these fields in UTC, for whoever it is shared with; "" if no
    clock has to be known to understand it.
    """
    query = request.GET.copy()
    for name in names:
        if (at := _naive(str(query.get(name, "")))) is not None:
            query[name] = at
    return "" if query == request.GET else f"{request.path}?{query.urlencode()}"


def given(text: str, field: str) -> datetime:
    """What a field for a moment says: by the clock in force, if it names no other."""
    try:
        at: datetime | None = parse_datetime(text)
    except ValueError:
        at = None
    if at is None:
        raise InvalidInput("must be a date and time", field=field)
    return at if at.tzinfo is not None else at.replace(tzinfo=timezone.get_current_timezone())


def _naive(text: str) -> str | None:
    """A moment without a zone, in UTC; None for every other text."""
    try:
        at: datetime | None = parse_datetime(text.strip().replace(" ", "T", 1))
        if at is None or at.tzinfo is not None:
            return None
        at = at.replace(tzinfo=timezone.get_current_timezone()).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return at.isoformat().replace("+00:00", "Z")


def localised(filters: Filters) -> Filters:
    """The same filters, with their moments in the zone in force: for being said in words."""
    moments: dict[str, Any] = {
        name: clocks.local(value)
        for name, value in filters.given.items()
        if isinstance(value, datetime)
    }
    return replace(filters, **moments)


def here(at: datetime) -> str:
    """A moment that is told by another clock, by the one in force; "" if both go alike."""
    local = clocks.local(at)
    return "" if local.utcoffset() == at.utcoffset() else f"{local:%a %Y-%m-%d %H:%M:%S %Z}"
