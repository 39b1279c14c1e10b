"""The addresses of range runs in the console."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import admin
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.urls import path

from jobs.console.admins import ConsoleAdmin
from jobs.console.navigation import Entry
from ranges.admin import acting, listing, neighbours, page
from ranges.models import RangeRun


@admin.register(RangeRun)
class RangeRunAdmin(ConsoleAdmin):
    nav = Entry(
        label="Range runs",
        order=70,
        icon="ranges",
        key="r",
        badge=neighbours.active,
        live="runs",
        tone="busy",
    )

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view
        return [
            path("", view(self.changelist_view), name="ranges_rangerun_changelist"),
            path("<uuid:id>/", view(self.run_view), name="ranges_rangerun_change"),
            path("<uuid:id>/change/", view(self.old_view)),
            path("<uuid:id>/act/", view(self.act_view), name="ranges_rangerun_act"),
            path("<uuid:id>/picture.json", view(self.picture_view), name="ranges_rangerun_picture"),
            path("<uuid:id>/rates.json", view(self.rates_view), name="ranges_rangerun_rates"),
        ]

    def changelist_view(
        self,
        request: HttpRequest,
        extra_context: dict[str, Any] | None = None,  # noqa: ARG002
    ) -> HttpResponse:
        self.require_view(request)
        if request.method == "POST":
            return acting.act_on_selection(self, request)
        return listing.show(self, request)

    def run_view(self, request: HttpRequest, id: UUID) -> HttpResponse:
        self.require_view(request)
        return page.show(self, request, id)

    def old_view(self, request: HttpRequest, id: UUID) -> HttpResponse:  # noqa: ARG002
        """Where Django's admin has it."""
        return HttpResponseRedirect(self.address("change", id))

    def act_view(self, request: HttpRequest, id: UUID) -> HttpResponse:
        self.require_view(request)
        return acting.act(self, request, id)

    def picture_view(self, request: HttpRequest, id: UUID) -> JsonResponse:
        self.require_view(request)
        return page.picture(request, id)

    def rates_view(self, request: HttpRequest, id: UUID) -> JsonResponse:
        self.require_view(request)
        return page.rates(id)
