"""The list of jobs, the page of a job, and what may be done to it."""

# ruff: noqa: ARG002 - Django hands over more than is needed.

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin import helpers
from django.contrib.admin.options import ActionLocation
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.loader import render_to_string
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from jobs import conf, lifecycle, listing
from jobs.admin.ledger import showing as ledger
from jobs.admin.reading import COUNTED, ReadOnlyAdmin, may_read, pretty
from jobs.console.navigation import Entry
from jobs.database import DjangoDatabase
from jobs.edges import blocked_by
from jobs.lifecycle import Changed
from jobs.masking import masked
from jobs.models import Attempt, Job, JobLog
from jobs.reasons import why_not_running

SHOWN = 200
SECONDS = 3.0
EVERYWHERE = [ActionLocation.CHANGE_LIST, ActionLocation.CHANGE_FORM]
PRIVATE = ("payload_shown", "metadata_shown", "result_shown", "error_shown")
TIMES = (
    "created_at",
    "scheduled_at",
    "next_retry_at",
    "due_at",
    "started_at",
    "completed_at",
    "failed_at",
    "cancel_requested_at",
    "cancelled_at",
)
ACTIONS = frozenset(
    {
        "cancel_requested",
        "changed",
        "dependency_added",
        "payload_edited",
        "released",
        "retried",
        "run_now",
    }
)
"""What people did; other lines of the log may quote an error, or what a handler wrote."""


@admin.register(Job)
class JobAdmin(ReadOnlyAdmin):
    nav = Entry(label="Jobs", order=20, icon="jobs", key="j")

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view
        return [
            path("", view(self.changelist_view), name="jobs_job_changelist"),
            path("export/", view(self.export_view), name="jobs_job_export"),
            path("bulk/", view(self.bulk_view), name="jobs_job_bulk"),
            *super().get_urls(),
        ]

    # The list

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        self.require_view(request)
        return ledger.show(self, request)

    def export_view(self, request: HttpRequest) -> HttpResponse:
        self.require_view(request)
        return ledger.export(request)

    def bulk_view(self, request: HttpRequest) -> HttpResponse:
        self.require_view(request)
        return ledger.bulk(self, request)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Job]:
        return listing.matching(listing.Filters())

    # One job

    def get_fieldsets(self, request: HttpRequest, obj: Job | None = None) -> Any:
        held = obj is not None and bool(obj.hold_reason) and may_read(request)
        place = ["id", "type", "queue", "priority_word", "unique_key", "parent", "schedule"]
        place = [n for n in place if obj is None or getattr(obj, n, True) is not None]
        parts: list[tuple[str | None, dict[str, Any]]] = [
            (None, {"fields": ["state_shown", "why", *(["hold_reason"] if held else []), *place]}),
            ("Times", {"fields": ["times_shown"]}),
        ]
        if may_read(request):
            parts.append(("Content", {"fields": list(PRIVATE)}))
        parts += [
            ("Dependencies", {"fields": ["dependencies", "on_parent_failure"]}),
            ("Attempts", {"fields": ["attempts", "attempts_shown"]}),
            ("Log", {"fields": ["logs_shown"]}),
        ]
        return parts

    def get_readonly_fields(self, request: HttpRequest, obj: Job | None = None) -> list[str]:
        return [field for _, part in self.get_fieldsets(request, obj) for field in part["fields"]]

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> Any:
        job = super().get_object(request, object_id, from_field)
        if job is not None:
            # What the page's own methods need; Django does not hand them the request.
            job.reader_may_read = may_read(request)
            job.reader_sees_all = request.user.is_active and request.user.is_superuser
        return job

    @admin.display(description="state")
    def state_shown(self, job: Job) -> str:
        return job.state_at(_now()).value

    @admin.display(description="why")
    def why(self, job: Job) -> str:
        reasons = why_not_running(DjangoDatabase(), job, _now())
        if not _read(job) and job.due_at is None:
            reasons = ["held"] if reasons else []
        return "; ".join(reasons) or "-"

    @admin.display(description="by the database's clock")
    def times_shown(self, job: Job) -> SafeString:
        times = [(name.removesuffix("_at").replace("_", " "), getattr(job, name)) for name in TIMES]
        return _rendered("times", {"times": [(n, at) for n, at in times if at is not None]})

    @admin.display(description="payload")
    def payload_shown(self, job: Job) -> SafeString:
        whole = getattr(job, "reader_sees_all", False)
        return pretty(job.payload if whole else masked(job.type, job.payload))

    @admin.display(description="metadata")
    def metadata_shown(self, job: Job) -> SafeString:
        return pretty(job.metadata)

    @admin.display(description="result")
    def result_shown(self, job: Job) -> SafeString | str:
        return "-" if job.result is None else pretty(job.result)

    @admin.display(description="last error")
    def error_shown(self, job: Job) -> SafeString | str:
        return format_html("<pre>{}</pre>", job.last_error) if job.last_error else "-"

    @admin.display(description="waits for")
    def dependencies(self, job: Job) -> SafeString | str:
        blockers = blocked_by(DjangoDatabase(), [str(job.id)]).get(str(job.id), [])
        if not blockers:
            return "-"
        return _rendered(
            "blockers", {"blockers": blockers[:SHOWN], "more": max(0, len(blockers) - SHOWN)}
        )

    @admin.display(description="history")
    def attempts_shown(self, job: Job) -> SafeString | str:
        attempts = list(
            Attempt.objects.using(conf.get().database)
            .filter(job=job)
            .order_by("-lease_epoch")[:SHOWN]
        )
        if not attempts:
            return "-"
        return _rendered("attempts", {"attempts": attempts, "readable": _read(job)})

    @admin.display(description="lines")
    def logs_shown(self, job: Job) -> SafeString | str:
        logs = list(
            JobLog.objects.using(conf.get().database).filter(job=job).order_by("-id")[:SHOWN]
        )
        if not logs:
            return "-"
        for log in logs:
            if not _read(job) and log.event not in ACTIONS:
                log.message = ""
        return _rendered("logs", {"logs": logs, "limit": SHOWN})

    # What may be done

    def has_cancel_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("jobs.cancel_job")

    def has_retry_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("jobs.retry_job")

    def has_purge_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("jobs.purge_job")

    @admin.action(permissions=["cancel"], description="Cancel", location=EVERYWHERE)
    def cancel_jobs(self, request: HttpRequest, queryset: QuerySet[Job]) -> None:
        _tell(request, _act(lifecycle.cancel_many, request, _ids(queryset)), "cancelled")

    @admin.action(permissions=["retry"], description="Retry (dead letters)", location=EVERYWHERE)
    def retry_jobs(self, request: HttpRequest, queryset: QuerySet[Job]) -> None:
        _tell(request, _act(lifecycle.retry_many, request, _ids(queryset)), "retried")

    @admin.action(permissions=["purge"], description="Purge (dead letters)", location=EVERYWHERE)
    def purge_jobs(self, request: HttpRequest, queryset: QuerySet[Job]) -> HttpResponse:
        ids = _ids(queryset)
        back = reverse(f"{self.admin_site.name}:jobs_job_changelist")
        if request.POST.get("confirmed") == "yes":
            _tell(request, _act(lifecycle.purge_many, request, ids), "purged")
            return HttpResponseRedirect(back)
        context = {
            **self.admin_site.each_context(request),
            "title": "Purge dead letters",
            "opts": self.opts,
            "ids": ids,
            "shown": list(queryset.filter(pk__in=ids[:20])),
            "more": max(0, len(ids) - 20),
            "back": back,
            "checkbox": helpers.ACTION_CHECKBOX_NAME,
        }
        return TemplateResponse(request, "admin/jobs/job/purge.html", context)


def _is_list(request: HttpRequest) -> bool:
    match = request.resolver_match
    return match is not None and (match.url_name or "").endswith("_changelist")


def _read(job: Job) -> bool:
    return bool(getattr(job, "reader_may_read", False))


def _now() -> float:
    rows = DjangoDatabase().rows("SELECT extract(epoch FROM statement_timestamp())::float8", {})
    return float(rows[0][0])


def _ids(queryset: QuerySet[Job]) -> list[Any]:
    return list(queryset.values_list("pk", flat=True)[:COUNTED])


def _act(call: Callable[..., Changed], request: HttpRequest, ids: list[Any]) -> Changed:
    return call(ids, by=request.user.get_username())


def _tell(request: HttpRequest, changed: Changed, verb: str) -> None:
    level = messages.SUCCESS if changed.done else messages.WARNING
    messages.add_message(request, level, changed.sentence(verb))


def _rendered(part: str, context: dict[str, Any]) -> SafeString:
    return SafeString(render_to_string(f"admin/jobs/job/{part}.html", context))
