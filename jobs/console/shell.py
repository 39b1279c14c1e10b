"""What surrounds every page: navigation, environment tag, search."""

from __future__ import annotations

from typing import Any

from django.contrib.admin import AdminSite
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse

from jobs import conf, permissions
from jobs.console import navigation, sample
from jobs.errors import SettingsError

LOUD = ("prod", "production", "live")
CAREFUL = ("staging", "stage", "preprod", "pre-production", "uat", "qa")


def shell(request: HttpRequest, site: AdminSite) -> dict[str, Any]:
    """For somebody who is signed in. Entries that this site has no page for are left out."""
    may_view = request.user.has_perm(permissions.VIEW)
    now = sample.current() if may_view else {}
    return {
        "menu": navigation.menu(request, site, now),
        "may_view": may_view,
        "sample": now,
        "environment": environment(),
        "search": _address(site, "jobs_job_changelist") if may_view else "",
    }


def environment() -> dict[str, str]:
    """The tag in the header: what the setting says, and how loudly."""
    try:
        name = conf.get().environment
    except SettingsError:  # the system checks say it better
        name = ""
    word = name.lower()
    tone = "bad" if word in LOUD else "warn" if word in CAREFUL else "info"
    return {"name": name, "tone": tone}


def _address(site: AdminSite, name: str) -> str:
    try:
        return reverse(f"admin:{name}", current_app=site.name)
    except NoReverseMatch:
        return ""
