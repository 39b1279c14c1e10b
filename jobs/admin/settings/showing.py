"""The page: how the console looks to each person, how things are, and for those who answer for the
installation what is in force and how much is stored.
"""

from __future__ import annotations

import sys
from typing import Any

import django
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.http import url_has_allowed_host_and_scheme

from jobs import conf, doctor, health, permissions, version
from jobs.admin.settings import effective, stored
from jobs.admin.settings.display import SINGLY, DisplayForm
from jobs.console import navigation, pages, preferences
from jobs.console.kept import kept
from jobs.database import DjangoDatabase
from jobs.errors import SettingsError, TooBroad

STORED_SECONDS = 10.0
EXAMINED_SECONDS = 10.0
ENTRY = navigation.Entry(
    label="Settings", section=navigation.MANAGE, order=680, icon="settings", key=","
)


@pages.add(ENTRY)
class Settings(pages.Page):
    path, name = "settings/", "settings"
    title, template = "Settings", "admin/jobs/settings/page.html"
    needs = ""  # how it looks is everybody's own

    def post(self, request: HttpRequest) -> HttpResponse:
        """Keep how it looks to who is signed in; nobody else's can be named."""
        if request.POST.get("do") == "reset":
            preferences.reset(request.user)
            messages.success(request, "The console looks as it does at first.")
            return HttpResponseRedirect(request.path)
        only = request.POST.get("only", "")
        only = only if only in SINGLY else ""
        form = DisplayForm(request, only=only, data=request.POST)
        if form.is_valid():
            form.keep()
            if only:
                is_script = "X-Coppice-Part" in request.headers
                return HttpResponse(status=204) if is_script else self._came_from()
            messages.success(request, "Saved how the console looks to you.")
            return HttpResponseRedirect(request.path)
        if only:
            messages.error(request, "Nothing was changed: there is no such choice.")
            form = DisplayForm(request)
        return self.render({**self.context(), "form": form}, status=422)

    def _came_from(self) -> HttpResponseRedirect:
        """To the page with the button, which is every page: none has to name itself in a form."""
        page = self.request.headers.get("Referer", "")
        is_ours = url_has_allowed_host_and_scheme(
            page, allowed_hosts={self.request.get_host()}, require_https=self.request.is_secure()
        )
        return HttpResponseRedirect(page if is_ours else self.request.path)

    def context(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "form": DisplayForm(self.request),
            "zones": preferences.zone_names(),
            "may_view": self.may(permissions.VIEW),
        }
        if found["may_view"]:
            found |= {"health": health.current(), "versions": _versions()}
        if not self.may(permissions.MANAGE_ALERTS):
            return found
        found |= {"answers_for_it": True, "settings": conf.get(), **_effective()}
        try:
            found["stored"] = kept("settings:stored", STORED_SECONDS, stored.read)
        except TooBroad:
            found["stored_too_slow"] = True
        if self.request.GET.get("look") == "closer":
            found["checks"] = kept("settings:checks", EXAMINED_SECONDS, _examine)
        return found


def _effective() -> dict[str, Any]:
    try:
        return {"groups": effective.lines()}
    except SettingsError as error:
        return {"settings_problem": str(error)}


def _examine() -> list[doctor.Check]:
    return doctor.examine(DjangoDatabase())


def _versions() -> list[tuple[str, str]]:
    ours = version.ours() or "from a checkout"
    python = ".".join(map(str, sys.version_info[:3]))
    return [("Coppice", ours), ("Django", django.get_version()), ("Python", python)]
