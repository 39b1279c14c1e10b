"""What readers see of that which jobs carry: payloads, metadata, results, errors, log messages.

Everything that leaves the database towards a person or a program passes through a `Reader`:

- who may not read payloads gets nothing of it, and is told what is hidden;
- who may gets it with the values of the keys that the type's handler masks left out;
- superusers get it whole.

Errors and messages are text. The worker leaves masked values out of them before it stores or logs
them (`scrubbed`), so that what is stored is fit for every reader who may see payloads.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from typing import Any

from jobs import registry
from jobs.errors import InvalidInput
from jobs.permissions import VIEW_PAYLOAD

MASKED = "••••••"

WORDS = (
    "authorization",
    "cookie",
    "credential",
    "password",
    "passwd",
    "private",
    "secret",
    "token",
)
"""Where nobody knows the type: keys with such a word in them are masked, and all that any handler
masks."""
SHORTEST_SCRUBBED = 4
"""Shorter values are everywhere in a text; leaving them out would only make it unreadable."""
MOST_SCRUBBED = 1_000
"""With more masked values than this the whole text is left out."""
TELLING = 16
"""So many characters of a value's beginning or end are taken for a part of it."""


@dataclass(frozen=True, slots=True)
class Reader:
    """How much somebody sees."""

    reads: bool
    sees_masked: bool = False

    def value(self, type: str, value: Any) -> Any:
        """A payload, metadata or result; None for who may not read it."""
        if not self.reads:
            return None
        return value if self.sees_masked else masked(type, value)

    def text(self, text: str) -> str | None:
        """An error, a traceback or a message; None for who may not read it."""
        return text if self.reads else None

    def refusal(self, *, payload: Any = None, error: str | None = None) -> str:
        """Why this reader may not search so: what is found would tell what is hidden; "" if allowed.

        `payload` is what payloads must hold, `error` a part of an error's text.
        """
        if self.sees_masked or (payload is None and error is None):
            return ""
        if not self.reads:
            return "needs the permission to read payloads"
        keys = _all_masked()
        hidden = sorted({key for key in _keys(payload) if _is_masked(key, keys, WORDS)})
        return f"{', '.join(hidden)} is masked" if hidden else ""


COMMAND_LINE = Reader(reads=True)
"""Who may run commands could read the database too; but terminals are looked at by others."""


def reader(user: Any) -> Reader:
    """What a user may see. Asks for the permission once: keep it for the request."""
    active = bool(user and user.is_active)
    return Reader(
        reads=active and user.has_perm(VIEW_PAYLOAD),
        sees_masked=active and bool(getattr(user, "is_superuser", False)),
    )


def hides(type: str) -> Callable[[str], bool] | None:
    """Whether a key's value is masked in jobs of this type; None if none is."""
    handler = registry.find(type)
    if handler is None:
        return partial(_is_masked, keys=_all_masked(), words=WORDS)
    if not handler.mask:
        return None
    return partial(_is_masked, keys=frozenset(key.casefold() for key in handler.mask), words=())


def masked(type: str, value: Any) -> Any:
    """The value with those of masked keys replaced, at any depth."""
    is_hidden = hides(type)
    return value if is_hidden is None else _without(value, is_hidden)


def restored(type: str, edited: Any, stored: Any) -> Any:
    """The edited value with what is stored wherever it holds the mask of that.

    Raises InvalidInput for a mask elsewhere: nobody could tell what it stands for.
    """
    handler = registry.find(type)
    if handler is None:
        return _restored(edited, stored, _all_masked(), WORDS)
    return _restored(edited, stored, frozenset(key.casefold() for key in handler.mask), ())


def _restored(edited: Any, stored: Any, keys: frozenset[str], words: tuple[str, ...]) -> Any:
    if isinstance(edited, dict):
        kept = stored if isinstance(stored, dict) else {}
        return {
            key: kept[key]
            if item == MASKED and key in kept and _is_masked(key, keys, words)
            else _restored(item, kept.get(key), keys, words)
            for key, item in edited.items()
        }
    if isinstance(edited, list):
        kept_items = stored if isinstance(stored, list) else []
        pairs = zip_longest(edited, kept_items[: len(edited)])
        return [_restored(item, kept, keys, words) for item, kept in pairs]
    if edited == MASKED:
        text = "holds a mask that stands for no value there: write the value"
        raise InvalidInput(text, field="payload")
    return edited


def scrubbed(text: str, mask: tuple[str, ...], payload_text: str) -> str:
    """The text without the values that stand under masked keys in the payload, which is JSON."""
    if not text or not mask or not payload_text:
        return text
    keys = frozenset(key.casefold() for key in mask)
    found = {str(value) for value in _under(json.loads(payload_text), keys, inside=False)}
    values = [value for value in found if len(value) >= SHORTEST_SCRUBBED]
    if len(values) > MOST_SCRUBBED:
        return MASKED
    for value in sorted(values, key=len, reverse=True):
        for shape in {value, json.dumps(value)[1:-1], repr(value)[1:-1]}:
            text = _blotted(text, shape)
    return text


def masks(type: str) -> bool:
    """Whether the type's handler, known here, masks anything."""
    handler = registry.find(type)
    return handler is not None and bool(handler.mask)


def scrubbed_data(type: str, value: Any, payload_text: str) -> Any:
    """JSON that a handler says of its job, without the values of masked keys."""
    handler = registry.get(type)

    def clean(item: Any) -> Any:
        if isinstance(item, dict):
            return {key: clean(each) for key, each in item.items()}
        if isinstance(item, list):
            return [clean(each) for each in item]
        return scrubbed(item, handler.mask, payload_text) if isinstance(item, str) else item

    return clean(masked(type, value))


def _blotted(text: str, value: str) -> str:
    """Also where the text was cut in the middle of the value: enough of an end gives it away."""
    head, tail = value[:TELLING], value[-TELLING:]
    at = text.find(head)
    while at >= 0:
        length = _alike(text[at:], value)
        text = text[:at] + MASKED + text[at + length :]
        at = text.find(head, at + len(MASKED))
    at = text.find(tail) if len(value) > TELLING else -1
    while at >= 0:
        end = at + TELLING
        length = _alike(text[:end][::-1], value[::-1])
        text = text[: end - length] + MASKED + text[end:]
        at = text.find(tail, end - length + len(MASKED))
    return text


def _alike(one: str, other: str) -> int:
    """How many characters they have in common at their beginnings."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))


def _without(value: Any, is_hidden: Callable[[str], bool]) -> Any:
    if isinstance(value, dict):
        return {
            key: MASKED if is_hidden(key) else _without(item, is_hidden)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_without(item, is_hidden) for item in value]
    return value


def _all_masked() -> frozenset[str]:
    return frozenset(key.casefold() for each in registry.handlers() for key in each.mask)


def _keys(value: Any) -> Iterator[str]:
    """Every key inside."""
    if isinstance(value, Mapping):
        yield from value
        for item in value.values():
            yield from _keys(item)
    elif isinstance(value, list):
        for item in value:
            yield from _keys(item)


def _is_masked(key: str, keys: frozenset[str], words: tuple[str, ...]) -> bool:
    folded = key.casefold()
    return folded in keys or any(word in folded for word in words)


def _under(value: Any, keys: frozenset[str], *, inside: bool) -> Iterator[Any]:
    """Every text and number below a masked key."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _under(item, keys, inside=inside or key.casefold() in keys)
    elif isinstance(value, list):
        for item in value:
            yield from _under(item, keys, inside=inside)
    elif inside and not isinstance(value, bool) and value is not None:
        yield value
