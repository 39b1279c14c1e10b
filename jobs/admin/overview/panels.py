"""The parts of the overview, as they are put onto the page."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse

from jobs import permissions
from jobs.admin.overview import active as running
from jobs.admin.overview import fleet, flows, health, letters, log, numbers
from jobs.admin.overview.figures import SPANS, USUAL, Figures, Span, before_now, figures
from jobs.console import panels
from jobs.console.shell import look
from jobs.errors import TooBroad
from jobs.live import stream

QUEUES_SHOWN = 8
WORKERS_SHOWN = 10
TEMPLATES = "admin/jobs/overview"
SPAN = "span"


@panels.add(name="start", title="Start", template=f"{TEMPLATES}/start.html", column="top", order=5)
def start(request: HttpRequest) -> dict[str, Any] | None:
    """What to do when there is nothing yet."""
    found = look(request).get("jobs", {})
    if found.get("total", 1) or not figures().is_empty:
        return None
    return {"has_workers": bool(fleet.living())}


@panels.add(
    name="health", title="Health", template=f"{TEMPLATES}/health.html", column="top", order=10
)
def well(request: HttpRequest) -> dict[str, Any]:
    found = health.facts(look(request), numbers.numbers(), numbers.duties(), fleet.living())
    return {
        "facts": [(fact, place_of(request, fact)) for fact in found],
        "is_bad": any(fact.level == "bad" for fact in found),
        "totals": fleet.totals(fleet.living()),
        "oldest": _oldest(look(request)),
    }


@panels.add(
    name="cards", title="Numbers", template=f"{TEMPLATES}/cards.html", column="top", order=20
)
def cards(request: HttpRequest) -> dict[str, Any]:
    found = look(request).get("jobs", {})
    now = numbers.numbers()
    hour = _hour()
    change = numbers.change(now, before_now(hour)) if hour else None
    return {
        "stats": found,
        "states": found.get("states", {}),
        "at_least": found.get("at_least", []),
        "estimated": found.get("estimated", []),
        "oldest": _oldest(look(request)),
        "totals": fleet.totals(fleet.living()),
        "numbers": now,
        "change": None if change is None else round(100 * change),
        "hour": [round(value or 0, 1) for value in hour.completed] if hour else [],
    }


@panels.add(
    name="charts",
    title="Throughput and latency",
    template=f"{TEMPLATES}/charts.html",
    column="main",
    order=10,
)
def charts(request: HttpRequest) -> dict[str, Any]:
    return chart_context(span_of(request))


@panels.add(
    name="active", title="Active jobs", template=f"{TEMPLATES}/active.html", column="main", order=20
)
def active(request: HttpRequest) -> dict[str, Any]:
    total = look(request).get("jobs", {}).get("processing")
    return {"rows": running.active(), "total": total, "now": datetime.now(UTC)}


@panels.add(
    name="letters",
    title="Dead letters",
    template=f"{TEMPLATES}/letters.html",
    column="main",
    order=30,
)
def dead_letters(request: HttpRequest) -> dict[str, Any]:
    return {
        "found": letters.letters(),
        "may_read": request.user.has_perm(permissions.VIEW_PAYLOAD),
        "may_retry": request.user.has_perm(permissions.RETRY),
    }


@panels.add(name="log", title="Log", template=f"{TEMPLATES}/log.html", column="side", order=40)
def last(request: HttpRequest) -> dict[str, Any]:
    may_see = request.user.has_perm(permissions.VIEW_PAYLOAD)
    return {
        "lines": log.newest(may_see=may_see),
        "is_off": not stream.is_configured(),
        "levels": log.LEVELS,
        "told": log.TOLD,
    }


@panels.add(
    name="queues", title="Queues", template=f"{TEMPLATES}/queues.html", column="side", order=10
)
def queues(request: HttpRequest) -> dict[str, Any]:
    found = flows.flows()
    return {
        "flows": found[:QUEUES_SHOWN],
        "more": len(found) - QUEUES_SHOWN,
        "may_pause": request.user.has_perm(permissions.PAUSE_QUEUE),
    }


@panels.add(
    name="workers", title="Workers", template=f"{TEMPLATES}/workers.html", column="side", order=20
)
def workers(request: HttpRequest) -> dict[str, Any]:  # noqa: ARG001
    found = fleet.living()
    return {
        "hosts": fleet.by_host(found[:WORKERS_SHOWN]),
        "more": len(found) - WORKERS_SHOWN,
        "totals": fleet.totals(found),
    }


def span_of(request: HttpRequest) -> Span:
    return SPANS.get(request.GET.get(SPAN, ""), USUAL)


def chart_context(span: Span, *, queue: str = "") -> dict[str, Any]:
    """What the charts and their table are given. None of it when the sums take too long."""
    try:
        found: Figures | None = figures(span, queue=queue)
    except TooBroad:
        found = None
    rows = [] if found is None else rows_of(found)
    return {
        "span": span,
        "spans": SPANS.values(),
        "figures": found,
        "data": None if found is None else asdict(found),
        "rows": rows,
        "chart_queue": queue,
    }


def rows_of(found: Figures) -> list[tuple[Any, ...]]:
    """A row of the table for each stretch, the newest first."""
    moments = [datetime.fromtimestamp(at, UTC) for at in found.times]
    columns = (moments, found.completed, found.failed, found.wait, found.run)
    return list(zip(*columns, strict=True))[::-1]


def place_of(request: HttpRequest, fact: health.Fact) -> str:
    """Where a fact leads; empty where the site has no such page."""
    if not fact.place:
        return ""
    arguments = [fact.argument] if fact.argument else []
    try:
        url = reverse(
            f"admin:{fact.place}", args=arguments, current_app=getattr(request, "current_app", None)
        )
    except NoReverseMatch:
        return ""
    return f"{url}?{fact.query}" if fact.query else url


def _oldest(sample: dict[str, Any]) -> float | None:
    """For how long the job has waited that waits longest, in queues that are not paused."""
    queues = sample.get("jobs", {}).get("queues", [])
    waits = [queue["oldest_wait_seconds"] for queue in queues if not queue["paused"]]
    return max((wait for wait in waits if wait is not None), default=None)


def _hour() -> Figures | None:
    try:
        return figures()
    except TooBroad:
        return None
