"""Answers that pages share: read by one process at most every so often, and kept by the cache.

    def groups() -> list[Group]: ...          # plain values, or dataclasses of them
    found = kept("groups", 3.0, groups)

The sample (sample.py) is for what every page shows. This is for what some pages show: nobody reads
it while none of them is open. Without a cache each process reads for itself, as often.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple, cast

from django.core.cache import cache

from jobs.console.sample import key, shared

PREFIX = "coppice:console:kept:"
KEPT_SECONDS = 60
OLD_SECONDS = 10.0
"""Beyond this nobody takes an old answer while somebody else is reading a new one."""
MOST_NAMES = 500


class Answer(NamedTuple):
    at: float
    value: Any


_here: dict[str, Answer] = {}
"""The last answers that this process knows."""
_names: set[str] = set()
"""What it has put into the cache."""


def kept[Value](name: str, seconds: float, read: Callable[[], Value]) -> Value:
    """What `read` gave at most `seconds` ago."""
    found = _here.get(name)
    if found is None or not _is_of(found, seconds):
        found = _newest(name, found)
    if found is None or (not _is_of(found, seconds) and _may_read(name, found)):
        found = Answer(time.time(), read())
        remember(name, found, KEPT_SECONDS)
        shared(lambda: cache.delete(_lock(name)))
    _put(name, found)
    return cast("Value", found.value)


def recall(name: str) -> Any:
    """What was remembered; None: nothing, or no more."""
    return shared(lambda: cache.get(_key(name)))


def remember(name: str, value: Any, seconds: float) -> None:
    _names.add(name)
    shared(lambda: cache.set(_key(name), value, seconds))


def forget(*names: str) -> None:
    """Read these anew at the next look, after an action; without names all, between tests."""
    given = names or tuple({*_names, *_here})
    for name in given:
        _here.pop(name, None)
    if given:
        shared(lambda: cache.delete_many([_key(name) for name in given]))


def _newest(name: str, known: Answer | None) -> Answer | None:
    """Of what the cache has and what is known here."""
    found = recall(name)
    if not isinstance(found, Answer):
        return known
    return found if known is None or found.at >= known.at else known


def _is_of(found: Answer, seconds: float) -> bool:
    return 0 <= time.time() - found.at < seconds


def _may_read(name: str, found: Answer) -> bool:
    """One reader at a time; the others take the last answer unless it is old. Without a cache each
    reads.
    """
    if not _is_of(found, OLD_SECONDS):
        return True
    return shared(lambda: cache.add(_lock(name), 1, timeout=2)) is not False


def _key(name: str) -> str:
    return key(PREFIX + name)


def _lock(name: str) -> str:
    return f"{_key(name)}:reading"


def _put(name: str, found: Answer) -> None:
    if len(_here) > MOST_NAMES:
        _here.clear()
    _here[name] = found
