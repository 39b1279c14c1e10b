"""The list of the audit, newest first, and its export."""

# ruff: noqa: ARG002 - Django hands over more than is needed.

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.urls import path

from jobs import conf, permissions
from jobs.admin import files
from jobs.admin.audit import asking, exporting
from jobs.admin.audit.asking import Ask
from jobs.admin.audit.rows import row_of
from jobs.admin.ledger.asking import moment_for_input
from jobs.console import moments
from jobs.console.admins import ConsoleAdmin
from jobs.console.kept import kept
from jobs.console.lists import AFTER, BEFORE, SECONDS, SIZES, Walk, size_of
from jobs.console.navigation import MANAGE, Entry
from jobs.database import DjangoDatabase
from jobs.errors import InvalidInput, TooBroad
from jobs.limits import limited
from jobs.masking import reader
from jobs.models import AuditEntry

WALK = Walk(order=("-id",))
CHOICES_SECONDS = 10.0


@admin.register(AuditEntry)
class AuditEntryAdmin(ConsoleAdmin):
    nav = Entry(label="Audit", section=MANAGE, order=640, icon="audit", key="a")
    view_permission = permissions.VIEW_AUDIT

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view
        return [
            path("", view(self.changelist_view), name="jobs_auditentry_changelist"),
            path("export/", view(self.export_view), name="jobs_auditentry_export"),
        ]

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        self.require_view(request)
        if address := moments.pinned(request, "from", "to"):
            return HttpResponseRedirect(address)
        ask, size = asking.ask_of(request.GET.dict()), size_of(request)
        context: dict[str, Any] = {
            "title": "Audit",
            "ask": ask,
            "given": ask.given,
            "begin": moment_for_input(ask.given.get("from", "")),
            "end": moment_for_input(ask.given.get("to", "")),
            "choices": kept("audit", CHOICES_SECONDS, asking.choices),
            "export": self.address("export"),
            "list": self.address("changelist"),
            "sizes": [(each, ask.query(rows=str(each)), each == size) for each in SIZES],
            "keep_days": conf.get().audit_days,
            **self._listed(request, ask, size),
        }
        return self.page(request, "admin/jobs/audit/list.html", context)

    def export_view(self, request: HttpRequest) -> HttpResponseBase:
        self.require_view(request)
        kind = request.GET.get("format", "csv")
        if kind not in files.FORMATS:
            raise Http404
        ask = asking.ask_of(request.GET.dict())
        return exporting.file_of(ask, reader(request.user), kind).response(request)

    def _listed(self, request: HttpRequest, ask: Ask, size: int) -> dict[str, Any]:
        after, before = asking.place_of(request.GET.dict())
        try:
            with limited(DjangoDatabase(), seconds=SECONDS):
                found, newer, older = WALK.page(ask.rows(), after=after, before=before, size=size)
        except TooBroad:
            return {"too_broad": True}
        except InvalidInput:
            return {"is_lost": True}
        sees, site = reader(request.user), self.admin_site.name
        return {
            "rows": [row_of(entry, sees, site) for entry in found],
            "newer": ask.query(**{BEFORE: str(found[0].id)}) if found and newer else "",
            "older": ask.query(**{AFTER: str(found[-1].id)}) if found and older else "",
            "newest": ask.query() if newer else "",
        }
