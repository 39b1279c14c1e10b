"""One lane of a run: take a strand, work leaf after leaf, take the next, steal when none is ready.

    claim or steal -> [ probe -> reserve ] -> process -> commit, and reserve the next -> ... -> done

What must always be true:
1. With `atomic`, the work of a leaf and the move of the cursor behind it are one transaction. A lane
   that has lost its strand meanwhile is `Fenced`, and what it did to the database is rolled back
   (`leaves.py`).
2. Pause, cancel and a new concurrency are read from the answer to each commit: no leaf is begun
   after that.
3. A failing leaf never holds up what lies behind it: it becomes a node of its own (`mending.py`).
4. Whatever a lane is not sure of (was that commit written?) it drops: its job ends, its epoch with
   it, and the strand is free for the next lane, as the table has it.
"""

from __future__ import annotations

import time

from jobs.answers import JobTimeout, Snooze
from jobs.context import Context
from ranges.around import Around
from ranges.bounding import least_leaf
from ranges.failing import DiedAtWork
from ranges.held import Fenced, Lease, Node, Standing
from ranges.lane_database import LaneDatabase
from ranges.leaf_range import HandBack
from ranges.leaves import Leaves, Segmented
from ranges.loading import Loaded
from ranges.mending import Mender
from ranges.nodes import Nodes
from ranges.positions import before
from ranges.sizing import LeafSizer
from ranges.stealing import steal
from ranges.walking import Step, Walker

SLICE_SECONDS = 5.0
"""After so long a lane goes to the back of the queue, if jobs of its rank wait there."""
LONGEST_SECONDS = 3_600.0
"""After so long it does in any case: a job that never ends could not be timed."""
IDLE_SECONDS = 2.0
"""So long a lane without work keeps its slot, to steal or to help with what fails."""
LOOK_SECONDS = 0.05
"""The first pause between two looks; each next one is half as long again."""


class Lane:
    def __init__(self, loaded: Loaded, context: Context, index: int) -> None:
        self._loaded = loaded
        self._context = context
        self._asks = loaded.job.asks()
        now = time.monotonic()
        self._turn_ends_at = now + SLICE_SECONDS
        self._leaves_at = now + LONGEST_SECONDS
        self._least = least_leaf(loaded.source, loaded.bounds, loaded.options.max_depth)
        database = LaneDatabase()
        self._nodes = Nodes(
            database,
            loaded.run_id,
            loaded.cells(),
            Lease(job_id=context.job_id, epoch=context.lease_epoch),
            is_ordinal=loaded.source.axis.is_ordinal,
            hard_seconds=loaded.hard_seconds,
        )
        self._around = Around(loaded, context, index, database, self._nodes)
        self._leaves = Leaves(loaded, context, database, self._nodes)
        self._mender = Mender(loaded, context, self._around, database, self._nodes, self._leaves)

    def work(self) -> Snooze | None:
        """Until nothing is left, the run stops, or it is somebody else's turn."""
        idle_since: float | None = None
        pause = LOOK_SECONDS
        while True:
            if not self._around.goes_on(self._around.standing()):
                return None
            if self._must_yield():
                return Snooze(0, quiet=True)
            node = self._take()
            if node is not None:
                idle_since, pause = None, LOOK_SECONDS
                try:
                    self._work_at(node)
                except Fenced:
                    self._nodes.note_fenced(node)
                    self._around.emit("node.fenced", node)
                    return Snooze(LOOK_SECONDS, quiet=True)
                continue
            _, pending, running, _ = self._nodes.open()
            if not pending and not running:
                return None
            now = time.monotonic()
            idle_since = idle_since or now
            if now - idle_since > IDLE_SECONDS:
                return Snooze(1, quiet=True)
            time.sleep(pause)
            pause *= 1.5

    def _must_yield(self) -> bool:
        """Whether somebody else should have the slot now."""
        if self._context.should_yield:
            return True
        now = time.monotonic()
        if now < self._turn_ends_at:
            return False
        if now > self._leaves_at or self._around.others_wait():
            return True
        self._turn_ends_at = now + SLICE_SECONDS
        return False

    # Strands

    def _take(self) -> Node | None:
        node = self._nodes.claim()
        if node is not None:
            if node.struck:
                self._around.emit("node.stale", node)
            self._around.emit("node.started", node)
            return node
        node = steal(self._loaded, self._nodes)
        if node is not None:
            self._around.emit("node.stolen", node)
        return node

    def _work_at(self, node: Node) -> None:
        if node.is_bisect:
            self._mender.bisect(node)
        else:
            self._strand(node)

    def _strand(self, node: Node) -> None:
        """Walk a strand until it is done, or must be given back."""
        options = self._loaded.options
        sizer = LeafSizer(options.leaf, least=self._least, seconds_per_item=node.seconds_per_row)
        walker = self._loaded.job.walker(
            self._loaded.source,
            self._loaded.bounds,
            sizer,
            max_depth=options.max_depth,
            blind=self._around.is_blind,
        )
        rest: Node | None = node
        if node.struck and node.interrupted >= options.retry.max_attempts:
            node.resv = node.was
            error = DiedAtWork("the worker died at this leaf each time")
            rest = self._mender.peel(node, error)
        while rest is not None:
            rest = self._walk(rest, walker, sizer)

    def _walk(self, node: Node, walker: Walker, sizer: LeafSizer) -> Node | None:
        """Leaf after leaf; returns the strand behind a leaf that failed, if there is one."""
        around, nodes = self._around, self._nodes
        step = self._next(node, walker)
        standing = nodes.reserve(node, step)
        while True:
            around.note(walker)
            if standing.is_done:
                around.emit("node.completed" if node.leaves else "node.skipped", node)
                return None
            if not around.goes_on(standing) or self._must_yield():
                nodes.release(node)
                return None
            if not node.has_leaf:
                step = self._next(node, walker)
                standing = nodes.reserve(node, step)
                continue
            items = step.items if node.resv == step.hi and not walker.blind else None
            try:
                moved = self._leaves.do(node, items, sizer, lambda: self._following(node, walker))
            except Fenced:
                raise
            except BaseException as error:  # noqa: BLE001 - whatever `process` raises is the leaf's
                retried = self._failed(node, walker, sizer, error)
                if not isinstance(retried, tuple):
                    return retried
                standing, step = retried
                continue
            self._mender.succeeded()
            if isinstance(moved, Segmented):
                around.check_threshold()
                return moved.rest
            standing, step = moved
            around.sample()

    def _failed(
        self, node: Node, walker: Walker, sizer: LeafSizer, error: BaseException
    ) -> Node | tuple[Standing, Step] | None:
        """The leaf to be tried again at once, or the strand behind it; None: it was given back."""
        mender = self._mender
        if isinstance(error, HandBack):
            if not self._around.has_cause_to_stop() and not mender.rest_a_while(node):
                return mender.peel(node, HandBack("it was handed back without any progress"))
            self._nodes.release(node)
            return None
        verdict = mender.judge(error)
        if verdict == "stop":
            self._nodes.release(node)
            return None
        if not node.has_leaf:
            step = self._next(node, walker)
            return mender.failed_when_done(node, error, step), step
        if verdict == "transient" and mender.rest_a_while(node):
            sizer.halve()
            step = self._next(node, walker)
            return self._nodes.reserve(node, step), step
        return mender.peel(node, error)

    def _next(self, node: Node, walker: Walker) -> Step:
        return walker.next(node.cur, node.hi) if before(node.cur, node.hi) else Step(None, node.hi)

    def _following(self, node: Node, walker: Walker) -> Step:
        """The step behind the leaf at work; if it is not known, that the walk goes on there."""
        unknown = Step(None, node.resv)
        if self._asks or not before(node.resv, node.hi):
            # The user's callback is asked outside this transaction, which an error in its own
            # queries would spoil.
            return unknown
        try:
            return walker.next(node.resv, node.hi)
        except JobTimeout:
            raise
        except Exception:  # noqa: BLE001 - no fault of this leaf; it comes again when asked behind it
            return unknown
