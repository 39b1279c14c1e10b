"""The pages of schedules."""

# ruff: noqa: ARG002 - Django hands over more than is needed.

from __future__ import annotations

from typing import Any
from uuid import UUID
from zoneinfo import available_timezones

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path, reverse
from django.utils.http import urlencode

from jobs import permissions, registry, schedules
from jobs.admin.page.editing import text_of
from jobs.admin.schedules import acting, form, reading
from jobs.admin.schedules.form import Form
from jobs.console import pages
from jobs.console.admins import ConsoleAdmin
from jobs.console.lists import ROWS, SECONDS, SIZES, size_of
from jobs.console.navigation import Entry
from jobs.console.words import PRIORITIES, sentence
from jobs.database import DjangoDatabase
from jobs.drafts import refuse_internal
from jobs.errors import CoppiceError, NotFound, TooBroad
from jobs.limits import limited
from jobs.masking import reader
from jobs.models import Schedule
from jobs.texts import clean

NEXT_ON_PAGE = 10
MISFIRES = {
    "once": "make up for all of them with one run",
    "skip": "drop them",
    "each": "run every one of them",
}


@admin.register(Schedule)
class ScheduleAdmin(ConsoleAdmin):
    nav = Entry(label="Schedules", order=60, icon="schedules", key="s")

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view
        return [
            path("", view(self.changelist_view), name="jobs_schedule_changelist"),
            path("add/", view(self.add_page), name="jobs_schedule_add"),
            path("<uuid:id>/", view(self.schedule_view), name="jobs_schedule_change"),
            path("<uuid:id>/edit/", view(self.edit_page), name="jobs_schedule_edit"),
            path("<uuid:id>/act/", view(self.act_view), name="jobs_schedule_act"),
        ]

    # Looking

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        self.require_view(request)
        after = clean(request.GET.get("after", ""), 200)
        name = clean(request.GET.get("name", ""), 200).strip()
        which = request.GET.get("which", "")
        which = which if which in ("on", "off") else ""
        size = size_of(request)
        kept = {"name": name, "which": which, "rows": str(size) if ROWS in request.GET else ""}
        try:
            with limited(DjangoDatabase(), seconds=SECONDS):
                rows, more = reading.page(after=after, name=name, which=which, size=size)
                found = reading.shown(rows)
        except TooBroad:
            rows, more, found = [], False, None
        context = {
            "title": "Schedules",
            "rows": found,
            "too_broad": found is None,
            "name": name,
            "which": which,
            "tabs": [
                (label, _query(kept, which=value), value == which)
                for value, label in (("", "All"), ("on", "Enabled"), ("off", "Disabled"))
            ],
            "older": _query(kept, after=rows[-1].name) if more else "",
            "newest": _query(kept) if after else "",
            "sizes": [(each, _query(kept, rows=str(each)), each == size) for each in SIZES],
            "is_narrowed": bool(name or which or after),
            **self._rights(request),
        }
        return self.page(request, "admin/jobs/schedule/list.html", context)

    def schedule_view(self, request: HttpRequest, id: UUID) -> HttpResponse:
        self.require_view(request)
        schedule, sees = _find(id), reader(request.user)
        shown = reading.shown([schedule], count=NEXT_ON_PAGE)[0]
        context = {
            "title": schedule.name,
            "row": shown,
            "schedule": schedule,
            "misfire": MISFIRES.get(schedule.misfire, schedule.misfire),
            "reads": sees.reads,
            "payload": text_of(sees.value(schedule.type, schedule.payload)),
            "metadata": text_of(sees.value(schedule.type, schedule.metadata)),
            "is_known": registry.find(schedule.type) is not None,
            **self._rights(request),
        }
        return self.page(request, "admin/jobs/schedule/page.html", context)

    # Changing

    def add_page(self, request: HttpRequest) -> HttpResponse:
        self._require_edit(request)
        source = self._source(request)
        sees = reader(request.user)
        if request.method != "POST":
            made = form.blank(reads=sees.reads)
            if source is not None:
                made = form.of_schedule(source, sees, is_copy=True)
            return self._form(request, made)
        found = form.given(request.POST.dict(), reads=sees.reads, schedule=None, source=source)
        if request.POST.get("action") == "save":
            try:
                wanted = found.new()
                refuse_internal(type=wanted["type"])
                made_one = schedules.create(
                    **wanted,
                    enabled=bool(request.POST.get("enabled")),
                    by=request.user.get_username(),
                )
            except CoppiceError as error:
                found.refuse(error)
            else:
                messages.success(request, f"{made_one.name} is made.")
                return HttpResponseRedirect(self.address("change", made_one.id))
        return self._form(request, found, status=422 if found.problems else 200)

    def edit_page(self, request: HttpRequest, id: UUID) -> HttpResponse:
        self._require_edit(request)
        schedule, sees = _find(id), reader(request.user)
        if request.method != "POST":
            return self._form(request, form.of_schedule(schedule, sees))
        found = form.given(request.POST.dict(), reads=sees.reads, schedule=schedule, source=None)
        if request.POST.get("action") == "save":
            try:
                changes = found.changes()
                refuse_internal(type=changes.get("type"))
                if changes:
                    schedules.change(schedule, **changes, by=request.user.get_username())
            except CoppiceError as error:
                found.refuse(error)
            else:
                self._say_changed(request, schedule, changes)
                return HttpResponseRedirect(self.address("change", schedule.id))
        return self._form(request, found, status=422 if found.problems else 200)

    def act_view(self, request: HttpRequest, id: UUID) -> HttpResponse:
        self.require_view(request)
        if request.method != "POST":
            return HttpResponseRedirect(self.address("change", id))
        action = request.POST.get("action", "")
        acting.require(request, action)
        schedule, back = _find(id), self.address("change", id)
        if action == "delete":
            back = self.address("changelist")
            if request.POST.get("confirmed") != "yes":
                asked = acting.question(schedule, self.address("change", id), back)
                context = {"title": asked.title, "question": asked}
                return self.page(request, "admin/console/confirm.html", context)
        try:
            acting.act(request, schedule, action, self._job_address)
        except CoppiceError as error:
            messages.error(request, f"Nothing was changed: {sentence(error)}")
        return pages.back_to(request, back)

    def _form(self, request: HttpRequest, found: Form, *, status: int = 200) -> HttpResponse:
        runs = []
        try:
            runs = found.preview()
        except CoppiceError as error:
            if request.method == "POST":
                found.refuse(error)
        schedule = found.schedule
        title = f"Change {schedule.name}" if schedule else "New schedule"
        context = {
            "title": title,
            "form": found,
            "texts": found.texts,
            "problems": found.problems,
            "other_problem": found.problems.get("", ""),
            "runs": runs,
            "schedule": schedule,
            "types": [name for name in registry.types() if not registry.is_internal(name)],
            "zones": sorted(available_timezones()),
            "priorities": [(str(number), word) for number, word in PRIORITIES.items()],
            "units": form.UNITS,
            "misfires": MISFIRES.items(),
            "enabled": request.method != "POST" or bool(request.POST.get("enabled")),
            "back": self.address("change", schedule.id) if schedule else self.address("changelist"),
        }
        return self.page(request, "admin/jobs/schedule/form.html", context, status=status)

    def _say_changed(
        self, request: HttpRequest, schedule: Schedule, changes: dict[str, Any]
    ) -> None:
        if not changes:
            messages.warning(request, "Nothing was changed: every field is as it was.")
            return
        names = ", ".join(sorted(name.replace("_", " ") for name in changes))
        messages.success(request, f"Changed: {names}.")

    def _source(self, request: HttpRequest) -> Schedule | None:
        """The one to be duplicated, from the address."""
        try:
            return _find(UUID(request.GET["copy"])) if "copy" in request.GET else None
        except ValueError:
            raise Http404 from None

    def _rights(self, request: HttpRequest) -> dict[str, bool]:
        return {
            "may_edit": self.may(request, permissions.EDIT_SCHEDULE),
            "may_run": self.may(request, permissions.RUN_SCHEDULE),
        }

    def _require_edit(self, request: HttpRequest) -> None:
        self.require_view(request)
        if not self.may(request, permissions.EDIT_SCHEDULE):
            raise PermissionDenied

    def _job_address(self, id: object) -> str:
        return reverse("admin:jobs_job_change", args=[id], current_app=self.admin_site.name)


def _find(id: UUID) -> Schedule:
    try:
        return schedules.get(id)
    except NotFound:
        raise Http404 from None


def _query(kept: dict[str, str], **more: str) -> str:
    found = {name: value for name, value in {**kept, **more}.items() if value}
    return f"?{urlencode(found)}"
