"""Answers that pages share: read by one process at most every so often, and kept by the cache.

    def groups() -> list[dict[str, Any]]: ...          # plain values
    found = kept("groups", 3.0, groups)

The sample (sample.py) is for what every page shows. This is for what some pages show: nobody reads
it while none of them is open.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, cast

from django.core.cache import cache

PREFIX = "coppice:console:kept:"
KEPT_SECONDS = 60
OLD_SECONDS = 10.0
"""Beyond this nobody takes an old answer while somebody else is reading a new one."""

_names: set[str] = set()


def kept[Value](name: str, seconds: float, read: Callable[[], Value]) -> Value:
    """What `read` gave at most `seconds` ago."""
    _names.add(name)
    key = f"{PREFIX}{name}"
    found: Any = cache.get(key)
    age = time.time() - found["at"] if found else OLD_SECONDS * 2
    if found and 0 <= age < seconds:
        return cast("Value", found["value"])
    if not found or abs(age) > OLD_SECONDS or cache.add(f"{key}:reading", 1, timeout=2):
        at = time.time()
        found = {"at": at, "value": read()}
        cache.set(key, found, KEPT_SECONDS)
        cache.delete(f"{key}:reading")
    return cast("Value", found["value"])


def forget(*names: str) -> None:
    """Read these anew at the next look, after an action; without names all, between tests."""
    cache.delete_many([f"{PREFIX}{name}" for name in names or _names])
