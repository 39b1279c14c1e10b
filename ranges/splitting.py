"""Where a range is cut: into strands at the start, off a busy strand's tail, and a leaf in halves.

Decisions only. Every cut lies strictly inside, so the pieces tile what was cut: no gap, no overlap,
nothing empty.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ranges.positions import Position, before, midpoint
from ranges.rates import as_float
from ranges.sources import ProbeTimeout, Source

FIRST_COOL_DOWN_SECONDS = 1.0
LONGEST_COOL_DOWN_SECONDS = 30.0
WORTH_IT_ANYWAY_SECONDS = 10.0


def strand_count(*, concurrency: int, leaves: int) -> int:
    """Twice the lanes, so that an early end finds another strand; never more than leaves."""
    return max(1, min(2 * concurrency, leaves))


def start_pieces(
    source: Source, lo: Position, hi: Position, *, concurrency: int, leaf_size: int
) -> list[tuple[Position, Position]]:
    """The strands of a run over [lo, hi), which must not be empty."""
    leaves = -(-source.estimate(lo, hi) // leaf_size)
    wanted = strand_count(concurrency=concurrency, leaves=leaves)
    return pieces(lo, hi, source.boundaries(lo, hi, wanted) if wanted > 1 else ())


def pieces(lo: Position, hi: Position, cuts: Iterable[Position]) -> list[tuple[Position, Position]]:
    """[lo, hi) cut at those of the places that lie inside and ascend."""
    found: list[tuple[Position, Position]] = []
    left = lo
    for cut in cuts:
        if before(left, cut) and before(cut, hi):
            found.append((left, cut))
            left = cut
    found.append((left, hi))
    return found


def halve(source: Source, lo: Position, hi: Position) -> Position | None:
    """Where to cut [lo, hi) in two, by rows if they can be counted in time; None: it is one key."""
    try:
        cut = source.median(lo, hi)
    except ProbeTimeout:
        cut = midpoint(source.axis, lo, hi)
    return cut if cut is not None and before(lo, cut) and before(cut, hi) else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Victim:
    """A running strand, as a lane without work sees it."""

    id: int
    left: int
    """Rows (or width) behind the leaf at work."""
    leaf_size: int
    seconds_per_item: float | None
    commits: int
    """Since its lane claimed it. Before the first nothing is known about it."""
    cool_until: float = 0.0
    """Seconds on the clock that `now` is of."""

    @property
    def seconds_left(self) -> float | None:
        pace = self.seconds_per_item
        return None if pace is None else as_float(self.left) * pace


def whom_to_steal_from(
    victims: Iterable[Victim], *, now: float, least_seconds: float
) -> Victim | None:
    """The strand with most work left, in seconds; None if no tail is worth a lane.

    It must have two leaves left, and `least_seconds` (twice the target) of work; and rest after a
    theft, unless very much is left.
    """
    worth = [victim for victim in victims if _is_worth_it(victim, now, least_seconds)]
    if not worth:
        return None
    if all(victim.seconds_left is not None for victim in worth):
        return max(worth, key=lambda victim: victim.seconds_left or 0.0)
    return max(worth, key=lambda victim: victim.left)


def cool_down_seconds(thefts: int) -> float:
    """How long a strand is left alone after its `thefts`-th theft: 1 s, doubled each time."""
    doubled = FIRST_COOL_DOWN_SECONDS * float(2 ** min(thefts - 1, 10))
    return min(doubled, LONGEST_COOL_DOWN_SECONDS)


def _is_worth_it(victim: Victim, now: float, least_seconds: float) -> bool:
    if victim.commits < 1 or victim.left < 2 * victim.leaf_size:
        return False
    seconds = victim.seconds_left
    if now < victim.cool_until:
        return seconds is not None and seconds > WORTH_IT_ANYWAY_SECONDS
    return seconds is None or seconds >= least_seconds
