"""The pages: webhooks and recipients of e-mail, and one webhook with its deliveries."""

# ruff: noqa: ARG002 - Django hands over more than is needed.

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.db.models import OuterRef, Subquery
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path
from django.views.decorators.debug import sensitive_variables

from jobs import conf, permissions, webhooks
from jobs.admin.alerting import recipients
from jobs.console import confirming
from jobs.console.admins import ConsoleAdmin
from jobs.console.confirming import Question
from jobs.console.lists import AFTER, BEFORE, Walk, size_of
from jobs.console.navigation import MANAGE, Entry
from jobs.errors import CoppiceError, InvalidInput, NotFound
from jobs.models import AlertRecipient, Webhook, WebhookDelivery
from jobs.texts import clean
from jobs.webhooks.operating import MOST, TYPE

WALK = Walk(order=("-id",))
SHOWN = 25
LABELS = {"name": "Name", "url": "Address", "events": "Events", "address": "E-mail address"}
"""What the forms call a field."""


@admin.register(Webhook)
class WebhookAdmin(ConsoleAdmin):
    nav = Entry(label="Alerts & webhooks", section=MANAGE, order=620, icon="alerts")
    view_permission = permissions.MANAGE_ALERTS

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view
        return [
            path("", view(self.changelist_view), name="jobs_webhook_changelist"),
            path("<uuid:id>/", view(self.webhook_view), name="jobs_webhook_change"),
        ]

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        self.require_view(request)
        given: dict[str, str] = {}
        problem = ""
        if request.method == "POST":
            try:
                return self._act_on_list(request)
            except CoppiceError as error:
                given, problem = request.POST.dict(), _said(error)
        alias = conf.get().database
        context = {
            "title": "Alerts & webhooks",
            "webhooks": _with_last_deliveries(),
            "delivery_type": TYPE,
            "recipients": list(AlertRecipient.objects.using(alias).order_by("address")[:MOST]),
            "offered": webhooks.EVENTS.items(),
            "limit": conf.get().dead_letter_alert,
            "given": given,
            "problem": problem,
        }
        status = 422 if problem else 200
        return self.page(request, "admin/jobs/webhook/list.html", context, status=status)

    def webhook_view(self, request: HttpRequest, id: UUID) -> HttpResponse:
        self.require_view(request)
        try:
            webhook = webhooks.get(id)
        except NotFound:
            raise Http404 from None
        problem, given = "", {"name": webhook.name, "url": webhook.url}
        ticked = _ticked(webhook.events)
        if request.method == "POST":
            try:
                return self._act_on_one(request, webhook)
            except CoppiceError as error:
                problem = _said(error)
                if request.POST.get("action") == "save":  # what was typed stays
                    given, ticked = request.POST.dict(), set(request.POST.getlist("events"))
        context = {
            "title": webhook.name,
            "webhook": webhook,
            "delivery_type": TYPE,
            "given": given,
            "offered": [(name, words, name in ticked) for name, words in webhooks.EVENTS.items()],
            "problem": problem,
            "list": self.address("changelist"),
            "here": request.path,
            **self._deliveries(request, webhook),
        }
        status = 422 if problem else 200
        return self.page(request, "admin/jobs/webhook/page.html", context, status=status)

    def _deliveries(self, request: HttpRequest, webhook: Webhook) -> dict[str, Any]:
        rows = WebhookDelivery.objects.using(conf.get().database).filter(webhook=webhook)
        after = clean(request.GET.get(AFTER, ""), 40)
        before = clean(request.GET.get(BEFORE, ""), 40)
        size = size_of(request, SHOWN)
        try:
            found, newer, older = WALK.page(rows, after=after, before=before, size=size)
        except InvalidInput:
            found, newer, older = WALK.page(rows, after="", before="", size=size)
        return {
            "deliveries": found,
            "newer": f"?{BEFORE}={found[0].id}" if found and newer else "",
            "older": f"?{AFTER}={found[-1].id}" if found and older else "",
            "newest": request.path if newer else "",
        }

    @sensitive_variables("secret")
    def _act_on_list(self, request: HttpRequest) -> HttpResponse:
        by, post = request.user.get_username(), request.POST
        match post.get("action"):
            case "create":
                webhook, secret = webhooks.create(
                    post.get("name", ""), post.get("url", ""), post.getlist("events"), by=by
                )
                return self._show_secret(request, webhook, secret)
            case "add":
                found = recipients.add(post.get("address", ""), post.getlist("events"), by=by)
                messages.success(request, f"{found.address} is told by e-mail from now on.")
            case "remove":
                address = recipients.remove(post.get("recipient", ""), by=by)
                messages.success(request, f"{address} is not told any more.")
            case _:
                messages.error(request, "Nothing was changed: there is no such action.")
        return HttpResponseRedirect(self.address("changelist"))

    @sensitive_variables("secret")
    def _act_on_one(self, request: HttpRequest, webhook: Webhook) -> HttpResponse:
        by, post = request.user.get_username(), request.POST
        action = post.get("action", "")
        if action in ("delete", "secret") and not confirming.is_confirmed(request):
            asked = _question(webhook, action, request.path)
            context = {"title": asked.title, "question": asked}
            return self.page(request, "admin/console/confirm.html", context)
        if action == "secret":
            return self._show_secret(request, *webhooks.new_secret(webhook, by=by))
        told = "Nothing was changed: there is no such action."
        match action:
            case "save":
                webhooks.change(
                    webhook,
                    name=post.get("name", ""),
                    url=post.get("url", ""),
                    events=_patterns(webhook.events, set(post.getlist("events"))),
                    by=by,
                )
                told = f"{post.get('name', '')} is saved."
            case "enable" | "disable":
                webhooks.change(webhook, enabled=action == "enable", by=by)
                told = f"{webhook.name} is {action}d."
            case "test":
                webhooks.send_test(webhook, by=by)
                told = "A test is on its way: a worker sends it. See the deliveries below."
            case "redeliver":
                webhooks.redeliver(post.get("delivery", ""), by=by)
                told = "It is sent once more, as a delivery of its own."
            case "delete":
                webhooks.delete(webhook, by=by)
                messages.success(request, f"{webhook.name} is deleted.")
                return HttpResponseRedirect(self.address("changelist"))
        messages.info(request, told)
        return HttpResponseRedirect(request.path)

    @sensitive_variables("secret")
    def _show_secret(self, request: HttpRequest, webhook: Webhook, secret: str) -> HttpResponse:
        context = {
            "title": f"The secret of {webhook.name}",
            "webhook": webhook,
            "secret": secret,
            "next": self.address("change", webhook.id),
        }
        return self.page(request, "admin/jobs/webhook/secret.html", context)


def _with_last_deliveries() -> list[tuple[Webhook, WebhookDelivery | None]]:
    alias = conf.get().database
    deliveries = WebhookDelivery.objects.using(alias)
    newest = deliveries.filter(webhook=OuterRef("pk")).order_by("-id").values("id")[:1]
    known = Webhook.objects.using(alias).annotate(last_id=Subquery(newest)).order_by("-id")[:MOST]
    last = deliveries.defer("body", "response").in_bulk([each.last_id for each in known])
    return [(each, last.get(each.last_id)) for each in known]


def _ticked(patterns: Iterable[str]) -> set[str]:
    """The events of the form that the patterns mean."""
    return {name for each in patterns for name in webhooks.EVENTS if fnmatchcase(name, each)}


def _patterns(before: Iterable[str], ticked: set[str]) -> list[str]:
    """What is ticked, by the patterns from before as far as they mean nothing else of the form."""
    kept = [each for each in before if _ticked([each]) <= ticked]
    return [*kept, *(name for name in webhooks.EVENTS if name in ticked - _ticked(kept))]


def _said(error: CoppiceError) -> str:
    if isinstance(error, InvalidInput) and error.field in LABELS:
        return f"Nothing was changed. {LABELS[error.field]}: {error.message}."
    return f"Nothing was changed. {error}"


def _question(webhook: Webhook, action: str, back: str) -> Question:
    words: dict[str, tuple[str, str, str]] = {
        "delete": (
            f"Delete {webhook.name}",
            "Deletes the webhook with the record of its deliveries. What waits is not sent.",
            "Delete the webhook",
        ),
        "secret": (
            f"A new secret for {webhook.name}",
            "Makes a new secret. The receiver refuses deliveries until it knows it.",
            "Make a new secret",
        ),
    }
    title, what, button = words[action]
    return Question(
        title=title,
        what=what,
        button=button,
        back=back,
        hidden=[("action", action)],
        has_reason=False,
        is_dangerous=action == "delete",
    )
