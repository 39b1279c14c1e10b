"""What a step of a run must find out in the user's tables, before it holds the run's row.

Where no index helps that takes minutes, and who pauses or cancels must not wait for it. So nothing
is held here and nothing is changed. What was found is written by a step that holds the row and finds
the run as it was (`running.py`); else it is dropped, and the next step looks again.
"""

from __future__ import annotations

from dataclasses import dataclass

from ranges import guard
from ranges.bounding import least_leaf
from ranges.leaves import MOST_ITEMS
from ranges.loading import Loaded
from ranges.positions import Position, before
from ranges.querying import QuerySource
from ranges.run_rows import planned_bounds
from ranges.sizing import LeafSizer
from ranges.sources import ProbeTimeout, Source
from ranges.splitting import start_pieces


@dataclass(frozen=True, kw_only=True)
class Ground:
    """Where a run will work: all that is decided before its first strand."""

    lo: Position
    hi: Position
    probing: str
    advice: guard.IndexVerdict | None
    rows_estimate: int | None
    pieces: tuple[tuple[Position, Position], ...]
    """The first strands; empty: nothing needs work."""


def survey(loaded: Loaded) -> Ground:
    """The bounds, how finished work is passed over, and where to cut. Raises InvalidInput."""
    run, source, options = loaded.run, loaded.source, loaded.options
    if isinstance(source, QuerySource):
        source.check_nulls()  # there may be some since the run was made
    lo, hi = planned_bounds(run, source)
    advice = guard.judge(source) if isinstance(source, QuerySource) else None
    probing = _probing(loaded, advice)
    if hasattr(source, "probing") and probing in ("witness", "filter"):
        source.probing = probing
    estimate: int | None = None
    pieces: list[tuple[Position, Position]] = []
    if before(lo, hi):
        if probing == "witness" and _is_done(source, lo, hi):
            estimate = 0
        else:
            estimate = _estimate(source, lo, hi)
            sizer = LeafSizer(options.leaf, least=least_leaf(source, (lo, hi), options.max_depth))
            size = sizer.size()
            pieces = start_pieces(source, lo, hi, concurrency=run.concurrency, leaf_size=size)
    return Ground(
        lo=lo, hi=hi, probing=probing, advice=advice, rows_estimate=estimate, pieces=tuple(pieces)
    )


def _probing(loaded: Loaded, advice: guard.IndexVerdict | None) -> str:
    if loaded.job.asks():
        return "blocks"
    return "none" if advice is None else str(advice.probing)


def _is_done(source: Source, lo: Position, hi: Position) -> bool:
    """Whether the index says that nothing needs work. Not to know is no."""
    try:
        return source.next_leaf(lo, hi, 1) is None
    except ProbeTimeout:
        return False


def _estimate(source: Source, lo: Position, hi: Position) -> int | None:
    """Of what the work will count; None: the keys tell better how much is left."""
    estimate = source.estimate(lo, hi)
    if source.counts_rows:
        return min(estimate, 2**63 - 1)
    return estimate if source.axis.is_ordinal and estimate <= MOST_ITEMS else None
