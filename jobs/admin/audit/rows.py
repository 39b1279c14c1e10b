"""One entry as the list and the export show it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.urls import NoReverseMatch, reverse
from django.utils.dateparse import parse_datetime

from jobs import clocks
from jobs.console.words import NONE
from jobs.masking import Reader
from jobs.models import AuditEntry
from jobs.texts import clean

PAGES = {
    "job": "jobs_job_change",
    "queue": "jobs_queue_change",
    "schedule": "jobs_schedule_change",
    "worker": "jobs_worker_change",
    "bulk": "jobs_bulkoperation_change",
    "run": "ranges_rangerun_change",
    "range": "ranges_rangerun_change",
}
LONGEST = 300
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
UNKNOWN_TYPE = ""
"""The audit does not say of which type a value is: every key that any handler masks is masked."""


@dataclass(frozen=True, kw_only=True)
class Row:
    entry: AuditEntry
    url: str
    """The page of what it was about; "" when there is none."""
    facts: list[tuple[str, str]]


def row_of(entry: AuditEntry, reader: Reader, site: str) -> Row:
    return Row(entry=entry, url=_page(entry, site), facts=facts_of(data_of(entry, reader)))


def data_of(entry: AuditEntry, reader: Reader) -> Any:
    """What was before and after, with the masks of this reader; None for who may not read it."""
    return reader.value(UNKNOWN_TYPE, entry.data)


def facts_of(data: Any) -> list[tuple[str, str]]:
    """ "priority: 2 → 1" for what has a before and an after, else each value by its name."""
    if not isinstance(data, Mapping):
        return []
    rest = dict(data)
    before, after = rest.get("before"), rest.get("after")
    found: list[tuple[str, str]] = []
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        del rest["before"], rest["after"]
        found = [
            (name, f"{_text(before.get(name))} → {_text(after.get(name))}")
            for name in dict.fromkeys([*before, *after])
        ]
    return found + [(name, _text(value)) for name, value in rest.items()]


def _text(value: Any) -> str:
    if value is None or value == "":
        return NONE
    if isinstance(value, str) and MOMENT.fullmatch(value):
        return _said(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else f"{clean(text, LONGEST)}…"


def _said(text: str) -> str:
    """A moment in the zone that the page is in."""
    try:
        at = parse_datetime(text)
        return clocks.said(at) if at else text
    except (ValueError, OverflowError):
        return text


def _page(entry: AuditEntry, site: str) -> str:
    name = PAGES.get(entry.action.partition(".")[0], "")
    if not name or not entry.object_id or entry.action.endswith((".delete", ".purge")):
        return ""
    try:
        return reverse(f"admin:{name}", args=[entry.object_id], current_app=site)
    except NoReverseMatch:
        return ""
