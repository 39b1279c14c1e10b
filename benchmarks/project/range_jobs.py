"""What the benchmarks run over ranges of keys."""

from __future__ import annotations

import time

from django.db.models import Q

from benchmarks import records
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

    def process(self, leaf: LeafRange, context: LeafContext) -> None:
        records.note(leaf.lo, records.START)
        time.sleep(context.params["seconds"])
        records.note(leaf.lo, records.END)


class HotSpot(RangeJob):
    """One stretch of the keys takes twenty times as long as any other of its length."""

    over = IntRange(0, 10**9)
    leaf = Leaf(target_seconds=0.05, rows=(1, 1_000_000))
    atomic = False

    def process(self, leaf: LeafRange, context: LeafContext) -> None:
        keys = context.params["keys"]
        records.note(leaf.lo, records.START)
        time.sleep(cost(leaf.lo, leaf.hi, keys) * context.params["seconds"])
        records.note(leaf.lo, records.END)


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
        records.note(leaf.lo, records.START)
        count = int(leaf.queryset.update(a=True))
        records.note(leaf.lo, records.END)
        return count


class Look(RangeJob):
    """Finds what is left to do, and does nothing about it."""

    leaf = Leaf(max_size=10_000)
    failure_threshold = None

    def process(self, leaf: LeafRange, context: LeafContext) -> None:  # noqa: ARG002
        records.note(leaf.lo, records.START)
        records.note(leaf.lo, records.END)


class LookPrefix(Look):
    over = Row.objects.all()
    todo = Q(a=False)


class LookRuns(Look):
    over = Row.objects.all()
    todo = Q(b=False)


class LookAnywhere(Look):
    over = Row.objects.all()
    todo = Q(c=False)


class LookAll(Look):
    over = Row.objects.all()
    todo = Q(d=False)


def cost(lo: int, hi: int, keys: int) -> int:
    """What [lo, hi) costs, in units of an ordinary key."""
    start, end = keys * HOT.start // 1_000, keys * HOT.stop // 1_000
    hot = max(0, min(hi, end) - max(lo, start))
    return hi - lo + hot * (HOT_COST - 1)
