"""A JSON value as a tree that folds, without script: every text escaped, every number whole."""

from __future__ import annotations

import json
from typing import Any

from django.utils.html import conditional_escape, format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from jobs.masking import MASKED

NODES = 1_500
"""The most values that a page shows; the file has them all."""
OPEN_DEPTH = 2
TEXT = 2_000
NO_KEY = SafeString("")


class _Budget:
    def __init__(self, left: int) -> None:
        self.left = left

    def spend(self) -> bool:
        self.left -= 1
        return self.left >= 0


def tree(value: Any, *, nodes: int = NODES) -> tuple[SafeString, bool]:
    """The tree, and whether all of the value is in it."""
    budget = _Budget(nodes)
    html = _node(value, 0, budget)
    return html, budget.left >= 0


def _node(value: Any, depth: int, budget: _Budget, key: SafeString = NO_KEY) -> SafeString:
    """With its key before it, in the line that folds if it does."""
    if not budget.spend():
        return format_html('{}<span class="none">…</span>', key)
    match value:
        case dict() if value:
            items = [(_key(name), inner) for name, inner in value.items()]
            return _branch(items, "{}", depth, budget, key)
        case list() if value:
            items = [(NO_KEY, inner) for inner in value]
            return _branch(items, "[]", depth, budget, key)
        case _:
            return format_html("{}{}", key, _leaf(value))


def _branch(
    items: list[tuple[SafeString, Any]],
    brackets: str,
    depth: int,
    budget: _Budget,
    key: SafeString,
) -> SafeString:
    rows: list[tuple[SafeString]] = []
    for name, inner in items:
        if budget.left <= 0:
            left = len(items) - len(rows)
            budget.left = -1
            rows.append((format_html('<span class="none">… {} more</span>', f"{left:,}"),))
            break
        rows.append((_node(inner, depth + 1, budget, name),))
    size = f"{len(items):,} {'key' if brackets == '{}' else 'item'}{'' if len(items) == 1 else 's'}"
    return format_html(
        '<details{}><summary>{}{} <span class="none">{}</span></summary><ul>{}</ul></details>',
        mark_safe(" open") if depth < OPEN_DEPTH else "",
        key,
        brackets,
        size,
        format_html_join("", "<li>{}</li>", rows),
    )


def _key(key: Any) -> SafeString:
    return format_html('<span class="k">{}</span>: ', str(key))


def _leaf(value: Any) -> SafeString:
    if value == MASKED:
        return format_html(
            '<span class="masked" title="Hidden: the handler masks this key">{}</span>', MASKED
        )
    if isinstance(value, str):
        shown = json.dumps(value, ensure_ascii=False)
        if len(shown) > TEXT:
            shown = f"{shown[:TEXT]}… ({len(value):,} characters)"
        return format_html('<span class="s">{}</span>', shown)
    word = conditional_escape(json.dumps(value, ensure_ascii=False))
    kind = "n" if isinstance(value, int | float) and not isinstance(value, bool) else "w"
    return format_html('<span class="{}">{}</span>', kind, word)
