"""What of a run is worth a look, in tabs: what failed, who works at what, what was passed over.

Each is a table of pages that are found by the place of a row, and each row leads to its part of the
drawing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest
from django.utils.http import urlencode

from jobs.console.lists import size_of
from jobs.errors import InvalidInput
from ranges.admin import failures, lanes, pictures
from ranges.admin.rows import Row
from ranges.admin.scale import Scale
from ranges.models import RangeRun
from ranges.states import ENDED, FailureState

SIZE = 20
"""Usually."""
FAILED, RUNNING, SKIPPED, WAIVED, RETRIED = "failed", "running", "skipped", "waived", "retried"
LABELS = {
    FAILED: "Failed",
    RUNNING: "Running",
    SKIPPED: "Skipped",
    WAIVED: "Waived",
    RETRIED: "Retried",
}
STATES = {
    FAILED: FailureState.OPEN,
    WAIVED: FailureState.WAIVED,
    RETRIED: FailureState.RETRIED,
}


@dataclass(frozen=True, kw_only=True)
class Tab:
    name: str
    label: str
    query: str
    count: int | None
    """None: not counted."""


@dataclass(frozen=True, kw_only=True)
class Worklist:
    tab: str
    tabs: list[Tab]
    rows: list[Any]
    newest: str
    newer: str
    older: str


def worklist(run: RangeRun, row: Row, scale: Scale | None, request: HttpRequest) -> Worklist:
    tab = request.GET.get("work", "")
    if tab not in LABELS:
        tab = _usual(run, row)
    size = size_of(request, SIZE)
    given = {"after": request.GET.get("after", ""), "before": request.GET.get("before", "")}
    try:
        rows, newer, older, places = _page(run, scale, tab, size=size, **given)
    except InvalidInput:
        rows, newer, older, places = _page(run, scale, tab, size=size, after="", before="")
    counts = {FAILED: row.progress.open_failures}
    if run.status not in ENDED:
        counts[RUNNING] = row.progress.lanes

    def query(**more: str) -> str:
        return f"?{urlencode({'work': tab, **more})}#work"

    return Worklist(
        tab=tab,
        tabs=[
            Tab(name=name, label=label, query=f"?work={name}#work", count=counts.get(name))
            for name, label in LABELS.items()
        ],
        rows=rows,
        newest=query() if newer else "",
        newer=query(before=places[0]) if rows and newer else "",
        older=query(after=places[1]) if rows and older else "",
    )


def _usual(run: RangeRun, row: Row) -> str:
    """What failed comes first; else who works, while anybody does."""
    if row.progress.open_failures or run.status in ENDED:
        return FAILED
    return RUNNING


type Page = tuple[list[Any], bool, bool, tuple[str, str]]
"""Rows, whether there are some before and behind them, and the places of the first and the last."""


def _page(run: RangeRun, scale: Scale | None, tab: str, **given: Any) -> Page:
    match tab:
        case "running":
            return _running(run, scale, **given)
        case "skipped":
            return _skipped(run, scale, **given)
        case _:
            return _failed(run, scale, STATES[tab], **given)


def _failed(run: RangeRun, scale: Scale | None, state: FailureState, **given: Any) -> Page:
    rows, newer, older = failures.of_run(run, scale, state, **given)
    return list(rows), newer, older, _ends([failures.WALK.place_of(row.failure) for row in rows])


def _running(run: RangeRun, scale: Scale | None, **given: Any) -> Page:
    every = [] if run.status in ENDED else lanes.lanes(run, scale)
    rows, newer, older = lanes.page_of(every, **given)
    return list(rows), newer, older, _ends([lanes.place_text(lane) for lane in rows])


def _skipped(run: RangeRun, scale: Scale | None, **given: Any) -> Page:
    every = [] if scale is None else pictures.skipped(run, scale)
    rows, newer, older = pictures.page_of(every, **given)
    return list(rows), newer, older, _ends([str(block.place) for block in rows])


def _ends(places: list[str]) -> tuple[str, str]:
    return (places[0], places[-1]) if places else ("", "")
