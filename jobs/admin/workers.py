"""Workers in the console: by host, what each runs, when it was heard of; quiet, stop or forget one."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path

from jobs import lifecycle, permissions, workers
from jobs.admin.overview import fleet, one_worker
from jobs.console import confirming, kept, pages
from jobs.console.admins import ConsoleAdmin
from jobs.console.confirming import Question
from jobs.console.navigation import Badge, Entry
from jobs.console.sample import stale_workers
from jobs.console.words import sentence
from jobs.database import DjangoDatabase
from jobs.errors import Conflict, CoppiceError, NotFound
from jobs.models import Worker
from jobs.workers import WorkerFacts

ENDED = 20
WHAT = "It finishes what it runs, takes nothing new, and ends. Its supervisor starts no other."
RECOVERED = (
    "Declares it dead, and makes its jobs due again, the attempts spent; those that were asked to stop"
    " are cancelled. A live worker does this by itself within seconds. Should this one be at work after"
    " all, what it writes is refused."
)
ASKS = (
    ("quiet", "Quiet", "held", ""),
    ("resume", "Resume", "running", ""),
    ("recover", "Recover its jobs", "repeat", "Declare it dead and take back its jobs?"),
    ("forget", "Forget", "x", ""),
)
"""What may be asked beside stopping it: its words, icon, and what the second step asks."""


def _stale(sample: dict[str, Any]) -> Badge | None:
    count = stale_workers(sample)
    if not count:
        return None
    some = "worker shows" if count == 1 else "workers show"
    return Badge(text=f"{count:,} stale", tone="bad", title=f"{count:,} {some} no sign of life")


@admin.register(Worker)
class WorkerAdmin(ConsoleAdmin):
    nav = Entry(
        label="Workers",
        order=50,
        icon="workers",
        key="w",
        badge=_stale,
        live="stale_workers",
        tone="bad",
    )

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view
        return [
            path("", view(self.changelist_view), name="jobs_worker_changelist"),
            path("<uuid:id>/", view(self.worker_view), name="jobs_worker_change"),
            path("<uuid:id>/stop/", view(self.stop_view), name="jobs_worker_stop"),
            path("<uuid:id>/act/", view(self.act_view), name="jobs_worker_act"),
        ]

    def changelist_view(
        self,
        request: HttpRequest,
        extra_context: dict[str, Any] | None = None,  # noqa: ARG002
    ) -> HttpResponse:
        self.require_view(request)
        found = fleet.living()
        context = {
            "title": "Workers",
            "hosts": fleet.by_host(found),
            "totals": fleet.totals(found),
            "versions": fleet.versions(found),
            "is_cut": len(found) == fleet.MOST,
            "ended": workers.ended(DjangoDatabase(), limit=ENDED),
            "may_stop": self.may(request, permissions.CONTROL_WORKER),
            "asks": ASKS,
        }
        return self.page(request, "admin/jobs/worker/list.html", context)

    def worker_view(self, request: HttpRequest, id: UUID) -> HttpResponse:
        self.require_view(request)
        worker = _find(id)
        context = {
            "title": worker.name,
            "worker": worker,
            "shown": fleet.shown(worker),
            "last": one_worker.last_jobs(worker),
            "looked_at": one_worker.LOOKED_AT,
            "may_stop": self.may(request, permissions.CONTROL_WORKER),
            "asks": ASKS,
            "list": self.address("changelist"),
        }
        return self.page(request, "admin/jobs/worker/page.html", context)

    def stop_view(self, request: HttpRequest, id: UUID) -> HttpResponse:
        """Ask it to stop after what it runs, once that is confirmed."""
        self.require_view(request)
        here = self.address("change", id)
        if request.method != "POST":
            return HttpResponseRedirect(here)
        if not self.may(request, permissions.CONTROL_WORKER):
            raise PermissionDenied
        worker = _find(id)
        if not confirming.is_confirmed(request):
            return self._ask(request, worker, here)
        try:
            asked = lifecycle.stop_worker(
                id, reason=confirming.reason(request), by=request.user.get_username()
            )
        except Conflict as error:
            messages.warning(request, f"Nothing was changed: {sentence(error)}")
        else:
            if asked:
                messages.success(request, f"{worker.name} was asked to stop. {WHAT}")
            else:
                messages.warning(request, f"{worker.name} had been asked to stop before.")
        kept.forget(fleet.NAME)
        return pages.back_to(request, here)

    def act_view(self, request: HttpRequest, id: UUID) -> HttpResponse:
        """Quiet, resume, recover or forget it; then one is where one was."""
        self.require_view(request)
        here = self.address("change", id)
        if request.method != "POST":
            return HttpResponseRedirect(here)
        if not self.may(request, permissions.CONTROL_WORKER):
            raise PermissionDenied
        worker = _find(id)
        name = request.POST.get("action", "")
        if name == "recover" and not confirming.is_confirmed(request):
            return self._ask_to_recover(request, worker, here)
        try:
            messages.success(request, _act(request, worker, name))
        except CoppiceError as error:
            messages.warning(request, f"Nothing was changed: {sentence(error)}")
        else:
            here = self.address("changelist") if name == "forget" else here
        kept.forget(fleet.NAME)
        return pages.back_to(request, here)

    def _ask(self, request: HttpRequest, worker: WorkerFacts, here: str) -> HttpResponse:
        question = Question(
            title=f"Stop {worker.name}",
            what=WHAT,
            button="Stop after current jobs",
            back=here,
            facts=[("Worker", worker.name), ("Runs", f"{worker.busy} of {worker.concurrency}")],
            hidden=[("next", request.POST.get("next", ""))],
            is_dangerous=True,
        )
        context = {"title": question.title, "question": question}
        return self.page(request, "admin/console/confirm.html", context)

    def _ask_to_recover(self, request: HttpRequest, worker: WorkerFacts, here: str) -> HttpResponse:
        question = Question(
            title=f"Recover the jobs of {worker.name}",
            what=RECOVERED,
            button="Recover its jobs",
            back=here,
            facts=[("Worker", worker.name), ("Holds", f"{worker.held:,} jobs")],
            hidden=[("action", "recover"), ("next", request.POST.get("next", ""))],
            is_dangerous=True,
        )
        context = {"title": question.title, "question": question}
        return self.page(request, "admin/console/confirm.html", context)


class Unchanged(CoppiceError):
    """It was so before."""


def _act(request: HttpRequest, worker: WorkerFacts, name: str) -> str:
    """What was done, in words. Raises CoppiceError."""
    by, reason = request.user.get_username(), confirming.reason(request)
    match name:
        case "quiet":
            if not lifecycle.quiet_worker(worker.id, reason=reason, by=by):
                raise Unchanged(f"{worker.name} had been asked to be quiet before")
            return f"{worker.name} was asked to be quiet: it claims nothing until it is resumed."
        case "resume":
            if not lifecycle.resume_worker(worker.id, by=by):
                raise Unchanged(f"{worker.name} was not asked to be quiet")
            return f"{worker.name} was asked to go on."
        case "recover":
            count = lifecycle.recover_worker(worker.id, reason=reason, by=by)
            jobs = "1 job was" if count == 1 else f"{count:,} jobs were"
            return f"{worker.name} is declared dead. {jobs} taken back."
        case "forget":
            lifecycle.forget_worker(worker.id, reason=reason, by=by)
            return f"{worker.name} is forgotten."
        case _:
            raise Unchanged("there is no such action")


def _find(id: UUID) -> WorkerFacts:
    try:
        return workers.one(DjangoDatabase(), id)
    except NotFound:
        raise Http404 from None
