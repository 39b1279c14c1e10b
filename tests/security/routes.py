"""Every route of the project, as the resolver knows it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.urls import URLPattern, URLResolver, get_resolver

PART = re.compile(r"<(?:(\w+):)?(\w+)>")
NOWHERE = "00000000-0000-7000-8000-000000000000"
"""An id that no row has: who may do something there is answered with 404, who may not with 403."""
EXAMPLES = {"name": "nowhere", "app_label": "jobs", "url": "nowhere/", "content_type_id": "999999"}


@dataclass(frozen=True)
class Route:
    pattern: str
    """Such as `api/v1/jobs/<str:job_id>`."""
    view: Any

    @property
    def path(self) -> str:
        """An address that it matches."""
        filled = PART.sub(lambda found: EXAMPLES.get(found[2], NOWHERE), self.pattern)
        return f"/{filled}"

    @property
    def view_class(self) -> Any:
        return getattr(self.view, "view_class", None) or getattr(self.view, "cls", None)


def routes() -> list[Route]:
    return sorted(_below(get_resolver(), ""), key=lambda route: route.pattern)


def _below(resolver: URLResolver, before: str) -> Iterator[Route]:
    for each in resolver.url_patterns:
        pattern = before + _plain(str(each.pattern))
        if isinstance(each, URLResolver):
            yield from _below(each, pattern)
        elif isinstance(each, URLPattern):
            yield Route(pattern, each.callback)


def _plain(pattern: str) -> str:
    """A regular expression of Django's own admin, written as a path."""
    pattern = re.sub(r"\(\?P<(\w+)>[^()]*(?:\([^()]*\)[^()]*)*\)", r"<\1>", pattern)
    return pattern.removeprefix("^").removesuffix("$").removesuffix("\\Z")
