"""One lane of a run: take a strand, work leaf after leaf, take the next, steal when none is ready.

    claim or steal -> [ probe -> reserve ] -> process -> commit, and reserve the next -> ... -> done

What must always be true:
1. With `atomic`, the work of a leaf and the move of the cursor behind it are one transaction. A lane
   that has lost its strand meanwhile is `Fenced`, and what it did to the database is rolled back.
2. Pause, cancel and a new concurrency are read from the answer to each commit: no leaf is begun
   after that.
3. A failing leaf never holds up what lies behind it: it becomes a node of its own (`failing.py`).
4. Whatever a lane is not sure of (was that commit written?) it drops: its job ends, its epoch with
   it, and the strand is free for the next lane, as the table has it.
"""

from __future__ import annotations

import asyncio
import inspect
import random
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from django.db import connections, transaction

from jobs import events
from jobs.answers import JobTimeout, Snooze
from jobs.context import Context
from jobs.database import DjangoDatabase, is_away
from jobs.lifecycle.rows import cause
from ranges import failing, progress
from ranges.context import LaneContext
from ranges.declaring import HandBack, LeafRange, least_leaf
from ranges.failing import DiedAtWork, Fault, Lost
from ranges.loading import Loaded, work_alias
from ranges.nodes import Fenced, Lease, Node, Nodes, Segment, Standing
from ranges.positions import Position, before
from ranges.retrying import TRANSIENT_TRIES, crossed, most_open_bisects, transient_seconds
from ranges.sizing import LeafSizer
from ranges.states import NodeState, RunStatus
from ranges.stealing import steal
from ranges.walking import Step, Walker

SLICE_SECONDS = 5.0
"""After so long a lane goes to the back of the queue, so that jobs of its rank get their turn."""
IDLE_SECONDS = 2.0
"""So long a lane without work keeps its slot, to steal or to help with what fails."""
LOOK_SECONDS = 0.05
"""The first pause between two looks; each next one is half as long again."""
SAMPLE_SECONDS = 10.0
LOCK_SECONDS = 10.0
"""A leaf that waits longer for a lock is broken off and tried again, smaller."""
MOST_ITEMS = 10**12
"""Counted for one leaf. The ledger of widths is exact; this one must fit a bigint."""

STANDING = "SELECT status, concurrency FROM ranges_rangerun WHERE id = %(run)s::uuid"

TALLY = """
UPDATE ranges_rangerun SET
    probe_timeouts = probe_timeouts + %(timeouts)s, prune_errors = prune_errors + %(errors)s,
    probing = CASE WHEN %(blind)s AND probing = 'witness' THEN 'filter' ELSE probing END
WHERE id = %(run)s::uuid
"""


class Lane:
    def __init__(self, loaded: Loaded, context: Context, index: int) -> None:
        self._loaded = loaded
        self._context = context
        self._index = index
        self._database = DjangoDatabase()
        self._alias = work_alias(loaded.source)
        self._options = loaded.options
        axis = loaded.source.axis
        hard = loaded.options.leaf.hard_timeout
        self._hard = None if hard is None else float(hard)  # type: ignore[arg-type]
        self._nodes = Nodes(
            self._database,
            loaded.run_id,
            loaded.cells(),
            Lease(job_id=context.job_id, epoch=context.lease_epoch),
            is_ordinal=axis.is_ordinal,
            hard_seconds=self._hard,
        )
        self._least = least_leaf(loaded.source, loaded.bounds, loaded.options.max_depth)
        self._is_blind = loaded.is_blind
        self._asks = loaded.job.asks()
        self._counts_itself = False
        self._tries = 0
        self._sampled_at = float("-inf")  # the table says whether somebody did just now
        self._limits = (
            f"SET LOCAL lock_timeout = {int(LOCK_SECONDS * 1000)}; "
            f"SET LOCAL statement_timeout = {int((self._hard or 0) * 1000)}"
        )

    def work(self) -> Snooze | None:
        """Until nothing is left, the run stops, or it is somebody else's turn."""
        ends_at = time.monotonic() + SLICE_SECONDS
        idle_since: float | None = None
        pause = LOOK_SECONDS
        while True:
            if not self._goes_on(self._standing()):
                return None
            if self._context.should_yield or time.monotonic() > ends_at:
                return Snooze(0, quiet=True)
            node = self._take()
            if node is not None:
                idle_since, pause = None, LOOK_SECONDS
                try:
                    self._work_at(node, ends_at)
                except Fenced:
                    self._nodes.note_fenced(node)
                    self._emit("node.fenced", node)
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

    # Strands

    def _take(self) -> Node | None:
        node = self._nodes.claim()
        if node is not None:
            if node.struck:
                self._emit("node.stale", node)
            self._emit("node.started", node)
            return node
        node = steal(self._loaded, self._nodes)
        if node is not None:
            self._emit("node.stolen", node)
        return node

    def _work_at(self, node: Node, ends_at: float) -> None:
        if node.is_bisect:
            self._bisect(node)
        else:
            self._strand(node, ends_at)

    def _strand(self, node: Node, ends_at: float) -> None:
        """Walk a strand until it is done, or must be given back."""
        sizer = LeafSizer(
            self._options.leaf, least=self._least, seconds_per_item=node.seconds_per_row
        )
        walker = self._loaded.job.walker(
            self._loaded.source,
            self._loaded.bounds,
            sizer,
            max_depth=self._options.max_depth,
            blind=self._is_blind,
        )
        rest: Node | None = node
        if node.struck and node.interrupted >= self._options.retry.max_attempts:
            node.resv = node.was
            rest = self._peel(node, DiedAtWork("the worker died at this leaf each time"))
        while rest is not None:
            rest = self._walk(rest, walker, sizer, ends_at)

    def _walk(self, node: Node, walker: Walker, sizer: LeafSizer, ends_at: float) -> Node | None:
        """Leaf after leaf; returns the strand behind a leaf that failed, if there is one."""
        step = self._next(node, walker)
        standing = self._nodes.reserve(node, step)
        while True:
            self._note(walker)
            if standing.is_done:
                self._emit("node.completed" if node.leaves else "node.skipped", node)
                return None
            if (
                not self._goes_on(standing)
                or self._context.should_yield
                or time.monotonic() > ends_at
            ):
                self._nodes.release(node)
                return None
            if not node.has_leaf:
                step = self._next(node, walker)
                standing = self._nodes.reserve(node, step)
                continue
            items = step.items if node.resv == step.hi and not walker.blind else None
            try:
                moved = self._leaf(node, items, sizer, lambda: self._following(node, walker))
            except Fenced:
                raise
            except HandBack:
                if not self._has_cause_to_stop() and not self._rest_a_while(node):
                    return self._peel(node, HandBack("it was handed back without any progress"))
                self._nodes.release(node)
                return None
            except BaseException as error:  # noqa: BLE001 - whatever `process` raises is the leaf's
                verdict = self._judge(error)
                if verdict == "stop":
                    self._nodes.release(node)
                    return None
                if verdict == "transient" and self._rest_a_while(node):
                    sizer.halve()
                    step = self._next(node, walker)
                    standing = self._nodes.reserve(node, step)
                    continue
                return self._peel(node, error)
            self._tries = 0
            if isinstance(moved, Segmented):
                return moved.rest
            standing, step = moved
            self._sample()

    def _next(self, node: Node, walker: Walker) -> Step:
        return walker.next(node.cur, node.hi) if before(node.cur, node.hi) else Step(None, node.hi)

    def _following(self, node: Node, walker: Walker) -> Step:
        """The step behind the leaf at work."""
        if not before(node.resv, node.hi):
            return Step(None, node.resv)
        if self._asks:
            # The user's callback is asked outside this transaction, which an error in its own
            # queries would spoil.
            return Step(None, node.resv)
        return walker.next(node.resv, node.hi)

    # One leaf

    def _leaf(
        self,
        node: Node,
        items: int | None,
        sizer: LeafSizer | None,
        following: Callable[[], Step],
    ) -> tuple[Standing, Step] | Segmented:
        """Process [cur, resv) and commit it. Raises what `process` raises, and Fenced."""
        if not self._options.atomic:
            context, count, seconds = self._process(node, items, sizer)
            step = following()
            with transaction.atomic(using=self._database.alias):
                moved = self._commit(node, context, count, seconds, step, sizer)
        else:
            kept = replace(node, cells=bytearray(node.cells))
            try:
                with transaction.atomic(using=self._alias):
                    self._set_limits()
                    context, count, seconds = self._process(node, items, sizer)
                    moved = self._commit(node, context, count, seconds, following(), sizer)
            except BaseException:
                for name in Node.__slots__:
                    setattr(node, name, getattr(kept, name))
                raise
        for result in context.results:
            events.emit("range.result", run_id=self._loaded.run_id, node_id=node.id, result=result)
        if isinstance(moved, Segmented):
            self._check_threshold()
        return moved

    def _process(
        self, node: Node, items: int | None, sizer: LeafSizer | None
    ) -> tuple[LaneContext, int, float]:
        """Run `process` on [cur, resv); answers with the items done and the seconds taken."""
        source = self._loaded.source
        leaf = LeafRange(source, node.cur, node.resv)
        if not source.counts_rows:
            items = self._width(node.cur, node.resv)
        elif items is None and not self._counts_itself:
            items = leaf.queryset.count()
        checkpoint = None if self._options.atomic else self._checkpointer(node)
        context = LaneContext(self._loaded, self._context, node, checkpoint)
        started = time.perf_counter()
        if items == 0 and not self._counts_itself:
            return context, 0, 0.0
        answer: Any = self._loaded.job.process(leaf, context)
        if inspect.iscoroutine(answer):
            answer = asyncio.run(answer)
        seconds = time.perf_counter() - started
        if source.counts_rows and isinstance(answer, int) and not isinstance(answer, bool):
            self._counts_itself = True
            items = max(0, answer)
        elif not source.counts_rows:
            items = self._width(node.cur, node.resv)  # checkpoints have counted the rest
        if sizer is not None and items:
            sizer.observe(items, seconds)
        return context, items or 0, seconds

    def _checkpointer(self, node: Node) -> Callable[[Position], None]:
        def checkpoint(upto: Position) -> None:
            items = 0
            if not self._loaded.source.counts_rows:
                items = self._width(node.cur, upto)
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
    ) -> tuple[Standing, Step] | Segmented:
        failed = {at: why for at, why in context.failed.items() if not before(at, node.cur)}
        if failed:
            segments = self._around(node, failed, items)
            ids, rest = self._nodes.rewrite(node, segments)
            failing.record(self._loaded, self._database.alias, ids, segments)
            return Segmented(rest)
        pace = sizer.seconds_per_item if sizer is not None else None
        standing = self._nodes.commit(node, step, items=items, seconds=seconds, pace=pace)
        return standing, step

    def _around(
        self, node: Node, failed: dict[Position, BaseException | str], items: int
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
            one = self._lost(node, place, end, 1, failed[place], is_key=True)
            segments.append(failing.lost(one, depth=node.depth))
            at = end
        done_upto(node.resv)
        return segments

    def _set_limits(self) -> None:
        with connections[self._alias].cursor() as cursor:
            cursor.execute(self._limits)

    # Leaves that failed

    def _judge(self, error: BaseException) -> str:
        """stop, transient or permanent. Raises what says that the database itself is away."""
        if isinstance(error, JobTimeout) or is_away(cause(error)):
            raise error
        if self._context.cancelled:
            return "stop"
        return "transient" if self._options.retry.is_transient(error) else "permanent"

    def _rest_a_while(self, node: Node) -> bool:
        """Wait a little before the same leaf is tried again; False when that was often enough."""
        self._tries += 1
        if self._tries > TRANSIENT_TRIES:
            self._tries = 0
            return False
        self._emit("node.retrying", node)
        ends_at = time.monotonic() + transient_seconds(self._tries, random.random)
        while time.monotonic() < ends_at and not self._context.should_yield:
            time.sleep(0.02)
        return True

    def _peel(self, node: Node, error: BaseException) -> Node | None:
        """Make the failed leaf a node of its own; returns the strand behind it."""
        retry = self._options.retry
        fault = Fault.of(self._loaded.run.name, error)
        attempts = node.attempts + 1
        struck = isinstance(error, DiedAtWork)
        delay = retry.wait_seconds(attempts, random.random)
        opened = self._nodes.open()[0]
        if opened >= most_open_bisects(self._options.concurrency):
            # What has failed before must show first what is wrong with it.
            self._nodes.release(node, delay=delay, failures=0, error=fault.error)
            return None
        if attempts < retry.max_attempts and not struck:
            segments = [failing.again(node, fault, attempts=attempts, delay=delay)]
        else:
            segments = self._divided(node, fault, kills=struck)
        return self._replace(node, segments)

    def _bisect(self, node: Node) -> None:
        """Try a leaf that has failed: whole, in halves, or key by key."""
        retry = self._options.retry
        is_spent = node.attempts >= retry.max_attempts
        keys: list[Position] | None = None
        if is_spent:
            keys = self._loaded.source.keys(node.cur, node.hi, failing.ITEMWISE + 1)
        if node.struck:
            may_die = 1 if keys is not None and len(keys) > 1 else retry.max_attempts
            if node.interrupted > may_die or (may_die > 1 and node.interrupted >= may_die):
                node.resv = node.hi
                fault = Fault.of(self._loaded.run.name, DiedAtWork("the worker died at it"))
                self._replace(node, self._divided(node, fault, kills=True))
                return
        standing = self._nodes.reserve(node, Step(node.cur, node.hi))
        if not self._goes_on(standing) or self._context.should_yield:
            self._nodes.release(node)
            return
        one_by_one = keys is not None and retry.bisect and not node.interrupted
        if keys is not None and one_by_one and 1 < len(keys) <= failing.ITEMWISE:
            self._each(node, keys)
            return
        try:
            moved = self._leaf(node, None, None, lambda: Step(None, node.resv))
        except Fenced:
            raise
        except BaseException as error:  # noqa: BLE001
            verdict = "stop" if isinstance(error, HandBack) else self._judge(error)
            if verdict == "stop" or (verdict == "transient" and self._rest_a_while(node)):
                self._nodes.release(node)
                return
            self._failed_again(node, error)
            return
        self._tries = 0
        if not isinstance(moved, Segmented):
            self._emit("node.completed", node)

    def _failed_again(self, node: Node, error: BaseException) -> None:
        retry = self._options.retry
        fault = Fault.of(self._loaded.run.name, error)
        attempts = node.attempts + 1
        if attempts < retry.max_attempts:
            delay = retry.wait_seconds(attempts, random.random)
            self._nodes.release(node, delay=delay, failures=1, error=fault.error)
            self._emit("node.retrying", node, error=fault.error)
            return
        self._replace(node, self._divided(node, fault, kills=False))

    def _divided(self, node: Node, fault: Fault, *, kills: bool) -> list[Segment]:
        """What becomes of a leaf that is out of attempts."""
        retry, source = self._options.retry, self._loaded.source
        attempts = max(node.attempts + 1, retry.max_attempts)
        keys = source.keys(node.cur, node.resv, failing.ITEMWISE + 1)
        if source.counts_rows and not keys:
            # Nothing in it needs work any more.
            return [Segment(lo=node.cur, hi=node.resv, state=NodeState.DONE, depth=node.depth)]
        is_key = len(keys) <= 1
        if not is_key and retry.bisect and not failing.is_over_budget(self._database, self._loaded):
            if len(keys) <= failing.ITEMWISE and not kills and not node.interrupted:
                return [failing.again(node, fault, attempts=attempts, delay=0.0)]
            halves = failing.halves(
                self._loaded, node, fault, attempts=attempts, kills=kills or bool(node.interrupted)
            )
            if halves is not None:
                return halves
        items = 1 if is_key else self._count(node)
        start = keys[0] if keys else node.cur
        one = self._lost(node, start, node.resv, items, fault, is_key=is_key)
        segment = failing.lost(one, depth=node.depth)
        return [replace(segment, lo=node.cur)]

    def _each(self, node: Node, keys: list[Position]) -> None:
        """Key by key: each in a savepoint, so that those that fail leave the others' work alone."""
        ends = [*keys[1:], node.resv]
        starts = [node.cur, *keys[1:]]
        segments: list[Segment] = []

        def one(lo: Position, hi: Position, key: Position) -> Segment:
            piece = replace(node, cur=lo, resv=hi, cells=bytearray(node.cells))
            alone = transaction.atomic(using=self._alias) if self._options.atomic else nullcontext()
            try:
                with alone:
                    context, items, _ = self._process(piece, None, None)
            except Fenced:
                raise
            except BaseException as error:
                if self._judge(error) != "permanent":
                    raise
                lost = self._lost(node, key, hi, 1, error, is_key=True)
                return replace(failing.lost(lost, depth=node.depth), lo=lo)
            if context.failed:
                why = next(iter(context.failed.values()))
                lost = self._lost(node, key, hi, max(1, items), why, is_key=True)
                return replace(failing.lost(lost, depth=node.depth), lo=lo)
            return Segment(lo=lo, hi=hi, state=NodeState.DONE, items=items, depth=node.depth)

        try:
            if self._options.atomic:
                with transaction.atomic(using=self._alias):
                    self._set_limits()
                    segments = [one(*piece) for piece in zip(starts, ends, keys, strict=True)]
                    self._write_segments(node, segments)
            else:
                segments = [one(*piece) for piece in zip(starts, ends, keys, strict=True)]
                with transaction.atomic(using=self._database.alias):
                    self._write_segments(node, segments)
        except Fenced:
            raise
        except BaseException as error:
            verdict = self._judge(error)
            if verdict == "permanent":
                raise
            if verdict == "transient":
                self._rest_a_while(node)
            self._nodes.release(node)
            return
        self._tell(node, segments)

    def _replace(self, node: Node, segments: list[Segment]) -> Node | None:
        with transaction.atomic(using=self._database.alias):
            rest = self._write_segments(node, segments)
        self._tell(node, segments)
        return rest

    def _write_segments(self, node: Node, segments: list[Segment]) -> Node | None:
        segments = failing.joined(segments)
        ids, rest = self._nodes.rewrite(node, segments)
        failing.record(self._loaded, self._database.alias, ids, segments)
        return rest

    def _tell(self, node: Node, segments: list[Segment]) -> None:
        """Events after the commit, and what failures mean for the run."""
        states = [segment.state for segment in segments]
        error = next((s.error for s in segments if s.error), "")
        if NodeState.ERROR in states:
            self._emit("node.failed", node, error=error)
            self._check_threshold()
        elif len(segments) > 1:
            self._emit("node.bisected", node, error=error)
        else:
            self._emit("node.retrying", node, error=error)

    def _lost(
        self,
        node: Node,
        lo: Position,
        hi: Position,
        items: int,
        error: BaseException | str | Fault,
        *,
        is_key: bool,
    ) -> Lost:
        fault = error if isinstance(error, Fault) else Fault.of(self._loaded.run.name, error)
        attempts = node.attempts + node.interrupted + 1
        return Lost(lo=lo, hi=hi, items=items, attempts=attempts, fault=fault, is_key=is_key)

    def _count(self, node: Node) -> int:
        source = self._loaded.source
        if not source.counts_rows:
            return self._width(node.cur, node.resv)
        return int(source.leaf_queryset(node.cur, node.resv).count())

    def _width(self, lo: Position, hi: Position) -> int:
        """The items of a plain range: what it holds, as far as a counter can; of text, one."""
        if isinstance(lo, int) and isinstance(hi, int):
            return min(hi - lo, MOST_ITEMS)
        return 1

    def _check_threshold(self) -> None:
        """Stop the run early when too much of what was tried has failed."""
        from ranges import lifecycle

        run = self._loaded.run
        run.refresh_from_db(fields=["forgiven_items", "forgiven_failures"])
        done, failed = self._nodes.attempted()
        if crossed(
            failed=failed - run.forgiven_failures,
            attempted=done + failed - run.forgiven_items,
            threshold=self._options.failure_threshold,
        ):
            lifecycle.halt(run.id, lifecycle.THRESHOLD)

    # The run around it

    def _standing(self) -> Standing:
        rows = self._database.rows(STANDING, {"run": self._loaded.run_id})
        if not rows:
            return Standing(RunStatus.CANCELLED, 0, False)
        return Standing(rows[0][0], rows[0][1], False)

    def _goes_on(self, standing: Standing) -> bool:
        return standing.status == RunStatus.RUNNING and self._index < standing.concurrency

    def _has_cause_to_stop(self) -> bool:
        return self._context.should_yield or not self._goes_on(self._standing())

    def _note(self, walker: Walker) -> None:
        """Keep in the run what the walk could not find out."""
        tally = walker.take_tally()
        turned_blind = walker.blind and not self._is_blind
        if turned_blind or tally.probe_timeouts or tally.prune_errors or tally.prune_timeouts:
            self._is_blind = walker.blind
            self._database.run(
                TALLY,
                {
                    "run": self._loaded.run_id,
                    "timeouts": tally.probe_timeouts + tally.prune_timeouts,
                    "errors": tally.prune_errors,
                    "blind": walker.blind,
                },
            )

    def _sample(self) -> None:
        now = time.monotonic()
        if now - self._sampled_at >= SAMPLE_SECONDS:
            self._sampled_at = now
            if progress.take_sample(self._database, self._loaded.run_id):
                done, failed = self._nodes.attempted()
                facts: dict[str, Any] = {
                    "run_id": self._loaded.run_id,
                    "done": done,
                    "failed": failed,
                }
                events.emit("range.stats_updated", job_id=self._loaded.run.job_id, **facts)
                events.emit("range.metrics_updated", job_id=self._loaded.run.job_id, **facts)

    def _emit(self, name: str, node: Node, **facts: Any) -> None:
        if events.wanted(name):
            events.emit(
                name,
                job_id=self._context.job_id,
                run_id=self._loaded.run_id,
                node_id=node.id,
                kind=str(node.kind),
                **facts,
            )


class Segmented:
    """A leaf whose failed items have nodes of their own; `rest` is the strand behind it."""

    __slots__ = ("rest",)

    def __init__(self, rest: Node | None) -> None:
        self.rest = rest
