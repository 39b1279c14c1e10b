"""Queues in the console: how deep, how late, how fast, who serves them; pause and resume."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path, re_path, reverse
from django.utils.http import urlencode

from jobs import clocks, conf, lifecycle, permissions
from jobs.admin.overview import fleet, flows, numbers, one_queue
from jobs.admin.overview.panels import chart_context, span_of
from jobs.console import confirming, kept, moments, pages, sample
from jobs.console.admins import ConsoleAdmin
from jobs.console.lists import size_of
from jobs.console.navigation import Badge, Entry
from jobs.console.sample import paused_queues
from jobs.errors import CoppiceError, InvalidInput, NotFound, TooBroad
from jobs.models import AuditEntry, Queue
from jobs.texts import clean

ROWS = 100
"""Usually."""
ENTRIES = 10
ANY_NAME = r"(?P<name>[\s\S]*)"
"""Also one with a slash, or none at all, which only a hand-written INSERT can make: the pages that
link to every queue must not break on it."""


def _paused(sample: dict[str, Any]) -> Badge | None:
    count = paused_queues(sample)
    if not count:
        return None
    queues = "queue is" if count == 1 else "queues are"
    return Badge(text=f"{count:,} paused", tone="warn", title=f"{count:,} {queues} paused")


@admin.register(Queue)
class QueueAdmin(ConsoleAdmin):
    """A queue is a name: most have no row, and are found by what is in them."""

    nav = Entry(
        label="Queues",
        order=40,
        icon="queues",
        key="q",
        badge=_paused,
        live="paused_queues",
        tone="warn",
    )

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view
        return [
            path("", view(self.changelist_view), name="jobs_queue_changelist"),
            re_path(f"^{ANY_NAME}/act/\\Z", view(self.act_view), name="jobs_queue_act"),
            re_path(f"^{ANY_NAME}/\\Z", view(self.queue_view), name="jobs_queue_change"),
        ]

    def changelist_view(
        self,
        request: HttpRequest,
        extra_context: dict[str, Any] | None = None,  # noqa: ARG002
    ) -> HttpResponse:
        self.require_view(request)
        after = clean(request.GET.get("after", ""), 60)
        rows = size_of(request, ROWS)
        try:
            found = flows.read(after=after, limit=rows + 1) if after else flows.flows()
        except TooBroad:
            found = None
        context = {
            "title": "Queues",
            "flows": found and found[:rows],
            "too_broad": found is None,
            "older": found[rows - 1].name if found and len(found) > rows else "",
            "after": after,
            "may_pause": self.may(request, permissions.PAUSE_QUEUE),
        }
        return self.page(request, "admin/jobs/queue/list.html", context)

    def queue_view(self, request: HttpRequest, name: str) -> HttpResponse:
        self.require_view(request)
        try:
            flow = flows.one(name)
        except NotFound:
            raise Http404 from None
        serving = fleet.serving(fleet.living(), name)
        try:
            inside = one_queue.inside(name, serving)
        except TooBroad:
            inside = None
        context = {
            "title": name,
            "flow": flow,
            "queue": flow.queue,
            "inside": inside,
            "workers": [fleet.shown(worker) for worker in serving],
            "history": self._history(request, name),
            "may_pause": self.may(request, permissions.PAUSE_QUEUE),
            "bulk": self._bulk(request, flow),
            "list": self.address("changelist"),
            "here": request.path,
            **chart_context(span_of(request), queue=name),
        }
        return self.page(request, "admin/jobs/queue/page.html", context)

    def act_view(self, request: HttpRequest, name: str) -> HttpResponse:
        """Pause or resume; then one is where one was."""
        self.require_view(request)
        if request.method != "POST":
            return HttpResponseRedirect(self._page_of(name))
        if not self.may(request, permissions.PAUSE_QUEUE):
            raise PermissionDenied
        try:
            self._act(request, name)
        except InvalidInput as error:
            if error.field != "until":
                raise Http404 from None  # a name that no queue can have
            messages.error(request, f"Nothing was changed: {error}")
        except CoppiceError as error:
            messages.error(request, f"Nothing was changed: {error}")
        sample.forget()
        kept.forget(flows.NAME, numbers.NAME)
        return pages.back_to(request, self._page_of(name))

    def _act(self, request: HttpRequest, name: str) -> None:
        by, reason = request.user.get_username(), confirming.reason(request)
        text = request.POST.get("until", "").strip()
        until = moments.given(text, "until") if text else None
        match request.POST.get("action"):
            case "pause" if lifecycle.pause_queue(name, until=until, reason=reason, by=by):
                end = "" if until is None else f" until {clocks.said(until)}"
                messages.success(request, f"Queue {name} is paused{end}. What runs goes on.")
            case "pause":
                messages.warning(request, f"Nothing was changed: {name} was paused before.")
            case "resume" if lifecycle.resume_queue(name, by=by):
                messages.success(request, f"Queue {name} goes on.")
            case "resume":
                messages.warning(request, f"Nothing was changed: {name} was not paused.")
            case _:
                messages.error(request, "Nothing was changed: there is no such action.")

    def _bulk(self, request: HttpRequest, flow: flows.Flow) -> list[tuple[str, str]]:
        """What may be done to all that are ready: the words, and the page that asks first."""
        if not flow.queue.depth:
            return []
        offered = (
            ("move_queue", "Move all ready to another queue", permissions.EDIT),
            ("change_priority", "Change the priority of all ready", permissions.EDIT),
            ("cancel", "Cancel all ready", permissions.CANCEL),
        )
        place = reverse("admin:jobs_job_bulk", current_app=self.admin_site.name)
        return [
            (label, f"{place}?{urlencode({'action': name, 'state': 'ready', 'queue': flow.name})}")
            for name, label, permission in offered
            if self.may(request, permission)
        ]

    def _history(self, request: HttpRequest, name: str) -> list[AuditEntry] | None:
        """None: the reader may not see the audit."""
        if not self.may(request, permissions.VIEW_AUDIT):
            return None
        found = AuditEntry.objects.using(conf.get().database).filter(
            object_id=name, action__startswith="queue."
        )
        return list(found.order_by("-id")[:ENTRIES])

    def _page_of(self, name: str) -> str:
        return self.address("change", name)
