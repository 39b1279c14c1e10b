"""The page of a run: how far it is, where its work was done, what failed, who works at it."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, cast
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse

from jobs import conf, permissions
from jobs.admin.page.trees import tree as tree_of
from jobs.errors import CoppiceError, InvalidInput
from jobs.masking import reader
from jobs.models import AuditEntry
from ranges.admin import log, pictures
from ranges.admin.acting import ENDED_BADLY, offered, other_version
from ranges.admin.rows import rows
from ranges.admin.scale import Scale, Window
from ranges.admin.worklist import worklist
from ranges.facts import findings, why_idle
from ranges.history import History, history
from ranges.models import RangeRun
from ranges.proof import bounds_of, verify
from ranges.states import ENDED, RunStatus
from ranges.stuck import stuck

TEMPLATE = "admin/ranges/run/page.html"
ENTRIES = 12
RETRIABLE = (RunStatus.RUNNING, RunStatus.PAUSED, *ENDED_BADLY)
LINES = 40
"""Of the table that says the same as the chart."""
PART = "X-Coppice-Part"
"""A page that is open reads its parts again; its chart asks for itself, less often."""


def show(admin: Any, request: HttpRequest, id: UUID) -> HttpResponse:
    run = _find(id)
    row = next(iter(rows([run])), None)
    if row is None:
        raise Http404
    scale, told = _scale(run)
    window: Window | None = None
    table: list[pictures.TableRow] = []
    problem = ""
    if scale is not None:
        window, problem = _window(scale, request)
        table = pictures.table(run, scale, window)
    sees = reader(request.user)
    may_control = admin.may(request, permissions.CONTROL_RUN)
    is_stuck = may_control and bool(row.progress.lanes) and bool(stuck(run))
    past = None if PART in request.headers else history(run)
    context = {
        "title": run.name,
        "run": run,
        "row": row,
        "progress": row.progress,
        "list": admin.address("changelist"),
        "here": request.path,
        "may_control": may_control,
        "may_read": sees.reads,
        "may_retry_one": run.status in RETRIABLE,
        "buttons": offered(
            run, row.progress.open_failures, is_stuck=is_stuck, may_control=may_control
        ),
        "is_stuck": is_stuck,
        "other_version": other_version(run),
        "is_ended": run.status in ENDED,
        "ended_badly": run.status in ENDED_BADLY,
        "reasons": why_idle(run, row.progress),
        "undrawn": told,
        "window": window,
        "problem": problem,
        "table": table,
        "summary": pictures.summary(table),
        "work": worklist(run, row, scale, request),
        "history": past,
        "rates": None if past is None else asdict(past),
        "lines": [] if past is None else _lines(past),
        "log": log.newest(str(run.id), may_see=sees.reads),
        "people": _people(admin, request, run),
        "proof": _proof(run) if "proof" in request.GET else None,
        "params": tree_of(sees.value(run.name, run.params))[0]
        if sees.reads and run.params
        else None,
        "metadata": (
            tree_of(sees.value(run.name, run.metadata))[0] if sees.reads and run.metadata else None
        ),
    }
    return cast("HttpResponse", admin.page(request, TEMPLATE, context))


def rates(id: UUID) -> JsonResponse:
    """How fast it was and how long its leaves took, until now."""
    return JsonResponse(asdict(history(_find(id))))


def picture(request: HttpRequest, id: UUID) -> JsonResponse:
    """What is drawn of a window of the run."""
    run = _find(id)
    scale, told = _scale(run)
    if scale is None:
        return JsonResponse({"detail": told}, status=409)
    try:
        window = scale.asked(request)
        return JsonResponse(pictures.picture(run, scale, window))
    except InvalidInput as error:
        return JsonResponse({"detail": str(error)}, status=400)


def _lines(past: History) -> list[tuple[datetime, float | None, float | None, float | None]]:
    return [
        (datetime.fromtimestamp(at, UTC), rate, half, most)
        for at, rate, half, most in past.lines(LINES)
    ]


def _find(id: UUID) -> RangeRun:
    run = RangeRun.objects.using(conf.get().database).filter(id=id).first()
    if run is None:
        raise Http404
    return run


def _scale(run: RangeRun) -> tuple[Scale | None, str]:
    """None, and why nothing can be drawn."""
    lo, hi = bounds_of(run)
    if lo is None or hi is None:
        if run.status == RunStatus.CREATED:
            return None, "The range is fixed when the run starts; it is drawn from then on."
        return None, "The range is being planned; it is drawn from then on."
    if lo == hi:
        return None, "The range holds no key: there is nothing to draw."
    try:
        return Scale(run), ""
    except CoppiceError as error:
        return None, f"The keys cannot be drawn here: {error}"


def _window(scale: Scale, request: HttpRequest) -> tuple[Window, str]:
    try:
        return scale.asked(request), ""
    except InvalidInput as error:
        return scale.whole(), str(error)


def _proof(run: RangeRun) -> dict[str, Any]:
    """Both proofs, made now. They change nothing."""
    try:
        verdict = verify(run)
        shown = verdict.as_json() if run.planned else None
        return {"verdict": shown, "findings": findings(run, verdict)}
    except CoppiceError as error:
        return {"verdict": None, "findings": [str(error)]}


def _people(admin: Any, request: HttpRequest, run: RangeRun) -> list[AuditEntry] | None:
    """None: the reader may not see the audit."""
    if not admin.may(request, permissions.VIEW_AUDIT):
        return None
    entries = AuditEntry.objects.using(conf.get().database).filter(
        object_id=str(run.id), action__startswith="range."
    )
    return list(entries.order_by("-id")[:ENTRIES])
