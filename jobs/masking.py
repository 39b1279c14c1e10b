"""Payloads as readers see them: the keys that a handler masks show no value."""

from __future__ import annotations

from typing import Any

from jobs import registry

MASKED = "••••••"


def masked(type: str, payload: Any) -> Any:
    """The payload with the values of `Handler.mask` keys replaced, at any depth.

    A type that this process does not know has no known mask: its payload is shown as it is.
    """
    handler = registry.find(type)
    return _without(payload, frozenset(handler.mask)) if handler and handler.mask else payload


def _without(value: Any, keys: frozenset[str]) -> Any:
    if isinstance(value, dict):
        return {key: MASKED if key in keys else _without(item, keys) for key, item in value.items()}
    if isinstance(value, list):
        return [_without(item, keys) for item in value]
    return value
