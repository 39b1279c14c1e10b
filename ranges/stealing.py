"""A lane without work takes the tail of the strand that has most left: the split on demand."""

from __future__ import annotations

from ranges.held import Node
from ranges.loading import Loaded
from ranges.nodes import Nodes
from ranges.positions import Position, width
from ranges.splitting import Victim, halve, whom_to_steal_from

ESTIMATED = 8
"""Of how many strands the rows are estimated; the others have less in front of them by far."""
LEAST_SECONDS = 0.5
"""A tail is worth a lane from here on, when leaves have a fixed size and so no target."""


def steal(loaded: Loaded, nodes: Nodes) -> Node | None:
    """A node of ours made from a busy strand's tail; None if no tail is worth it."""
    rows = nodes.victims()
    if not rows:
        return None
    axis = loaded.source.axis
    known = [pace for *_, pace in rows if pace is not None]
    usual = sum(known) / len(known) if known else 1.0

    def weight(row: tuple[int, Position, Position, float | None]) -> float:
        _, hi, resv, pace = row
        return float(width(axis, resv, hi)) * (usual if pace is None else pace)

    candidates = {row[0]: row for row in sorted(rows, key=weight, reverse=True)[:ESTIMATED]}
    leaf = loaded.options.leaf
    victims = []
    for id, hi, resv, pace in candidates.values():
        size = leaf.max_size if isinstance(leaf.max_size, int) else None
        if size is None:
            target = leaf.target_seconds or 1.0
            size = max(1, int(target / pace)) if pace else leaf.rows[0]
        left = loaded.source.estimate(resv, hi)
        victims.append(Victim(id=id, left=left, leaf_size=size, seconds_per_item=pace, commits=1))
    least = 2 * leaf.target_seconds if leaf.target_seconds else LEAST_SECONDS
    victim = whom_to_steal_from(victims, now=0.0, least_seconds=least)
    if victim is None:
        return None
    _, hi, resv, pace = candidates[victim.id]
    cut = halve(loaded.source, resv, hi)
    if cut is None:
        return None
    made = nodes.steal(victim.id, hi, cut)
    return None if made is None else nodes.stolen(made, cut, hi, pace)
