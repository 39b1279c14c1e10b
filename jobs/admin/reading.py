"""Read-only lists and pages, fast at any size; and who may read what."""

from __future__ import annotations

import json
import re
from typing import Any

from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.functional import cached_property
from django.utils.html import format_html
from django.utils.safestring import SafeString

from jobs.console.admins import ConsoleAdmin

COUNTED = 10_000
"""The most that a list counts, pages through, or acts on at once."""

_SPACE = re.compile(r"\s+")


class BoundedPaginator(Paginator):  # type: ignore[type-arg]
    """Counts no further than it pages."""

    object_list: QuerySet[Any]

    @cached_property
    def count(self) -> int:
        return len(self.object_list.order_by().values_list("pk")[:COUNTED])


class ReadOnlyAdmin(ConsoleAdmin):
    """A list and a page for each row, fast at any size; no adding, changing or deleting."""

    paginator = BoundedPaginator


def may_read(request: HttpRequest) -> bool:
    """Whether the reader sees payloads, results and errors."""
    return request.user.has_perm("jobs.view_payload")


def pretty(value: Any) -> SafeString:
    return format_html("<pre>{}</pre>", json.dumps(value, indent=2, ensure_ascii=False))


def cut(text: str, limit: int) -> str:
    """One line of at most `limit` characters."""
    line = _SPACE.sub(" ", text[: limit * 2])
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
