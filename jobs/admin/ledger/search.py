"""The search box: `type:send_email queue:mail error:"timed out" payload.user.id:42 0198c0de`.

Pure: from a text to named values and complaints. Whether a value is right, the filters say.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

LENGTH = 500
TERMS = 20

NAMES = {
    "id": "id_prefix",
    "type": "type",
    "queue": "queue",
    "priority": "priority",
    "worker": "worker",
    "schedule": "schedule",
    "depends_on": "depends_on",
    "error": "error",
    "group": "error_fingerprint",
}
"""What may stand before a colon, and the filter that it is."""
PRIORITIES = {"high": 1, "medium": 2, "low": 3}

_TERM = re.compile(r"""(?:([A-Za-z_][\w.-]*):)?(?:"((?:[^"\\]|\\.)*)"|(\S+))""")
_ID = re.compile(r"[0-9a-fA-F][0-9a-fA-F-]{3,35}\Z")
_NUMBER = re.compile(r"-?[0-9]{1,15}\Z")


@dataclass(frozen=True, kw_only=True)
class Term:
    """One part of the search as it was written, and what it means."""

    text: str
    name: str = ""
    """The filter; empty if it was not understood."""
    value: Any = None
    problem: str = ""


@dataclass(kw_only=True)
class Search:
    terms: list[Term] = field(default_factory=list)

    def without(self, term: Term) -> str:
        """The search without one of its parts."""
        return " ".join(each.text for each in self.terms if each is not term)


def parse(text: str, *, types: Mapping[str, Any] | frozenset[str] = frozenset()) -> Search:
    """Read a search. A bare word is an id's beginning, or a known type."""
    found = Search()
    if len(text) > LENGTH:
        problem = f"is longer than {LENGTH} characters"
        found.terms.append(Term(text=text[:60], problem=problem))
        return found
    for match in _TERM.finditer(text):
        if len(found.terms) == TERMS:
            found.terms.append(Term(text=text[match.start() :], problem=f"more than {TERMS} parts"))
            break
        found.terms.append(_term(match, types))
    return found


def _term(match: re.Match[str], types: Any) -> Term:
    text, key, quoted, bare = match[0], match[1], match[2], match[3]
    value = bare if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
    if key is None:
        return _word(text, value, types)
    if key.lower().startswith("payload."):
        return _payload(text, key[len("payload.") :], bare, value)
    name = NAMES.get(key.lower())
    if name is None:
        known = ", ".join(f"{each}:" for each in NAMES)
        return Term(text=text, problem=f"{key}: is unknown; known are {known}, payload.name:")
    if name == "priority":
        return _priority(text, value)
    return Term(text=text, name=name, value=value)


def _word(text: str, value: str, types: Any) -> Term:
    if value in types:
        return Term(text=text, name="type", value=value)
    if _ID.match(value):
        return Term(text=text, name="id_prefix", value=value)
    return Term(
        text=text, problem='is neither an id nor a type; write error:"…", queue:… or payload.name:…'
    )


def _priority(text: str, value: str) -> Term:
    number = PRIORITIES.get(value.lower())
    if number is None and _NUMBER.match(value):
        number = int(value)
    if number is None:
        return Term(text=text, problem="must be high, medium or low")
    return Term(text=text, name="priority", value=number)


def _payload(text: str, path: str, bare: str | None, value: str) -> Term:
    """`payload.user.id:42` asks for `{"user": {"id": 42}}`; quotes make it a text."""
    keys = path.split(".")
    if not all(keys):
        return Term(text=text, problem="must name a key, such as payload.user.id:42")
    found: Any = value if bare is None else _literal(bare)
    for key in reversed(keys):
        found = {key: found}
    return Term(text=text, name="payload", value=found)


def _literal(text: str) -> Any:
    """A number, true, false or null as JSON has it; else the text."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return text if isinstance(found, dict | list) else found


def merged(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Both objects in one; the second wins where they differ."""
    found = dict(one)
    for key, value in other.items():
        kept = found.get(key)
        both = isinstance(kept, dict) and isinstance(value, dict)
        found[key] = merged(kept, value) if both else value  # type: ignore[arg-type]
    return found
