"""The page of a job and its siblings: its payload to edit, its content as a file, and its absence."""

from __future__ import annotations

import json
from typing import Any, cast
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect

from jobs import conf, lifecycle, permissions, registry
from jobs.admin.page import acting, buttons, editing, purges, reading
from jobs.console import confirming, sample
from jobs.console.confirming import Question
from jobs.console.words import PRIORITIES, sentence
from jobs.errors import CoppiceError, InvalidInput
from jobs.masking import MASKED, reader
from jobs.models import Job
from jobs.states import Status
from jobs.templatetags.console import short

TEMPLATE = "admin/jobs/job/page.html"
CONTENT = ("payload", "result", "metadata")
MARKED_LOST = (
    "Takes the job away from its worker: if it was asked to stop, it is cancelled at once; else it is"
    " due again, or dead if its attempts are spent. The handler itself is not stopped. It may go on"
    " until it returns, and holds its slot so long; but nothing that it writes about this job counts"
    " any more, and an atomic handler's changes are rolled back."
)


def show(admin: Any, request: HttpRequest, id: UUID) -> HttpResponse:
    page = reading.read(request, id)
    if page is None:
        return _missing(admin, request, id)
    found = sample.current().get("jobs", {})
    context = {
        "title": page.job.type,
        "page": page,
        "job": page.job,
        "back": _list(admin, request),
        "here": request.get_full_path(),
        "priorities": list(PRIORITIES.items()),
        "queues": [queue["name"] for queue in found.get("queues", [])],
        "may_read": request.user.has_perm(permissions.VIEW_PAYLOAD),
        "is_known": registry.find(page.job.type) is not None,
    }
    return cast("HttpResponse", admin.page(request, TEMPLATE, context))


def act(admin: Any, request: HttpRequest, id: UUID) -> HttpResponse:
    """A button was pressed."""
    if request.method != "POST":
        return HttpResponseRedirect(admin.address("change", id))
    name = request.POST.get("action", "")
    here = f"{admin.address('change', id)}{_list_query(request)}"
    if name == "change":
        acting.change(request, id)
        return HttpResponseRedirect(here)
    button = buttons.BY_NAME.get(name)
    if button is not None and button.confirm and not confirming.is_confirmed(request):
        return _ask(admin, request, id, button, here)
    answer = acting.act(request, id, name)
    if isinstance(answer, UUID):
        return HttpResponseRedirect(admin.address("change", answer))
    return HttpResponseRedirect(_list(admin, request) if answer == "purged" else here)


def edit(admin: Any, request: HttpRequest, id: UUID) -> HttpResponse:
    """The payload of a dead letter as text."""
    for needed in (permissions.EDIT, permissions.VIEW_PAYLOAD):
        if not request.user.has_perm(needed):
            raise PermissionDenied
    job = Job.objects.using(conf.get().database).filter(id=id).first()
    if job is None:
        return _missing(admin, request, id)
    here = f"{admin.address('change', id)}{_list_query(request)}"
    if job.status != Status.FAILED:
        messages.warning(request, "Only the payload of a dead letter can be edited.")
        return HttpResponseRedirect(here)
    text = editing.text_of(reader(request.user).value(job.type, job.payload))
    problem = ""
    if request.method == "POST":
        text = request.POST.get("payload", "")
        problem = _save(request, job, text)
        if not problem:
            return HttpResponseRedirect(here)
    context = {
        "title": f"Payload of {job.type} {short(job.id)}",
        "job": job,
        "text": text,
        "has_masks": MASKED in text,
        "seen": request.POST.get(acting.SEEN) or acting.seen_of(job),
        "problem": problem,
        "back": here,
        "may_retry": request.user.has_perm(permissions.RETRY),
        "is_known": registry.find(job.type) is not None,
    }
    status = 422 if problem else 200
    return cast(
        "HttpResponse", admin.page(request, "admin/jobs/job/payload.html", context, status=status)
    )


def content(request: HttpRequest, id: UUID, name: str) -> HttpResponse:
    """The payload, result or metadata as a file."""
    if name not in CONTENT:
        raise Http404
    if not request.user.has_perm(permissions.VIEW_PAYLOAD):
        raise PermissionDenied
    job = Job.objects.using(conf.get().database).filter(id=id).first()
    if job is None:
        raise Http404
    value = reader(request.user).value(job.type, getattr(job, name))
    text = json.dumps(value, indent=2, ensure_ascii=False)
    response = HttpResponse(text, content_type="application/json")
    response["Content-Disposition"] = f'attachment; filename="{name}-{short(job.id)}.json"'
    return response


def _save(request: HttpRequest, job: Job, text: str) -> str:
    """Store the payload, and retry the job if that was asked for. Returns what is wrong."""
    retries = request.POST.get("action") == "retry"
    if retries and not request.user.has_perm(permissions.RETRY):
        raise PermissionDenied
    by, reason = request.user.get_username(), confirming.reason(request)
    try:
        edited = editing.parse(text)
        with acting.as_seen(job.id, request.POST.get(acting.SEEN, "")) as held:
            lifecycle.edit_payload(held, edited, by=by, reason=reason)
            if retries:
                lifecycle.retry(held, by=by, reason=reason)
    except InvalidInput as error:
        return str(error)
    except CoppiceError as error:
        return f"Nothing was saved: {sentence(error)}"
    done = "The payload was changed and the job retried." if retries else "The payload was changed."
    messages.success(request, done)
    return ""


def _ask(
    admin: Any, request: HttpRequest, id: UUID, button: buttons.Button, here: str
) -> HttpResponse:
    page = reading.read(request, id)
    if page is None:
        return _missing(admin, request, id)
    facts = [("Job", f"{page.job.type} {page.job.id}"), ("State", page.state.value)]
    match button.name:
        case "purge":
            what = page.purge_question
        case "mark_lost":
            what = MARKED_LOST
            facts += [("Worker", page.worker or "gone"), ("Attempt", str(page.job.attempt_count))]
        case _:
            what = button.confirm
    question = Question(
        title=f"{button.label}: {page.job.type}",
        what=what,
        button=button.label,
        back=here,
        facts=facts,
        hidden=[
            ("action", button.name),
            (acting.SEEN, request.POST.get(acting.SEEN, "")),
            ("list", request.POST.get("list", "")),
        ],
        is_dangerous=button.is_bad,
    )
    context = {"title": question.title, "question": question}
    return cast("HttpResponse", admin.page(request, "admin/console/confirm.html", context))


def _missing(admin: Any, request: HttpRequest, id: UUID) -> HttpResponse:
    """404, with what the audit knows about it."""
    context = {
        "title": "There is no such job",
        "job_id": str(id),
        "entry": purges.of(id),
        "back": _list(admin, request),
    }
    return cast(
        "HttpResponse", admin.page(request, "admin/jobs/job/missing.html", context, status=404)
    )


def _list(admin: Any, request: HttpRequest) -> str:
    """The list one came from, with its filters and its place."""
    given = request.POST.get("list") or request.GET.get("list", "")
    if given.startswith("dead-letters/?"):
        return f"{admin.address('dead')}{given.removeprefix('dead-letters/')}"
    return f"{admin.address('changelist')}{f'?{given}' if given else ''}"


def _list_query(request: HttpRequest) -> str:
    given = request.POST.get("list") or request.GET.get("list", "")
    return f"?{urlencode({'list': given})}" if given else ""
