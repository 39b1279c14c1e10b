"""Every setting of Coppice with its value in force and where that comes from; secrets left out."""

from __future__ import annotations

import ast
import inspect
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from itertools import pairwise
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings as django_settings

from jobs import conf

SECRETS = frozenset({"metrics_token"})
ADDRESSES = frozenset({"redis_url", "database_direct_url"})
"""Of these the password is a part."""
HIDDEN = "set, not shown"
OTHER_NAMES = {
    "COPPICE_REDIS_URL": "REDIS_URL",
    "COPPICE_DATABASE_DIRECT_URL": "DATABASE_DIRECT_URL",
}
"""Variables of another name that a project takes these settings from."""
GROUPS = {
    "Storage and events": ("database", "database_direct_url", "redis_url", "redis_prefix", "event_queue"),
    "Jobs": ("max_attempts", "timeout_seconds", "max_payload_bytes", "max_wait_rounds"),
    "Order": ("aging_minutes", "aging_step"),
    "Workers": (
        "poll_seconds", "prefetch_seconds", "prefetch_max", "batch_rows", "batch_seconds",
        "grace_seconds", "hung_seconds", "beat_seconds", "dead_after_seconds", "lock_free_seconds",
    ),
    "Retention and alerts": (
        "retention_days", "retention_batch", "audit_days", "unknown_type_alert_seconds",
        "unknown_type_after", "dead_letter_alert",
    ),
}  # fmt: skip
REST = "Web"


@dataclass(frozen=True, kw_only=True)
class Line:
    name: str
    """As Django's settings have it."""
    value: str
    default: str
    source: str
    """default, settings or environment."""
    help: str

    @property
    def is_default(self) -> bool:
        return self.source == "default"


def lines() -> dict[str, list[Line]]:
    """By group, in the order in which they are documented. Raises SettingsError."""
    in_force, meanings = conf.get(), _meanings()
    found: dict[str, list[Line]] = {name: [] for name in (*GROUPS, REST)}
    for field in fields(conf.Settings):
        key = f"COPPICE_{field.name.upper()}"
        line = Line(
            name=key,
            value=shown(field.name, getattr(in_force, field.name)),
            default=_plain(field.default),
            source=source(key, os.environ),
            help=meanings.get(field.name, ""),
        )
        found[_group_of(field.name)].append(line)
    return found


def source(key: str, environment: Mapping[str, str]) -> str:
    """Where a setting's value comes from.

    "environment" only when the variable says what the settings say: a project may ignore it.
    """
    given = getattr(django_settings, key, None)
    if given is None:
        return "default"
    for name in (key, OTHER_NAMES.get(key, key)):
        if name in environment and environment[name] == str(given):
            return "environment"
    return "settings"


def shown(name: str, value: Any) -> str:
    if name in SECRETS and value:
        return HIDDEN
    if name in ADDRESSES and value:
        scheme = urlsplit(str(value)).scheme
        return f"{scheme}://… ({HIDDEN})" if scheme.isascii() and scheme else HIDDEN
    return _plain(value)


def _plain(value: Any) -> str:
    if isinstance(value, int | float):
        return f"{value:,.10g}" if isinstance(value, float) else f"{value:,}"
    return str(value) or "empty"


def _group_of(name: str) -> str:
    return next((group for group, names in GROUPS.items() if name in names), REST)


@lru_cache(maxsize=1)
def _meanings() -> dict[str, str]:
    """What the source says below each field; nothing where there is no source."""
    try:
        tree = ast.parse(inspect.getsource(conf.Settings))
    except OSError:
        return {}
    found: dict[str, str] = {}
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    for field, text in pairwise(body):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
        ):
            found[field.target.id] = str(text.value.value)
    return found
