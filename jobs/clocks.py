"""A moment by the clock in force: the reader's where one was chosen, else the project's."""

from __future__ import annotations

from datetime import UTC, datetime

from django.utils import timezone


def local(at: datetime) -> datetime:
    """In UTC where the clock in force has no such day: on the last of all years, east of Greenwich."""
    try:
        return timezone.localtime(at)
    except OverflowError:
        return at.astimezone(UTC)


def said(at: datetime) -> str:
    """To the second, with the zone: "2026-01-31 10:00:00 CET"."""
    return f"{local(at):%Y-%m-%d %H:%M:%S %Z}"
