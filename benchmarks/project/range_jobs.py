"""What the benchmarks run over ranges of keys."""

from __future__ import annotations

import time

from django.db.models import Q

from benchmarks.project.models import Row
from ranges import IntRange, Leaf, LeafContext, LeafRange, RangeJob

HOT = range(400, 450)
"""Of each thousand keys of a range with a hot spot, by their share of the whole range."""
HOT_COST = 20


class Sleep(RangeJob):
    """Every leaf takes the same time, and none of it is work."""

    over = IntRange(0, 10**9)
    leaf = Leaf(max_size=1)
    atomic = False

    def process(self, leaf: LeafRange, context: LeafContext) -> None:  # noqa: ARG002
        time.sleep(context.params["seconds"])


class HotSpot(RangeJob):
    """One stretch of the keys takes twenty times as long as any other of its length."""

    over = IntRange(0, 10**9)
    leaf = Leaf(target_seconds=0.05, rows=(1, 1_000_000))
    atomic = False

    def process(self, leaf: LeafRange, context: LeafContext) -> None:
        keys = context.params["keys"]
        time.sleep(cost(leaf.lo, leaf.hi, keys) * context.params["seconds"])


class Nothing(RangeJob):
    """Leaves without any work: what is left is the engine."""

    over = IntRange(0, 10**9)
    leaf = Leaf(max_size=10_000)

    def process(self, leaf: LeafRange, context: LeafContext) -> None:
        """Nothing."""


class Mark(RangeJob):
    """The commonest work: one UPDATE a leaf."""

    over = Row.objects.all()
    todo = Q(a=False)
    leaf = Leaf(max_size=10_000)

    def process(self, leaf: LeafRange, context: LeafContext) -> int:  # noqa: ARG002
        return int(leaf.queryset.update(a=True))


def cost(lo: int, hi: int, keys: int) -> int:
    """What [lo, hi) costs, in units of an ordinary key."""
    start, end = keys * HOT.start // 1_000, keys * HOT.stop // 1_000
    hot = max(0, min(hi, end) - max(lo, start))
    return hi - lo + hot * (HOT_COST - 1)
