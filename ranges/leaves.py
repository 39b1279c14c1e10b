"""One leaf: `process` is run on it, and the cursor moves behind it.

With `atomic` both are one transaction: who has lost the strand meanwhile is `Fenced`, and what was
done to the database is rolled back. Where `process` has done nothing to it, there is nothing that
could be torn apart, and the move of the cursor is a transaction by itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from jobs import events
from jobs.context import Context
from ranges import failing, hooks
from ranges.context import LaneContext
from ranges.failing import Fault, Lost
from ranges.held import Node, Segment, Standing
from ranges.lane_database import LaneDatabase
from ranges.leaf_range import LeafRange, result_of
from ranges.loading import Loaded
from ranges.nodes import Nodes
from ranges.positions import Position, before
from ranges.rewriting import rewrite
from ranges.sizing import LeafSizer
from ranges.states import NodeState
from ranges.walking import Step

LOCK_SECONDS = 10.0
"""A leaf that waits longer for a lock is broken off and tried again, smaller."""
MOST_ITEMS = 10**12
"""Counted for one leaf. The ledger of widths is exact; this one must fit a bigint."""


class Segmented:
    """A leaf whose failed items have nodes of their own; `rest` is the strand behind it."""

    __slots__ = ("rest",)

    def __init__(self, rest: Node | None) -> None:
        self.rest = rest


type Moved = tuple[Standing, Step] | Segmented


class Leaves:
    def __init__(
        self, loaded: Loaded, context: Context, database: LaneDatabase, nodes: Nodes
    ) -> None:
        self._loaded = loaded
        self._context = context
        self._database = database
        self._nodes = nodes
        self._source = loaded.source
        self._is_atomic = loaded.options.atomic
        self._hard = loaded.hard_seconds or 0.0
        self._counts_itself = False

    def do(
        self,
        node: Node,
        items: int | None,
        sizer: LeafSizer | None,
        following: Callable[[], Step],
    ) -> Moved:
        """Process [cur, resv), commit it, and take the step behind it, which `following` finds.

        Raises what `process` raises, and Fenced; then the node is as it was.
        """
        moved: Moved | None = None
        if self._is_atomic:
            context, count, seconds, moved = self._in_one(node, items, sizer, following)
        else:
            context, count, seconds = self.process(node, items, sizer)
        if moved is None:
            step = following()
            if context.failed:
                with self._database.transaction():
                    moved = self._commit(node, context, count, seconds, step, sizer)
            else:
                moved = self._commit(node, context, count, seconds, step, sizer)
        for result in context.results:
            events.emit("range.result", run_id=self._loaded.run_id, node_id=node.id, result=result)
        return moved

    def _in_one(
        self,
        node: Node,
        items: int | None,
        sizer: LeafSizer | None,
        following: Callable[[], Step],
    ) -> tuple[LaneContext, int, float, Moved | None]:
        """`process`, and the commit with it; that is still to be made if there was nothing in it."""
        place = node.place()
        done: tuple[LaneContext, int, float, Moved | None] | None = None
        try:
            with self.transaction():
                context, count, seconds = self.process(node, items, sizer)
                moved: Moved | None = None
                if context.failed or not self._database.is_untouched:
                    moved = self._commit(node, context, count, seconds, following(), sizer)
                done = context, count, seconds, moved
        except BaseException as error:
            if done is None or done[3] is None or not hooks.came_after_commit(error):
                node.put_back(place)
                raise
            hooks.tell(done[0].log, error)
        assert done is not None
        return done

    def transaction(self) -> Any:
        """Of an atomic leaf."""
        return self._database.leaf(lock_seconds=LOCK_SECONDS, statement_seconds=self._hard)

    def process(
        self,
        node: Node,
        items: int | None,
        sizer: LeafSizer | None,
        *,
        is_one_key: bool = False,
    ) -> tuple[LaneContext, int, float]:
        """Run `process` on [cur, resv); answers with the items done and the seconds taken."""
        source = self._source
        leaf = LeafRange(source, node.cur, node.resv)
        if not source.counts_rows:
            items = width(node.cur, node.resv)
        elif items is None and not self._counts_itself:
            items = leaf.queryset.count()
        checkpoint = None if self._is_atomic else self._checkpointer(node)
        if is_one_key and checkpoint is not None:
            checkpoint = _nothing  # it is done or not, and its neighbours are not done yet
        context = LaneContext(self._loaded, self._context, node, checkpoint)
        started = time.perf_counter()
        if items == 0 and not self._counts_itself:
            return context, 0, 0.0
        answer = result_of(self._loaded.job.process(leaf, context))
        seconds = time.perf_counter() - started
        if not source.counts_rows:
            items = width(node.cur, node.resv)  # checkpoints have counted the rest
        elif isinstance(answer, int) and not isinstance(answer, bool):
            self._counts_itself = True
            items = min(max(0, answer), MOST_ITEMS)
        if sizer is not None and items:
            sizer.observe(items, seconds)
        return context, items or 0, seconds

    def _checkpointer(self, node: Node) -> Callable[[Position], None]:
        def checkpoint(upto: Position) -> None:
            items = 0 if self._source.counts_rows else width(node.cur, upto)
            self._nodes.checkpoint(node, upto, items=items)

        return checkpoint

    def _commit(
        self,
        node: Node,
        context: LaneContext,
        items: int,
        seconds: float,
        step: Step,
        sizer: LeafSizer | None,
    ) -> Moved:
        failed = {at: why for at, why in context.failed.items() if not before(at, node.cur)}
        if failed:
            segments = self._around(node, failed, items)
            ids, rest = rewrite(self._nodes, node, segments)
            failing.record(self._loaded, self._database.alias, ids, segments)
            return Segmented(rest)
        pace = sizer.seconds_per_item if sizer is not None else None
        standing = self._nodes.commit(node, step, items=items, seconds=seconds, pace=pace)
        return standing, step

    def _around(
        self, node: Node, failed: Mapping[Position, BaseException | str], items: int
    ) -> list[Segment]:
        """The leaf, cut around the items that `process` named as failed."""
        segments: list[Segment] = []
        at = node.cur
        left = max(0, items - len(failed))

        def done_upto(end: Position) -> None:
            nonlocal at, left
            if before(at, end):
                segments.append(
                    Segment(lo=at, hi=end, state=NodeState.DONE, items=left, depth=node.depth)
                )
                left = 0
                at = end

        for place in sorted(failed):
            done_upto(place)
            end = place + 1 if isinstance(place, int) else place + "\x01"
            one = self.lost(node, place, end, 1, failed[place], is_key=True)
            segments.append(failing.lost(one, depth=node.depth))
            at = end
        done_upto(node.resv)
        return segments

    def lost(
        self,
        node: Node,
        lo: Position,
        hi: Position,
        items: int,
        error: BaseException | str | Fault,
        *,
        is_key: bool,
    ) -> Lost:
        """Of a piece of this node that is given up."""
        fault = error if isinstance(error, Fault) else Fault.of(self._loaded.run.name, error)
        attempts = node.attempts + node.interrupted + 1
        return Lost(lo=lo, hi=hi, items=items, attempts=attempts, fault=fault, is_key=is_key)

    def count(self, node: Node) -> int:
        """The items of [cur, resv)."""
        if not self._source.counts_rows:
            return width(node.cur, node.resv)
        return int(self._source.leaf_queryset(node.cur, node.resv).count())


def _nothing(upto: Position) -> None: ...


def width(lo: Position, hi: Position) -> int:
    """The items of a plain range: what it holds, as far as a counter can; of text, one."""
    if isinstance(lo, int) and isinstance(hi, int):
        return min(hi - lo, MOST_ITEMS)
    return 1
