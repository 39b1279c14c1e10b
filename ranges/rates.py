"""How fast a run goes, and when it will be done, from points of (active seconds, units). Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

SMOOTH_SECONDS = 30.0
"""How far back the rate looks: what is older weighs less than a third."""


_MOST = 1e300


def as_float(count: Any) -> float:
    """Of a whole number that may have hundreds of digits: what no double holds is 1e300."""
    try:
        return min(float(count), _MOST)
    except OverflowError:
        return _MOST


def rates(points: Iterable[tuple[float, Any]]) -> list[tuple[float, float]]:
    """(units a second, seconds) between points of (active seconds, units), oldest first.

    Points too near one another are passed over: what little happened between them says nothing.
    A run that was reset has fewer units than before; it starts anew.
    """
    found: list[tuple[float, float]] = []
    kept: list[tuple[float, Any]] = [(0.0, 0)]
    for seconds, units in points:
        if units is None:
            continue
        if seconds - kept[-1][0] >= 1.0:
            kept.append((seconds, units))
    for (before, had), (after, has) in pairwise(kept):
        gained = as_float(has) - as_float(had)
        if gained >= 0:
            found.append((gained / (after - before), after - before))
    # The way from the start to the first point is no more than an average of unknown age.
    return found[1:] if len(found) > 1 else found


def smoothed(found: Sequence[tuple[float, float]]) -> float | None:
    """The rate now: each interval weighs as its length and its age say."""
    rate: float | None = None
    for latest, seconds in found:
        weight = 1 - math.exp(-seconds / SMOOTH_SECONDS)
        rate = latest if rate is None else rate + weight * (latest - rate)
    return rate


def eta_of(left: float, found: Sequence[tuple[float, float]]) -> tuple[float, float] | None:
    """How long `left` takes at the rates that half, and nine tenths, of the time lately exceeded."""
    if not left:
        return 0.0, 0.0
    usual, slow = _exceeded(found, 0.5), _exceeded(found, 0.9)
    if not usual:
        return None
    likely = as_float(left) / usual
    # A stall is no reason to say "never": ten times as long is said instead.
    return likely, min(as_float(left) / slow, 10 * likely) if slow else 10 * likely


def _exceeded(found: Sequence[tuple[float, float]], share: float) -> float:
    """The rate that was reached for `share` of the time."""
    goal = share * sum(seconds for _, seconds in found)
    seen = 0.0
    for rate, seconds in sorted(found, reverse=True):
        seen += seconds
        if seen >= goal * (1 - 1e-9):
            return rate
    return 0.0
