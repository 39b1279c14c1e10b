"""What is pictured: every page of the console, by the route that answers, and the states it can be in.

A page that the navigation leads to is here by itself. For any other, `PAGES` needs a line, or `NOT_PAGES`
the reason why there is nothing to look at; `tests/console/test_pictures.py` compares both with all routes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.contrib import admin
from django.urls import resolve

from jobs.admin.ledger.tabs import TABS
from jobs.console import navigation
from jobs.models import Worker
from tests.factories import ago

VARIABLE = re.compile(r"<[^>]+>")
SUPERUSER, NOBODY, STRANGER = "admin", "newcomer", ""
"""Whose page it is: names of `scene.PEOPLE`. `newcomer` is of no group; "" has not signed in."""


@dataclass(frozen=True, kw_only=True)
class Picture:
    name: str
    route: str
    """As the resolver has it."""
    of: str = ""
    """What fills the variable of the route: a name of `scene.Things`, or "=" and the text itself."""
    query: str = ""
    """May hold "{name}", a name of `scene.Things`."""
    begin: str = ""
    """Where one comes from, if the route itself answers no GET."""
    who: str = SUPERUSER
    then: Callable[[Any], None] | None = None
    """What is done with the page before it is pictured."""
    before: Callable[[], None] | None = None
    """What is done with the rows before. Such pictures come last."""
    also_empty: bool = True
    has_script: bool = True
    is_whole: bool = True
    """To the end of the page, or only as far as the window reaches."""
    is_without_database: bool = False
    status: int = 200

    @property
    def is_for_empty(self) -> bool:
        """Whether a site without any rows has it."""
        is_made_of_rows = self.of and not self.of.startswith("=")
        return self.also_empty and not is_made_of_rows

    def path(self, things: dict[str, str]) -> str:
        if self.begin:
            return self.begin
        value = self.of.removeprefix("=") if self.of.startswith("=") else things.get(self.of, "")
        path = VARIABLE.sub(lambda _: value, self.route)
        query = re.sub(r"\{([^}]+)\}", lambda found: things[found[1]], self.query)
        return f"/{path}{'?' if query else ''}{query}"


def pictures() -> list[Picture]:
    """All, in the order in which they are taken and shown."""
    listed = [*_of_navigation(), *PAGES]
    return sorted(listed, key=lambda picture: picture.before is not None)


def _of_navigation() -> list[Picture]:
    found = []
    for entry in navigation.entries():
        if url := navigation.address(admin.site, entry):
            path, _, query = url.partition("?")
            name = re.sub(r"[^a-z]+", "-", entry.label.lower())
            found.append(Picture(name=name, route=resolve(path).route, query=query))
    return found


# What is done with a page first


def press(name: str) -> Callable[[Any], None]:
    """A button or a link, by its first words; the page that it leads to is pictured."""

    def do(page: Any) -> None:
        words = re.compile(f"^{re.escape(name)}")
        button = page.locator("main").get_by_role("button", name=words)
        link = page.locator("main").get_by_role("link", name=words)
        button.or_(link).first.click()
        page.wait_for_load_state()

    return do


def unfold(selector: str) -> Callable[[Any], None]:
    def do(page: Any) -> None:
        page.locator(selector).first.click()

    return do


def send(page: Any) -> None:
    """The form that asks whether something is to be done."""
    page.locator("form.confirm button[type=submit]").last.click()
    page.wait_for_load_state()


def fill(then: Callable[[Any], None], **fields: str) -> Callable[[Any], None]:
    """Write into the fields, by their ids, and go on."""

    def do(page: Any) -> None:
        for id, value in fields.items():
            field = page.locator(f"#{id.replace('__', '-')}")
            if field.evaluate("field => field.tagName") == "SELECT":
                field.select_option(value)
            else:
                field.fill(value)
        then(page)

    return do


def tick(page: Any) -> None:
    for number in range(3):
        page.locator("tbody input[type=checkbox]").nth(number).check()


def menu(page: Any) -> None:
    """The navigation, which a narrow screen keeps folded."""
    if page.locator(".menu-link").is_visible():
        page.locator(".menu-link").click()
    else:
        page.locator(".user summary").click()


def new_secret(page: Any) -> None:
    press("New secret…")(page)
    send(page)
    page.locator("#secret").wait_for()


def log_out(page: Any) -> None:
    page.locator(".user summary").click()
    page.get_by_role("button", name="Log out").click()
    page.wait_for_url("**/admin/logout/")


def _no_live_worker() -> None:
    Worker.objects.update(beat_at=ago(minutes=2))


def wait_for_alarm(page: Any) -> None:
    page.locator(".health", has_text="No worker is running").wait_for()


JOBS, JOB = "admin/jobs/job/", "admin/jobs/job/<uuid:id>/"
RUN = "admin/ranges/rangerun/<uuid:id>/"
GROUP = "state=dead&type=deliver_webhook&error_fingerprint=0000000000000000"

PAGES = (
    Picture(name="overview-viewer", route="admin/", who="viewer", also_empty=False),
    Picture(name="overview-nobody", route="admin/", who=NOBODY, also_empty=False),
    Picture(name="overview-menu", route="admin/", then=menu, also_empty=False, is_whole=False),
    Picture(
        name="overview-keys",
        route="admin/",
        then=lambda page: page.keyboard.press("?"),
        also_empty=False,
        is_whole=False,
    ),
    Picture(
        name="overview-alarm",
        route="admin/",
        before=_no_live_worker,
        then=wait_for_alarm,
        also_empty=False,
    ),
    # Jobs
    *(
        Picture(name=f"jobs-{tab}", route=JOBS, query=f"state={tab}", also_empty=False)
        for tab in TABS
        if tab not in ("active", "dead")
    ),
    Picture(name="jobs-ticked", route=JOBS, query="state=dead", then=tick, also_empty=False),
    Picture(
        name="jobs-filtered",
        route=JOBS,
        query="state=dead&queue=webhooks&priority=9&q=error:%22timed%20out%22&min_attempt_count=2",
        also_empty=False,
    ),
    Picture(name="jobs-nothing", route=JOBS, query="state=completed&type=none", also_empty=False),
    Picture(
        name="jobs-columns",
        route=JOBS,
        query="state=dead",
        then=unfold(".object-tools .is-form summary"),
        also_empty=False,
        is_whole=False,
    ),
    Picture(
        name="jobs-all-that-match",
        route=JOBS,
        query="state=dead",
        then=unfold("#selection summary"),
        also_empty=False,
        is_whole=False,
    ),
    Picture(
        name="jobs-retry-all",
        route="admin/jobs/job/bulk/",
        query=f"action=retry&{GROUP}",
        also_empty=False,
    ),
    Picture(
        name="jobs-purge-all",
        route="admin/jobs/job/bulk/",
        query="action=purge&state=dead",
        also_empty=False,
    ),
    Picture(
        name="jobs-move-all",
        route="admin/jobs/job/bulk/",
        query="action=move_queue&state=ready&queue=mail",
        also_empty=False,
    ),
    Picture(
        name="jobs-typed-wrong",
        route="admin/jobs/job/bulk/",
        query="action=purge&state=dead",
        then=fill(send, ask__typed="purge 1"),
        also_empty=False,
    ),
    # A job
    *(
        Picture(name=f"job-{state}", route=JOB, of=f"{state} job")
        for state in (
            "dead",
            "completed",
            "running",
            "blocked",
            "retrying",
            "scheduled",
            "held",
            "ready",
            "cancelling",
            "cancelled",
        )
    ),
    Picture(name="job-viewer", route=JOB, of="dead job", who="viewer"),
    Picture(name="job-change", route=JOB, of="ready job", then=unfold(".object-tools summary")),
    Picture(name="job-armed", route=JOB, of="dead job", then=press("Purge")),
    Picture(name="job-purge", route=JOB, of="dead job", then=press("Purge"), has_script=False),
    Picture(name="job-purged", route=JOB, of="purged job", status=404),
    Picture(name="job-payload", route=f"{JOB}payload/", of="dead job"),
    Picture(
        name="job-payload-wrong",
        route=f"{JOB}payload/",
        of="dead job",
        then=fill(send, payload='{"url": "hooks.example.net"}'),
    ),
    Picture(name="new-job", route="admin/jobs/job/add/"),
    Picture(
        name="new-job-form",
        route="admin/jobs/job/add/",
        query="type=write_invoice",
        also_empty=False,
    ),
    Picture(
        name="new-job-json",
        route="admin/jobs/job/add/",
        query="type=sync_inventory",
        also_empty=False,
    ),
    Picture(
        name="new-job-wrong",
        route="admin/jobs/job/add/",
        query="type=write_invoice",
        then=fill(press("Create"), queue="no such queue!"),
        also_empty=False,
    ),
    # Dead letters
    Picture(
        name="dead-letters-group",
        route="admin/jobs/job/dead-letters/",
        query=GROUP,
        also_empty=False,
    ),
    Picture(
        name="dead-letters-viewer",
        route="admin/jobs/job/dead-letters/",
        who="viewer",
        also_empty=False,
    ),
    # Queues and workers
    Picture(name="queue", route="admin/jobs/queue/<name>/", of="queue"),
    Picture(name="queue-paused", route="admin/jobs/queue/<name>/", of="paused queue"),
    Picture(
        name="queue-pause",
        route="admin/jobs/queue/",
        then=unfold(".actions .menu summary"),
        also_empty=False,
    ),
    Picture(name="worker", route="admin/jobs/worker/<uuid:id>/", of="worker"),
    Picture(
        name="worker-stop",
        route="admin/jobs/worker/<uuid:id>/",
        of="worker",
        then=press("Stop after current jobs"),
        has_script=False,
    ),
    Picture(
        name="worker-stale",
        route="admin/jobs/worker/<uuid:id>/",
        of="worker",
        before=_no_live_worker,
    ),
    Picture(
        name="workers-stale",
        route="admin/jobs/worker/",
        before=_no_live_worker,
        also_empty=False,
    ),
    # Schedules
    Picture(name="schedule", route="admin/jobs/schedule/<uuid:id>/", of="schedule"),
    Picture(name="schedule-off", route="admin/jobs/schedule/<uuid:id>/", of="disabled schedule"),
    Picture(name="schedule-add", route="admin/jobs/schedule/add/"),
    Picture(name="schedule-edit", route="admin/jobs/schedule/<uuid:id>/edit/", of="schedule"),
    Picture(
        name="schedule-wrong",
        route="admin/jobs/schedule/<uuid:id>/edit/",
        of="schedule",
        then=fill(press("Save"), s__cron="61 8 * *"),
    ),
    Picture(
        name="schedule-delete",
        route="admin/jobs/schedule/<uuid:id>/",
        of="schedule",
        then=press("Delete…"),
    ),
    # Range runs
    *(
        Picture(name=f"range-run-{name.replace(' ', '-')}", route=RUN, of=f"{name} run")
        for name in (
            "running",
            "paused",
            "completed",
            "partly failed",
            "failed",
            "cancelled",
            "created",
        )
    ),
    Picture(
        name="range-run-window",
        route=RUN,
        of="running run",
        query="from=20000000&to=24000000",
    ),
    Picture(name="range-run-proof", route=RUN, of="completed run", query="proof=1"),
    Picture(
        name="range-run-lanes",
        route=RUN,
        of="running run",
        then=unfold("#retune summary"),
        is_whole=False,
    ),
    Picture(name="range-run-viewer", route=RUN, of="running run", who="viewer"),
    Picture(name="range-runs-none", route="admin/ranges/rangerun/", query="state=running&job=none"),
    Picture(name="range-failures", route="admin/ranges/rangefailure/"),
    Picture(
        name="range-failure",
        route="admin/ranges/rangefailure/<path:object_id>/change/",
        of="failure",
    ),
    Picture(
        name="range-failure-history",
        route="admin/ranges/rangefailure/<path:object_id>/history/",
        of="failure",
    ),
    # Bulk operations
    Picture(name="bulk-ended", route="admin/jobs/bulkoperation/<uuid:id>/", of="bulk operation"),
    Picture(
        name="bulk-running",
        route="admin/jobs/bulkoperation/<uuid:id>/",
        of="running bulk operation",
    ),
    Picture(
        name="bulk-again", route="admin/jobs/bulkoperation/<uuid:id>/again/", of="bulk operation"
    ),
    # Alerts and webhooks, audit, tokens
    Picture(name="webhook", route="admin/jobs/webhook/<uuid:id>/", of="webhook"),
    Picture(
        name="webhook-wrong",
        route="admin/jobs/webhook/<uuid:id>/",
        of="webhook",
        then=fill(press("Save"), w__url="https://10.0.0.8/hook"),
    ),
    Picture(
        name="webhook-secret",
        route="admin/jobs/webhook/<uuid:id>/",
        of="webhook",
        then=new_secret,
    ),
    Picture(
        name="audit-filtered",
        route="admin/jobs/auditentry/",
        query="actor=operator&from=never",
        also_empty=False,
    ),
    Picture(
        name="audit-details",
        route="admin/jobs/auditentry/",
        then=unfold("details.under summary"),
        also_empty=False,
    ),
    Picture(name="settings-closer", route="admin/settings/", query="look=closer", also_empty=False),
    Picture(name="token", route="admin/jobs/apitoken/<path:object_id>/change/", of="token"),
    Picture(
        name="token-history", route="admin/jobs/apitoken/<path:object_id>/history/", of="token"
    ),
    Picture(name="token-add", route="admin/jobs/apitoken/add/"),
    Picture(
        name="token-wrong",
        route="admin/jobs/apitoken/add/",
        then=fill(press("Save"), id_name="", id_username="nobody"),
        also_empty=False,
    ),
    Picture(
        name="token-created",
        route="admin/jobs/apitoken/add/",
        then=fill(press("Save"), id_name="Nightly import", id_username="admin"),
        also_empty=False,
    ),
    # Django's own pages
    *(
        Picture(name=f"{model}{suffix}", route=f"admin/{app}/{model}/{rest}", of=of)
        for app, model, key in (
            ("auth", "user", "user"),
            ("auth", "group", "group"),
            ("geonames", "city", "city"),
            ("geonames", "countrysummary", "country"),
        )
        for suffix, rest, of in (
            ("-list", "", ""),
            ("-add", "add/", ""),
            ("-change", "<path:object_id>/change/", key),
            ("-history", "<path:object_id>/history/", key),
            ("-delete", "<path:object_id>/delete/", key),
        )
    ),
    Picture(
        name="user-wrong",
        route="admin/auth/user/add/",
        then=fill(press("Save"), id_username="not a name!"),
        also_empty=False,
    ),
    Picture(name="user-password", route="admin/auth/user/<id>/password/", of="user"),
    Picture(name="app", route="admin/<app_label>/", of="=auth", also_empty=False),
    Picture(name="password", route="admin/password_change/", also_empty=False),
    Picture(name="password-done", route="admin/password_change/done/", also_empty=False),
    Picture(name="login", route="admin/login/", who=STRANGER, also_empty=False),
    Picture(
        name="login-wrong",
        route="admin/login/",
        who=STRANGER,
        then=fill(press("Log in"), id_username="admin", id_password="not-the-password"),
        also_empty=False,
    ),
    Picture(
        name="logout",
        route="admin/logout/",
        begin="/admin/password_change/",
        who="supervisor",
        then=log_out,
        also_empty=False,
    ),
    Picture(name="problem-403", route=JOBS, who=NOBODY, status=403, also_empty=False),
    Picture(name="problem-404", route="admin/<url>", of="=nowhere/", status=404, also_empty=False),
    Picture(
        name="problem-503",
        route=JOBS,
        is_without_database=True,
        status=503,
        also_empty=False,
    ),
    # Beside the console
    Picture(
        name="swagger",
        route="api-docs",
        then=lambda page: page.locator(".opblock").first.wait_for(),
        is_whole=False,
        also_empty=False,
    ),
)

NOT_PAGES = {
    "admin/autocomplete/": "JSON, for a field",
    "admin/events/export/": "a file",
    "admin/events/lines/": "lines of the events, pictured there",
    "admin/jobs/worker/<uuid:id>/act/": "takes what a button sends",
    "admin/ranges/rangerun/<uuid:id>/rates.json": "JSON, for the charts",
    "admin/badges/": "JSON, for the navigation",
    "admin/figures/": "JSON, for the charts",
    "admin/jsi18n/": "a script",
    "admin/overview/": "parts of the overview, pictured there",
    "admin/r/<path:content_type_id>/<path:object_id>/": "leads elsewhere",
    "admin/auth/group/<path:object_id>/": "leads elsewhere",
    "admin/auth/user/<path:object_id>/": "leads elsewhere",
    "admin/geonames/city/<path:object_id>/": "leads elsewhere",
    "admin/geonames/countrysummary/<path:object_id>/": "leads elsewhere",
    "admin/jobs/apitoken/<path:object_id>/": "leads elsewhere",
    "admin/jobs/apitoken/<path:object_id>/delete/": "nobody may: tokens are revoked",
    "admin/jobs/auditentry/export/": "a file",
    "admin/jobs/bulkoperation/<uuid:id>/act/": "takes what a button sends",
    "admin/jobs/job/<uuid:id>/<slug:name>.json": "a file",
    "admin/jobs/job/<uuid:id>/act/": "takes what a button sends",
    "admin/jobs/job/<uuid:id>/change/": "leads elsewhere",
    "admin/jobs/job/columns/": "takes what a button sends",
    "admin/jobs/job/export/": "a file",
    "admin/jobs/queue/<name>/act/": "takes what a button sends",
    "admin/jobs/schedule/<uuid:id>/act/": "takes what a button sends",
    "admin/jobs/worker/<uuid:id>/stop/": "asks what worker-stop shows",
    "admin/ranges/rangefailure/<path:object_id>/": "leads elsewhere",
    "admin/ranges/rangefailure/<path:object_id>/delete/": "nobody may: failures are waived",
    "admin/ranges/rangefailure/add/": "nobody may",
    "admin/ranges/rangerun/<uuid:id>/act/": "takes what a button sends",
    "admin/ranges/rangerun/<uuid:id>/change/": "leads elsewhere",
    "admin/ranges/rangerun/<uuid:id>/picture.json": "JSON, for the drawing",
}
