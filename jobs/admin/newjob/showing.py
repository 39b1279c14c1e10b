"""The page of a new job: one form, whose every button is an ordinary submit.

`step` says which was pressed: form or json (the payload given the other way), check (what is wrong,
and the next runs), another (make it and stay), or create.
"""

from __future__ import annotations

import uuid
from typing import Any, cast
from zoneinfo import available_timezones

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.html import format_html

from jobs import audit, conf, permissions
from jobs.admin.newjob import asking
from jobs.admin.newjob.asking import FORM, JSON, Form
from jobs.admin.newjob.once import once
from jobs.console import confirming, sample
from jobs.console.words import PRIORITIES
from jobs.drafts import refuse_internal
from jobs.enqueueing import enqueue
from jobs.errors import CoppiceError, InvalidInput
from jobs.states import OnParentFailure
from jobs.templatetags.console import short

TEMPLATE = "admin/jobs/newjob/page.html"
ON_PARENT_FAILURE = [
    (OnParentFailure.WAIT.value, "wait: somebody may retry it"),
    (OnParentFailure.CANCEL.value, "cancel this one"),
    (OnParentFailure.RUN.value, "run this one all the same"),
]


def show(admin: Any, request: HttpRequest) -> HttpResponse:
    if not request.user.has_perm(permissions.CREATE):
        raise PermissionDenied
    if request.method != "POST":
        return _page(admin, request, asking.blank(request.GET))
    form, step = asking.sent(request.POST), request.POST.get("step", "")
    if step in (FORM, JSON):
        asking.turn(form, step)
        return _page(admin, request, form)
    options = asking.options(form)
    if form.has_errors or step == "check":
        status = 422 if form.has_errors and step != "check" else 200
        return _page(admin, request, form, status=status)
    try:
        id, is_new = _create(request, options)
    except InvalidInput as error:
        asking.refused(form, error)
        return _page(admin, request, form, status=422)
    except CoppiceError as error:
        form.wrong("", str(error))
        return _page(admin, request, form, status=409)
    place = admin.address("change", id)
    _tell(request, form, id, place, is_new=is_new)
    if step == "another":
        return _page(admin, request, form, fresh=True)
    return HttpResponseRedirect(place)


def _create(request: HttpRequest, options: dict[str, Any]) -> tuple[str, bool]:
    """The id of the job, and whether it was made just now."""
    made: list[bool] = []

    def work() -> str:
        refuse_internal(type=options.get("type"), metadata=options.get("metadata"))
        job = enqueue(**options)
        # A job that was just made has columns that nobody has read; one that was found has none.
        made.append(bool(job.get_deferred_fields()))
        if made[0]:
            audit.record(
                "job.create",
                actor=request.user.get_username(),
                scope=f"job {job.id} ({job.type})",
                object_id=str(job.id),
                changed=1,
                reason=confirming.reason(request),
            )
        return str(job.id)

    id, is_first = once(request.user.pk, request.POST.get("token", ""), work)
    return id, is_first and made[0]


def _tell(request: HttpRequest, form: Form, id: str, place: str, *, is_new: bool) -> None:
    link = format_html('<a href="{}">{} {}</a>', place, form.type, short(id))
    if is_new:
        messages.success(request, format_html("Created {}.", link))
    else:
        messages.warning(
            request, format_html("Nothing was made: {} is what was asked for before.", link)
        )


def _page(
    admin: Any, request: HttpRequest, form: Form, *, status: int = 200, fresh: bool = False
) -> HttpResponse:
    """`fresh`: what is sent from here makes another job."""
    found = sample.current().get("jobs", {})
    token = "" if fresh else request.POST.get("token", "")
    context = {
        "title": "New job",
        "form": form,
        "types": asking.types(),
        "doc": _doc(form),
        "token": token or str(uuid.uuid4()),
        "queues": [queue["name"] for queue in found.get("queues", [])],
        "priorities": [(str(number), word) for number, word in PRIORITIES.items()],
        "units": asking.UNITS,
        "zone": str(form.zone),
        "zones": sorted(available_timezones()),
        "on_parent_failure": ON_PARENT_FAILURE,
        "attempts": (form.handler.max_attempts if form.handler else None)
        or conf.get().max_attempts,
        "back": admin.address("changelist"),
    }
    return cast("HttpResponse", admin.page(request, TEMPLATE, context, status=status))


def _doc(form: Form) -> str:
    """The first paragraph of what the handler says about itself."""
    text = (form.handler.function.__doc__ or "") if form.handler else ""
    return " ".join(text.strip().partition("\n\n")[0].split())[:400]
