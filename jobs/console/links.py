"""Links from a job to what belongs to it, from any app.

@links.add
def run_of(job: Job, request: HttpRequest) -> Iterable[Link]:
    yield Link(label="Range run", text=name, url=...)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import structlog
from django.http import HttpRequest

_log = structlog.get_logger("coppice.console")


@dataclass(frozen=True, kw_only=True)
class Link:
    label: str
    """What it is: "Schedule"."""
    text: str
    """Which one."""
    url: str


type Links = Callable[[Any, HttpRequest], Iterable[Link]]

_known: list[Links] = []


def add(links: Links) -> Links:
    _known.append(links)
    return links


def of(job: Any, request: HttpRequest) -> list[Link]:
    found: list[Link] = []
    for links in _known:
        try:
            found += links(job, request)
        except Exception:  # noqa: BLE001 - the page is worth seeing without
            _log.exception("console.links_failed", job_id=str(job.id))
    return found
