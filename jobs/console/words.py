"""Numbers, times and states as the console writes them."""

from __future__ import annotations

from datetime import datetime

from jobs.skew import ClockSkew
from jobs.states import State

PRIORITIES = {1: "high", 2: "medium", 3: "low"}

ICONS = {
    **{state.value: state.value for state in State},
    "created": "scheduled",
    "pending": "ready",
    "processing": "running",
    "paused": "held",
    "failed": "dead",
    "partially_failed": "warning",
    "succeeded": "completed",
    "timed_out": "scheduled",
    "lost": "warning",
    "snoozed": "scheduled",
    "waited": "blocked",
    "handed_back": "retrying",
    "draining": "cancelling",
    "quiet": "held",
    "stopped": "cancelled",
    "stale": "warning",
    "aborted": "cancelled",
    "purged": "x",
}

NONE = "\N{EN DASH}"

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def duration(seconds: float | None) -> str:
    """A length of time in at most two units."""
    if seconds is None:
        return NONE
    if seconds < 0:
        return f"-{duration(-seconds)}"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    parts: list[tuple[int, str]] = []
    for size, unit in _UNITS:
        amount, whole = divmod(whole, size)
        if amount or parts:
            parts.append((amount, unit))
    return " ".join(f"{amount} {unit}" for amount, unit in parts[:2] if amount)


def off(skew: ClockSkew) -> str:
    """ "4.2 s ahead of the database's"."""
    return f"{duration(abs(skew.seconds))} {skew.side} the database's"


def ago(at: datetime, now: datetime) -> str:
    """ "5 min ago", "in 2 h": one unit, rounded down. The page's script says it in the same words."""
    seconds = (now - at).total_seconds()
    length = abs(seconds)
    if length < 1:
        return "now"
    size, unit = next((size, unit) for size, unit in _UNITS if length >= size)
    text = f"{int(length // size):,} {unit}"
    return f"{text} ago" if seconds > 0 else f"in {text}"


def sentence(text: object) -> str:
    """With one full stop at its end, whoever wrote it."""
    return f"{str(text).rstrip('. ')}."


def brief(number: int) -> str:
    """A number where there is room for six characters: "99,999", "101k", "2.3M". The page's script
    says it in the same words.
    """
    if number < 100_000:
        return f"{number:,}"
    return f"{number // 1_000}k" if number < 1_000_000 else f"{number // 100_000 / 10:.1f}M"


def count(number: int | None, *, is_least: bool = False) -> str:
    if number is None:
        return NONE
    return f"{number:,}{'+' if is_least else ''}"
