"""A lane without work takes the tail of the strand that has most left: the split on demand."""

from __future__ import annotations

from ranges.held import Busy, Node
from ranges.loading import Loaded
from ranges.nodes import Nodes
from ranges.positions import width
from ranges.rates import as_float
from ranges.splitting import Victim, halve, whom_to_steal_from

ESTIMATED = 8
"""Of how many strands the rows are estimated; the others have less in front of them by far."""
LEAST_SECONDS = 0.2
"""A tail is worth a lane from here on, when leaves have a fixed size and so no target."""


def steal(loaded: Loaded, nodes: Nodes) -> Node | None:
    """A node of ours made from a busy strand's tail; None if no tail is worth it."""
    busy = nodes.victims()
    if not busy:
        return None
    axis = loaded.source.axis
    known = [each.seconds_per_row for each in busy if each.seconds_per_row is not None]
    usual = sum(known) / len(known) if known else 1.0

    def weight(one: Busy) -> float:
        pace = usual if one.seconds_per_row is None else one.seconds_per_row
        return as_float(width(axis, one.resv, one.hi)) * pace

    likely = {each.id: each for each in sorted(busy, key=weight, reverse=True)[:ESTIMATED]}
    target = loaded.options.leaf.target_seconds
    victim = whom_to_steal_from(
        [_victim(loaded, each) for each in likely.values()],
        now=0.0,
        least_seconds=2 * target if target else LEAST_SECONDS,
    )
    if victim is None:
        return None
    chosen = likely[victim.id]
    cut = halve(loaded.source, chosen.resv, chosen.hi)
    if cut is None:
        return None
    made = nodes.steal(chosen, cut)
    return None if made is None else nodes.stolen(made, cut, chosen.hi, chosen.seconds_per_row)


def _victim(loaded: Loaded, one: Busy) -> Victim:
    leaf, pace = loaded.options.leaf, one.seconds_per_row
    size = leaf.max_size if isinstance(leaf.max_size, int) else None
    if size is None:
        target = leaf.target_seconds or 1.0
        size = max(1, int(target / pace)) if pace else leaf.rows[0]
    return Victim(
        id=one.id,
        left=loaded.source.estimate(one.resv, one.hi),
        leaf_size=size,
        seconds_per_item=pace,
        commits=1,
        cool_until=one.cool_seconds,
    )
