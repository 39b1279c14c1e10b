"""What surrounds every page: navigation, environment tag, search, and how it looks to this person."""

from __future__ import annotations

import time
from typing import Any

from django.contrib.admin import AdminSite
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils import timezone

from jobs import conf, permissions
from jobs.console import navigation, preferences, sample
from jobs.errors import SettingsError
from jobs.models.preferences import THEMES
from jobs.states import State

LOUD = ("prod", "production", "live")
CAREFUL = ("staging", "stage", "preprod", "pre-production", "uat", "qa")


def shell(request: HttpRequest, site: AdminSite) -> dict[str, Any]:
    """For somebody who is signed in. Entries that this site has no page for are left out."""
    may_view = request.user.has_perm(permissions.VIEW)
    now = look(request)
    return {
        "menu": navigation.menu(request, site, now),
        "may_view": may_view,
        "sample": now,
        "as_of": sample.old_since(now),
        "environment": environment(),
        "now": f"{time.time():.3f}",
        "live": _live(request, site) if may_view else {},
        "states": [*State, "purged"] if may_view else [],
        "search": _address(site, "jobs_job_changelist") if may_view else "",
        "display": _display(request, site),
    }


def look(request: HttpRequest) -> dict[str, Any]:
    """The sample for this request, taken before anything else is read: the page's script goes on
    from where the live feed stood then, and sees what happens while the page is being made.
    """
    found: dict[str, Any] | None = getattr(request, "coppice_sample", None)
    if found is None:
        found = sample.current() if request.user.has_perm(permissions.VIEW) else {}
        request.coppice_sample = found  # type: ignore[attr-defined]
    return found


def environment() -> dict[str, str]:
    """The tag in the header: what the setting says, and how loudly."""
    try:
        name = conf.get().environment
    except SettingsError:  # the system checks say it better
        name = ""
    word = name.lower()
    tone = "bad" if word in LOUD else "warn" if word in CAREFUL else "info"
    return {"name": name, "tone": tone}


def _live(request: HttpRequest, site: AdminSite) -> dict[str, Any]:
    """Where the page's script gets what is new."""
    try:
        poll = reverse("coppice-live")
    except NoReverseMatch:  # the API is not mounted
        poll = ""
    return {
        "socket": f"{request.META.get('SCRIPT_NAME', '')}/ws/console/",
        "poll": poll,
        "badges": _address(site, "badges"),
        "dead_after": conf.get().dead_after_seconds,
    }


def _display(request: HttpRequest, site: AdminSite) -> dict[str, Any]:
    """How it looks to this person, and where that is changed."""
    chosen = preferences.of(request)
    theme = chosen.theme or THEMES[0]
    return {
        "chosen": chosen,
        "theme": theme,
        "next_theme": THEMES[(THEMES.index(theme) + 1) % len(THEMES)],
        "url": _address(site, "settings"),
        "zone": timezone.get_current_timezone_name(),
        "offset": preferences.offset_in_words(),
    }


def _address(site: AdminSite, name: str) -> str:
    try:
        return reverse(f"admin:{name}", current_app=site.name)
    except NoReverseMatch:
        return ""
