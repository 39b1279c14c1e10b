"""Jobs in the console: the list (`ledger/`), the page of each (`page/`), and their addresses."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path

from jobs import listing
from jobs.admin.deadletters import showing as deadletters
from jobs.admin.ledger import showing as ledger
from jobs.admin.newjob import showing as newjob
from jobs.admin.page import showing as page
from jobs.console.admins import ConsoleAdmin
from jobs.console.navigation import Entry
from jobs.models import Job


@admin.register(Job)
class JobAdmin(ConsoleAdmin):
    nav = Entry(label="Jobs", order=20, icon="jobs", key="j")

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view
        return [
            path("", view(self.changelist_view), name="jobs_job_changelist"),
            path("add/", view(self.new_view), name="jobs_job_add"),
            path("export/", view(self.export_view), name="jobs_job_export"),
            path("columns/", view(self.columns_view), name="jobs_job_columns"),
            path("bulk/", view(self.bulk_view), name="jobs_job_bulk"),
            path("dead-letters/", view(self.dead_view), name="jobs_job_dead"),
            path("<uuid:id>/", view(self.job_view), name="jobs_job_change"),
            path("<uuid:id>/change/", view(self.old_view)),
            path("<uuid:id>/act/", view(self.act_view), name="jobs_job_act"),
            path("<uuid:id>/payload/", view(self.payload_view), name="jobs_job_payload"),
            path("<uuid:id>/<slug:name>.json", view(self.content_view), name="jobs_job_content"),
        ]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Job]:  # noqa: ARG002
        return listing.matching(listing.Filters())

    # The list

    def changelist_view(
        self,
        request: HttpRequest,
        extra_context: dict[str, Any] | None = None,  # noqa: ARG002
    ) -> HttpResponse:
        self.require_view(request)
        return ledger.show(self, request)

    def export_view(self, request: HttpRequest) -> HttpResponse:
        self.require_view(request)
        return ledger.export(request)

    def columns_view(self, request: HttpRequest) -> HttpResponse:
        self.require_view(request)
        return ledger.choose_columns(self, request)

    def bulk_view(self, request: HttpRequest) -> HttpResponse:
        self.require_view(request)
        return ledger.bulk(self, request)

    def dead_view(self, request: HttpRequest) -> HttpResponse:
        self.require_view(request)
        return deadletters.show(self, request)

    def new_view(self, request: HttpRequest) -> HttpResponse:
        self.require_view(request)
        return newjob.show(self, request)

    # One job

    def job_view(self, request: HttpRequest, id: UUID) -> HttpResponse:
        self.require_view(request)
        return page.show(self, request, id)

    def old_view(self, request: HttpRequest, id: UUID) -> HttpResponse:  # noqa: ARG002
        """Where Django's admin has it."""
        return HttpResponseRedirect(self.address("change", id))

    def act_view(self, request: HttpRequest, id: UUID) -> HttpResponse:
        self.require_view(request)
        return page.act(self, request, id)

    def payload_view(self, request: HttpRequest, id: UUID) -> HttpResponse:
        self.require_view(request)
        return page.edit(self, request, id)

    def content_view(self, request: HttpRequest, id: UUID, name: str) -> HttpResponse:
        self.require_view(request)
        return page.content(request, id, name)
