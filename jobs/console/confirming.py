"""Asking before something is done. The ladder:

0. Nothing: pause, resume, retry one. 1. Two steps on the button (`data-confirm`, confirming.js).
2. A page: how many, the oldest and the newest, a sample, in words, a reason.
3. The same with a word to type.

Without script, level 1 gets the page too: the form comes without `confirmed`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest

CONFIRMED = "confirmed"
TYPED = "typed"
REASON = "reason"


@dataclass(frozen=True, kw_only=True)
class Field:
    """Something more to be said: the new priority, the new queue."""

    name: str
    label: str
    choices: Sequence[tuple[str, str]] = ()
    """For a select; none: a text."""
    suggestions: Sequence[str] = ()
    value: str = ""
    problem: str = ""
    help: str = ""


@dataclass(frozen=True, kw_only=True)
class Question:
    title: str
    what: str
    """Exactly what will change: "Purges 12 dead letters for good, with attempts and logs." """
    button: str
    back: str
    """Where Cancel leads, and where one is afterwards."""
    facts: Sequence[tuple[str, Any]] = ()
    hidden: Sequence[tuple[str, str]] = ()
    fields: Sequence[Field] = ()
    sample: Sequence[Any] = ()
    """Jobs, as ledger rows."""
    more: int = 0
    notes: Sequence[str] = ()
    """What stays as it is, and what else follows."""
    type: str = ""
    """The word to be typed; empty: none."""
    has_reason: bool = True
    is_dangerous: bool = False
    problem: str = ""


def is_confirmed(request: HttpRequest) -> bool:
    return request.POST.get(CONFIRMED) == "yes"


def typed(request: HttpRequest, word: str) -> bool:
    """Whether the word was typed, give or take spaces, case and thousands separators."""
    return _plain(request.POST.get(TYPED, "")) == _plain(word)


def reason(request: HttpRequest) -> str:
    return request.POST.get(REASON, "").strip()[:1_000]


def _plain(text: str) -> str:
    return " ".join(text.lower().replace(",", "").split())
