"""How the console looks to each person: what they chose, kept in the database.

    shown = preferences.of(request)              # read once for each request, by the key
    preferences.save(request.user, theme="dark")
    preferences.reset(request.user)

`in_force` shows times in the person's zone while a page is made, and reads those that are typed in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, wraps
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from django.db.models.functions import Now
from django.http import HttpRequest
from django.utils import timezone

from jobs.errors import InvalidInput
from jobs.models import Preferences
from jobs.moments import zone_named


def of(request: HttpRequest) -> Preferences:
    """What this person has chosen; as it is at first, for who has chosen nothing."""
    found: Preferences | None = getattr(request, "coppice_preferences", None)
    if found is None:
        found = _read(request.user)
        request.coppice_preferences = found  # type: ignore[attr-defined]
    return found


def save(user: Any, **chosen: Any) -> None:
    """Keep these; what is not named stays as it was. One statement, whoever else writes meanwhile."""
    row = Preferences(user=user, **chosen, changed_at=Now())
    Preferences.objects.bulk_create(
        [row],
        update_conflicts=True,
        unique_fields=["user"],
        update_fields=[*chosen, "changed_at"],
    )


def reset(user: Any) -> None:
    """Everything as it is at first."""
    Preferences.objects.filter(user=user).delete()


def hidden_columns(request: HttpRequest, *, offered: set[str], wanted: set[str]) -> list[str]:
    """Of the columns that were offered hide those that are not wanted; others stay as they are."""
    return sorted({*of(request).hidden_columns} - offered | (offered - wanted))


@contextmanager
def in_force(request: HttpRequest) -> Iterator[None]:
    """Times are shown and read in the person's zone; without one, in the project's."""
    zone = zone_of(of(request))
    if zone is None:
        yield
        return
    with timezone.override(zone):
        yield


def in_own_zone[View: Callable[..., Any]](view: View) -> View:
    """The view with `in_force`, for a site that is not the console's own."""

    @wraps(view)
    def inside(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        with in_force(request):
            return view(request, *args, **kwargs)

    return inside  # type: ignore[return-value]


def zone_of(chosen: Preferences) -> ZoneInfo | None:
    """None: nothing chosen, or a zone that this server does not know any more."""
    if not chosen.time_zone:
        return None
    try:
        return zone_named(chosen.time_zone)
    except InvalidInput:
        return None


@lru_cache(maxsize=1)
def zone_names() -> tuple[str, ...]:
    """The zones to choose from."""
    found = []
    for name in sorted(available_timezones()):
        try:
            zone_named(name)
        except InvalidInput:
            continue
        found.append(name)
    return tuple(found)


def offset_in_words() -> str:
    """How far the zone in force is from UTC now: "UTC+01:00"; "" where its name says it."""
    return "" if timezone.get_current_timezone_name() == "UTC" else f"UTC{timezone.localtime():%:z}"


def _read(user: Any) -> Preferences:
    if not user.is_authenticated:
        return Preferences()
    found = Preferences.objects.filter(user=user.pk)[:1]
    return next(iter(found), None) or Preferences()
