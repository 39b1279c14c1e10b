"""Panels of the overview, from any app. One that fails says so, and leaves the others alone.

@panels.add(name="queues", title="Queues", template="admin/jobs/panels/queues.html", column="side", order=20)
def queues(request: HttpRequest) -> dict[str, Any]:
    return {"queues": ...}
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import structlog
from django.http import HttpRequest
from django.utils.safestring import SafeString

from jobs import permissions
from jobs.console.engine import rendered

type Context = Callable[[HttpRequest], dict[str, Any] | None]

_log = structlog.get_logger("coppice.console")


@dataclass(frozen=True, kw_only=True)
class Panel:
    name: str
    title: str
    template: str
    context: Context
    """What its template is given; None: nothing to show, leave it out."""
    column: Literal["top", "main", "side"] = "main"
    order: int = 500
    needs: str = permissions.VIEW


@dataclass(frozen=True, kw_only=True)
class Shown:
    panel: Panel
    content: SafeString
    """Empty: it failed."""


_panels: dict[str, Panel] = {}


def add(
    *,
    name: str,
    title: str,
    template: str,
    column: Literal["top", "main", "side"] = "main",
    order: int = 500,
    needs: str = permissions.VIEW,
) -> Callable[[Context], Context]:
    def decorate(context: Context) -> Context:
        _panels[name] = Panel(
            name=name,
            title=title,
            template=template,
            context=context,
            column=column,
            order=order,
            needs=needs,
        )
        return context

    return decorate


def show(request: HttpRequest, names: set[str] | None = None) -> dict[str, list[Shown]]:
    """The panels that this person may see, rendered, by column."""
    columns: dict[str, list[Shown]] = {"top": [], "main": [], "side": []}
    for panel in sorted(_panels.values(), key=lambda panel: panel.order):
        if not request.user.has_perm(panel.needs) or (names and panel.name not in names):
            continue
        shown = _shown(panel, request)
        if shown is not None:
            columns[panel.column].append(shown)
    return columns


def _shown(panel: Panel, request: HttpRequest) -> Shown | None:
    try:
        context = panel.context(request)
        if context is None:
            return None
        content = SafeString(rendered(panel.template, {**context, "panel": panel}, request))
    except Exception:  # noqa: BLE001 - the others are worth seeing all the more
        _log.exception("console.panel_failed", panel=panel.name)
        content = SafeString("")
    return Shown(panel=panel, content=content)
