"""The list of range runs: the newest first, by state and by job."""

from __future__ import annotations

from typing import Any, cast

from django.http import HttpRequest, HttpResponse
from django.utils.http import urlencode

from jobs import conf, permissions
from jobs.console.lists import SECONDS, Walk, size_of
from jobs.database import DjangoDatabase
from jobs.errors import InvalidInput, TooBroad
from jobs.limits import limited
from jobs.texts import clean
from ranges import declaring
from ranges.admin.acting import OF_MANY
from ranges.admin.rows import rows
from ranges.models import RangeRun
from ranges.states import RunStatus

SIZE = 25
"""Usually: each line is summed from the nodes of its run."""
WALK = Walk(order=("-id",))
HEAVY = ("params", "metadata", "verdict")
STATES = [status.value for status in RunStatus]


def show(admin: Any, request: HttpRequest) -> HttpResponse:
    state, job = request.GET.get("state", ""), clean(request.GET.get("job", ""), 200)
    if state not in STATES:
        state = ""
    asked = {name: value for name, value in (("state", state), ("job", job)) if value}
    after, before = request.GET.get("after", ""), request.GET.get("before", "")
    size = size_of(request, SIZE)
    too_broad, newer, older = False, False, False
    found: list[RangeRun] = []
    try:
        found, newer, older = _read(state, job, after, before, size)
    except InvalidInput:
        found, newer, older = _read(state, job, "", "", size)
    except TooBroad:
        too_broad = True
    shown = rows(found)
    names = sorted({*declaring.names(), *([job] if job else [])})
    context = {
        "title": "Range runs",
        "rows": shown,
        "too_broad": too_broad,
        "state": state,
        "job": job,
        "jobs": names,
        "tabs": [("", "all", _query(job=job))]
        + [(each, each.replace("_", " "), _query(state=each, job=job)) for each in STATES],
        "is_filtered": bool(asked),
        "may_control": admin.may(request, permissions.CONTROL_RUN),
        "actions": OF_MANY,
        "here": request.get_full_path(),
        "newest": _query(**asked) if newer else "",
        "newer": _query(**asked, before=WALK.place_of(found[0])) if found and newer else "",
        "older": _query(**asked, after=WALK.place_of(found[-1])) if found and older else "",
    }
    return cast("HttpResponse", admin.page(request, "admin/ranges/list.html", context))


def _read(
    state: str, job: str, after: str, before: str, size: int
) -> tuple[list[RangeRun], bool, bool]:
    wanted = RangeRun.objects.using(conf.get().database).defer(*HEAVY)
    if state:
        wanted = wanted.filter(status=state)
    if job:
        wanted = wanted.filter(name=job)
    with limited(DjangoDatabase(), seconds=SECONDS):
        return WALK.page(wanted, after=after, before=before, size=size)


def _query(**given: str) -> str:
    return "?" + urlencode({name: value for name, value in given.items() if value})
