"""The list of bulk operations, the page of each, and what may be done to it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path

from jobs import bulk, conf, permissions
from jobs.admin.bulk import reading
from jobs.admin.ledger import acting, actions
from jobs.bulk.turns import blocker_of
from jobs.console import confirming, lists, navigation, pages
from jobs.console.admins import ConsoleAdmin
from jobs.console.confirming import Question
from jobs.console.words import count
from jobs.database import DjangoDatabase
from jobs.errors import CoppiceError, InvalidInput, NotFound, TooBroad
from jobs.filtering import Filters
from jobs.limits import limited
from jobs.masking import reader
from jobs.models import AuditEntry, BulkOperation
from jobs.pruning import BULK_DAYS

SECONDS = 3.0
ENTRIES = 20
ACTS = {"pause": bulk.pause, "resume": bulk.resume, "abort": bulk.abort}
DONE = {
    "pause": "Paused. What was changed stays changed.",
    "resume": "It goes on behind the last job that it met.",
    "abort": "Aborted. What was changed stays changed.",
}
STATES = {"pause": ("pending", "running"), "resume": ("paused",), "abort": bulk.LIVE}
CONFIRM = "admin/console/confirm.html"


@admin.register(BulkOperation)
class BulkOperationAdmin(ConsoleAdmin):
    nav = navigation.Entry(
        label="Bulk operations", section=navigation.MANAGE, order=620, icon="bulk"
    )

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view
        return [
            path("", view(self.changelist_view), name="jobs_bulkoperation_changelist"),
            path("<uuid:id>/", view(self.one_view), name="jobs_bulkoperation_change"),
            path("<uuid:id>/act/", view(self.act_view), name="jobs_bulkoperation_act"),
            path("<uuid:id>/again/", view(self.again_view), name="jobs_bulkoperation_again"),
        ]

    def changelist_view(
        self,
        request: HttpRequest,
        extra_context: dict[str, Any] | None = None,  # noqa: ARG002
    ) -> HttpResponse:
        self.require_view(request)
        is_live = request.GET.get("show") == "live"
        rows = BulkOperation.objects.using(conf.get().database).defer("failures")
        if is_live:
            rows = rows.filter(status__in=bulk.LIVE)
        found, newer, older = _page(request, rows)
        query = "show=live&" if is_live else ""
        context = {
            "title": "Bulk operations",
            "rows": [reading.shown(each, reader(request.user)) for each in found],
            "is_live": is_live,
            "newest": f"?{query}" if newer else "",
            "newer": f"?{query}before={found[0].id}" if newer and found else "",
            "older": f"?{query}after={found[-1].id}" if older and found else "",
            "days": round(BULK_DAYS),
        }
        return self.page(request, "admin/jobs/bulk/list.html", context)

    def one_view(self, request: HttpRequest, id: UUID) -> HttpResponse:
        self.require_view(request)
        operation = _found(id)
        shown = reading.shown(operation, reader(request.user))
        blocker = blocker_of(operation) if operation.status == "pending" else None
        may = _may(request, operation)
        context = {
            "title": shown.label,
            "shown": shown,
            "operation": operation,
            "blocker": blocker,
            "skipped_reasons": sorted(operation.skipped_reasons.items(), key=lambda each: -each[1]),
            "may_read": request.user.has_perm(permissions.VIEW_PAYLOAD),
            "buttons": [
                name for name, states in STATES.items() if may and operation.status in states
            ],
            "may_again": may and not shown.is_live,
            "history": self._history(request, operation),
        }
        return self.page(request, "admin/jobs/bulk/page.html", context)

    def act_view(self, request: HttpRequest, id: UUID) -> HttpResponse:
        """Pause, resume or abort; then one is where one was."""
        self.require_view(request)
        here = self.address("change", id)
        if request.method != "POST":
            return HttpResponseRedirect(here)
        operation, name = _found(id), request.POST.get("action", "")
        if name not in ACTS or not _may(request, operation):
            raise PermissionDenied
        if name == "abort" and not confirming.is_confirmed(request):
            return self._ask(request, self._about_abort(request, operation, here))
        before = operation.status
        with pages.telling(request, ""):
            by, reason = request.user.get_username(), confirming.reason(request)
            after = ACTS[name](id, by=by, reason=reason)
            if after.status == before or before not in STATES[name]:
                messages.info(request, f"Nothing to change: it is {after.status}.")
            else:
                handled = f"{count(after.changed)} changed so far."
                messages.success(request, f"{DONE[name]} {handled}")
        return pages.back_to(request, here)

    def again_view(self, request: HttpRequest, id: UUID) -> HttpResponse:
        """Ask for the same once more, of what matches now."""
        self.require_view(request)
        operation, here = _found(id), self.address("change", id)
        if not _may(request, operation):
            raise PermissionDenied
        action = actions.find(request, operation.action)
        try:
            filters = Filters.from_json(operation.filters)
            if refusal := _refusal(request, filters):
                raise InvalidInput(refusal, field="filter")
            question = acting.about_all(request, action, filters, here, operation.arguments)
            is_typed = not question.type or confirming.typed(request, question.type)
            if request.method != "POST" or question.problem or not is_typed:
                return self._ask(request, question)
            made = acting.begin_bulk(request, action, filters)
        except TooBroad:
            messages.error(request, "Nothing was changed. That search takes too long now.")
            return HttpResponseRedirect(here)
        except CoppiceError as error:
            messages.error(request, f"Nothing was changed. {error}")
            return HttpResponseRedirect(here)
        messages.success(request, acting.asked(action, made))
        return HttpResponseRedirect(self.address("change", made.id))

    def _ask(self, request: HttpRequest, question: Question) -> HttpResponse:
        return self.page(request, CONFIRM, {"title": question.title, "question": question})

    def _about_abort(self, request: HttpRequest, operation: BulkOperation, here: str) -> Question:
        shown = reading.shown(operation, reader(request.user))
        return Question(
            title="Abort",
            what=f"Ends it after the batch in hand: {shown.label}, {shown.in_words}.",
            button="Abort",
            back=here,
            facts=[("Changed so far", f"{operation.changed:,}"), ("Of", shown.goal)],
            hidden=[("action", "abort")],
            notes=["What was changed stays changed. It cannot be resumed."],
            is_dangerous=True,
        )

    def _history(self, request: HttpRequest, operation: BulkOperation) -> list[AuditEntry] | None:
        """None: the reader may not see the audit."""
        if not self.may(request, permissions.VIEW_AUDIT):
            return None
        found = AuditEntry.objects.using(conf.get().database).filter(object_id=str(operation.id))
        return list(found.order_by("-id")[:ENTRIES])


def _page(request: HttpRequest, rows: Any) -> tuple[list[BulkOperation], bool, bool]:
    walk = lists.Walk(order=("-id",))
    size = lists.size_of(request)
    after, before = request.GET.get(lists.AFTER, ""), request.GET.get(lists.BEFORE, "")
    with limited(DjangoDatabase(), seconds=SECONDS):
        try:
            return walk.page(rows, after=after, before=before, size=size)
        except InvalidInput:
            return walk.page(rows, after="", before="", size=size)


def _found(id: UUID) -> BulkOperation:
    try:
        return bulk.get(id)
    except NotFound:
        raise Http404 from None


def _may(request: HttpRequest, operation: BulkOperation) -> bool:
    """Whoever may do it may also stop it."""
    try:
        needed = bulk.permission_of(operation.action, Filters.from_json(operation.filters))
    except InvalidInput:
        return False
    return request.user.has_perm(needed)


def _refusal(request: HttpRequest, filters: Filters) -> str:
    return reader(request.user).refusal(payload=filters.payload, error=filters.error)
