"""What may be stored as jsonb, decided before it goes to the database.

PostgreSQL refuses some values that Python and JSON allow, and refuses them late. So every way in
calls `check_json` and gets the text to store, or an error that says where the value is wrong.

Each enqueue calls this. The usual payload, a small flat dict, passes after two looks at the types
in it; others are walked layer by layer. Only what looks wrong is searched again with paths.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from json.encoder import JSONEncoder
from typing import Any, NoReturn

from jobs.errors import InvalidInput
from jobs.texts import clean

MAX_BYTES = 1_048_576
MAX_DEPTH = 100
MAX_DIGITS = 1_000

_PLAIN = frozenset({str, int, float, bool, type(None)})
_TEXT = frozenset({str})
_SMALL = 32
_WORD = 2**63
_TOO_LONG: int = 10**MAX_DIGITS


class _Suspect(Exception):
    """The walk met something that it does not take."""


def _not_json(_value: object) -> NoReturn:
    raise _Suspect


# Characters stay as they are, so that a lone surrogate shows when the text is encoded.
_encode = JSONEncoder(
    ensure_ascii=False,
    check_circular=False,  # the depth is bounded before
    allow_nan=False,
    separators=(",", ":"),
    default=_not_json,
).encode


def check_json(
    value: Any, field: str = "payload", *, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH
) -> str:
    """The compact JSON text of the value, or InvalidInput whose `field` is the path of the fault.

    Taken: dict with text keys, list, tuple (as a list), str, int, float, bool, None, and
    subclasses of these. Refused: any other type, NUL, NaN and infinities, lone surrogates,
    integers of more than 1,000 digits, more than `max_depth` containers inside each other, more
    than `max_bytes` of UTF-8, a value that contains itself. Nothing is converted silently.
    """
    try:
        flat = _is_flat(value, max_depth)
        if not flat:
            _walk(value, max_bytes, max_depth)
        text = _encode(value)
        size = len(text) if text.isascii() else len(text.encode())
    except (_Suspect, TypeError, ValueError, RecursionError):
        _Search(field, max_bytes, max_depth).explain(value)
        raise InvalidInput("cannot be stored as JSON", field=field) from None
    if size > max_bytes:
        raise _too_large(field, max_bytes)
    # The escape may also be text that somebody wrote; only the search can tell.
    if "\\u0000" in text or (flat and size > MAX_DIGITS and any(map(_is_too_long, value.values()))):
        _Search(field, max_bytes, max_depth).explain(value)
    return text


def _is_flat(value: Any, max_depth: int) -> bool:
    """A small dict of plain values: not deep, not circular, its text no surprise in size."""
    return (
        type(value) is dict
        and len(value) <= _SMALL
        and max_depth > 0
        and _TEXT.issuperset(map(type, value))
        and _PLAIN.issuperset(map(type, value.values()))
    )


def _walk(value: Any, budget: int, max_depth: int) -> None:  # noqa: C901 - one hot loop
    """Refuse by _Suspect what has wrong types, is too deep, or must come out too large.

    The budget counts elements and characters once per appearance, so it is never more than the
    size of the text, and a small value that refers to itself many times is stopped early.
    """
    layer = [(value,)]
    for _ in range(max_depth + 1):
        inner: list[Any] = []
        for container in layer:
            budget -= len(container)
            for item in container:
                kind = type(item)
                if kind is str:
                    budget -= len(item)
                elif kind is int:
                    if not -_WORD < item < _WORD:
                        budget -= _weight(item)
                elif kind is dict:
                    if not _TEXT.issuperset(map(type, item)):
                        _require_text(item)
                    inner.append(item.values())
                    budget -= len("".join(item))
                elif kind is list:
                    inner.append(item)
                elif kind not in _PLAIN:
                    budget -= _unusual(item, inner)
            if budget < 0:
                raise _Suspect
        if not inner:
            return
        layer = inner
    raise _Suspect


def _unusual(item: Any, inner: list[Any]) -> int:
    """Subclasses, as the encoder takes them; what is inside goes to `inner`."""
    if isinstance(item, str):
        return len(item)
    if isinstance(item, int):
        return _weight(item)
    if isinstance(item, dict):
        _require_text(item)
        inner.append(item.values())
        return sum(map(len, item))
    if isinstance(item, list | tuple):
        inner.append(item)
    elif not isinstance(item, float):
        raise _Suspect
    return 0


def _require_text(keys: Iterable[Any]) -> None:
    if not all(isinstance(key, str) for key in keys):
        raise _Suspect


def _weight(number: int) -> int:
    """Fewer than the digits of the number, without writing it out."""
    if _is_too_long(number):
        raise _Suspect
    return number.bit_length() // 4


def _is_too_long(item: Any) -> bool:
    return isinstance(item, int) and not -_TOO_LONG < item < _TOO_LONG


def _too_large(field: str, max_bytes: int) -> InvalidInput:
    return InvalidInput(f"is larger than {max_bytes:,} bytes as JSON", field=field)


# The search for the fault

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,59}")
_LONGEST_KEY = 60
_LONGEST_PATH = 300


class _Search:
    """Finds the first fault of a value in reading order and raises it; else returns."""

    def __init__(self, field: str, max_bytes: int, max_depth: int) -> None:
        self.field = field
        self.max_bytes = max_bytes
        self.max_depth = max_depth
        self.left = max_bytes
        self.above: list[Any] = []
        self.steps: list[str] = []

    def explain(self, value: Any) -> None:
        self._spend(1)
        if isinstance(value, str):
            self._spend(len(value))
            self._check_text(value, "")
        elif isinstance(value, float):
            if not math.isfinite(value):
                raise self._fault("is NaN or infinite, which JSON does not have")
        elif isinstance(value, int):
            if not -_TOO_LONG < value < _TOO_LONG:
                raise self._fault(f"is an integer of more than {MAX_DIGITS:,} digits")
            self._spend(value.bit_length() // 4)
        elif isinstance(value, dict):
            self._enter(value)
            for key, item in value.items():
                self._check_key(key)
                self._inside(item, _step(key))
            self.above.pop()
        elif isinstance(value, list | tuple):
            self._enter(value)
            for index, item in enumerate(value):
                self._inside(item, f"[{index}]")
            self.above.pop()
        elif value is not None:
            kind = clean(type(value).__name__, 60)
            raise self._fault(f"is of type {kind}, which JSON does not have: convert it first")

    def _enter(self, container: Any) -> None:
        if any(container is one for one in self.above):
            raise self._fault("contains itself")
        if len(self.above) >= self.max_depth:
            text = f"is nested deeper than {self.max_depth} levels"
            raise InvalidInput(text, field=self.field)
        self.above.append(container)

    def _inside(self, item: Any, step: str) -> None:
        self.steps.append(step)
        self.explain(item)
        self.steps.pop()

    def _check_key(self, key: Any) -> None:
        if not isinstance(key, str):
            kind = clean(type(key).__name__, 60)
            raise self._fault(f"has a key of type {kind}: keys must be text")
        self._spend(len(key))
        self._check_text(key, f"has the key {_shown(key)}, which ")

    def _check_text(self, text: str, subject: str) -> None:
        if fault := _fault_of(text):
            raise self._fault(subject + fault)

    def _spend(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise _too_large(self.field, self.max_bytes)

    def _fault(self, message: str) -> InvalidInput:
        path = clean(self.field + "".join(self.steps), _LONGEST_PATH, middle=True)
        return InvalidInput(message, field=path)


def _step(key: str) -> str:
    return f".{key}" if _NAME.fullmatch(key) else f"[{_shown(key)}]"


def _shown(key: str) -> str:
    """The key in quotes, in ASCII with escapes, so that it can be printed anywhere."""
    return json.dumps(key[:_LONGEST_KEY] + ("..." if len(key) > _LONGEST_KEY else ""))


def _fault_of(text: str) -> str:
    found = _UNSTORABLE.search(text)
    if found is None:
        return ""
    if found[0] == "\x00":
        return "contains a NUL character, which PostgreSQL cannot store"
    return "contains half of a surrogate pair, which is not a character"


# Names


def check_text(value: Any, field: str, *, max_length: int) -> str:
    """The value, if it is text to be used as a name: storable, not blank, not too long."""
    if not isinstance(value, str):
        raise InvalidInput(f"must be text, not {type(value).__name__}", field=field)
    if not value or value.isspace():
        raise InvalidInput("must not be blank", field=field)
    if len(value) > max_length:
        raise InvalidInput(f"is longer than {max_length:,} characters", field=field)
    if fault := _fault_of(value):
        raise InvalidInput(fault, field=field)
    return value
