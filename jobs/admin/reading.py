"""Who may read what, and how much of it."""

from __future__ import annotations

import re

from django.http import HttpRequest

_SPACE = re.compile(r"\s+")


def may_read(request: HttpRequest) -> bool:
    """Whether the reader sees payloads, results and errors."""
    return request.user.has_perm("jobs.view_payload")


def cut(text: str, limit: int) -> str:
    """One line of at most `limit` characters."""
    line = _SPACE.sub(" ", text[: limit * 2])
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
