"""Leaves that fail: peeled off their strand, tried again, halved, and done key by key.

What becomes of a leaf is decided in `failing.py`; this does it for the lane that has the node. A
failing leaf never holds up what lies behind it.
"""

from __future__ import annotations

import random
import time
from contextlib import nullcontext
from dataclasses import replace

from django.db import connections, transaction

from jobs.answers import JobTimeout
from jobs.context import Context
from jobs.database import cause, is_away
from jobs.texts import describe_error
from ranges import failing
from ranges.around import Around
from ranges.failing import DiedAtWork, Fault
from ranges.held import Fenced, Node, Segment, Standing
from ranges.lane_database import LaneDatabase
from ranges.leaf_range import HandBack
from ranges.leaves import Leaves, Segmented
from ranges.loading import Loaded
from ranges.nodes import Nodes
from ranges.positions import Position, before
from ranges.retrying import TRANSIENT_TRIES, most_open_bisects, transient_seconds
from ranges.rewriting import rewrite
from ranges.states import NodeState
from ranges.walking import Step


class _Again(Exception):
    """An error of one key that is likely to pass: all keys of the leaf are tried again."""


class Mender:
    def __init__(
        self,
        loaded: Loaded,
        context: Context,
        around: Around,
        database: LaneDatabase,
        nodes: Nodes,
        leaves: Leaves,
    ) -> None:
        self._loaded = loaded
        self._context = context
        self._around = around
        self._database = database
        self._nodes = nodes
        self._leaves = leaves
        self._retry = loaded.options.retry
        self._tries = 0

    def succeeded(self) -> None:
        """A leaf was done: what failed for a while before it is over."""
        self._tries = 0

    def judge(self, error: BaseException) -> str:
        """stop, transient or permanent. Raises what says that the database itself is away."""
        if isinstance(error, JobTimeout) or is_away(cause(error)):
            raise error
        if self._context.cancelled:
            return "stop"
        return "transient" if self._retry.is_transient(error) else "permanent"

    def rest_a_while(self, node: Node) -> bool:
        """Wait a little before the same leaf is tried again; False when that was often enough."""
        self._tries += 1
        if self._tries > TRANSIENT_TRIES:
            self._tries = 0
            return False
        self._around.emit("node.retrying", node)
        ends_at = time.monotonic() + transient_seconds(self._tries, random.random)
        while time.monotonic() < ends_at and not self._context.should_yield:
            time.sleep(0.02)
        return True

    def failed_when_done(self, node: Node, error: BaseException, step: Step) -> Standing:
        """It raised behind a checkpoint that said that all of the leaf is done; so it is."""
        self._context.log.warning(
            "raised after all of a leaf was done", error=describe_error(error)
        )
        return self._nodes.commit(node, step, items=0, seconds=0.0, pace=None)

    def peel(self, node: Node, error: BaseException) -> Node | None:
        """Make the failed leaf a node of its own; returns the strand behind it."""
        fault = Fault.of(self._loaded.run.name, error)
        attempts = node.attempts + 1
        struck = isinstance(error, DiedAtWork)
        delay = self._retry.wait_seconds(attempts, random.random)
        opened = self._nodes.open()[0]
        if opened >= most_open_bisects(self._loaded.options.concurrency):
            # What has failed before must show first what is wrong with it.
            self._nodes.release(node, delay=delay, failures=0, error=fault.error)
            return None
        if attempts < self._retry.max_attempts and not struck:
            segments = [failing.again(node, fault, attempts=attempts, delay=delay)]
        else:
            segments = self._divided(node, fault, kills=struck)
        return self._replace(node, segments)

    # A node that has failed before

    def bisect(self, node: Node) -> None:
        """Try it: whole, in halves, or key by key."""
        is_spent = node.attempts >= self._retry.max_attempts
        keys: list[Position] | None = None
        if is_spent:
            keys = self._loaded.source.keys(node.cur, node.hi, failing.ITEMWISE + 1)
        if node.struck and self._kills(node, keys):
            node.resv = node.hi
            fault = Fault.of(self._loaded.run.name, DiedAtWork("the worker died at it"))
            self._replace(node, self._divided(node, fault, kills=True))
            return
        standing = self._nodes.reserve(node, Step(node.cur, node.hi))
        if not self._around.goes_on(standing) or self._context.should_yield:
            self._nodes.release(node)
            return
        one_by_one = keys is not None and self._retry.bisect and not node.interrupted
        if keys is not None and one_by_one and 1 < len(keys) <= failing.ITEMWISE:
            self._each(node, keys)
        else:
            self._whole(node)

    def _kills(self, node: Node, keys: list[Position] | None) -> bool:
        """Whether it has cut down so many workers that it is not tried again as it is."""
        most = self._retry.max_attempts
        may_die = 1 if keys is not None and len(keys) > 1 else most
        return node.interrupted > may_die or (may_die > 1 and node.interrupted >= may_die)

    def _whole(self, node: Node) -> None:
        start = node.cur
        try:
            moved = self._leaves.do(node, None, None, lambda: Step(None, node.resv))
        except Fenced:
            raise
        except BaseException as error:  # noqa: BLE001 - whatever `process` raises is the leaf's
            verdict = self._verdict(error, has_progress=before(start, node.cur))
            if not node.has_leaf:
                self.failed_when_done(node, error, Step(None, node.hi))
                return
            if verdict == "stop" or (verdict == "transient" and self.rest_a_while(node)):
                self._nodes.release(node)
                return
            self._failed_again(node, error)
            return
        self.succeeded()
        if isinstance(moved, Segmented):
            self._around.check_threshold()
        else:
            self._around.emit("node.completed", node)

    def _verdict(self, error: BaseException, *, has_progress: bool) -> str:
        if not isinstance(error, HandBack):
            return self.judge(error)
        # Who hands back without a cause, and without getting on, would do so for ever.
        return "stop" if has_progress or self._around.has_cause_to_stop() else "permanent"

    def _failed_again(self, node: Node, error: BaseException) -> None:
        fault = Fault.of(self._loaded.run.name, error)
        attempts = node.attempts + 1
        if attempts < self._retry.max_attempts:
            delay = self._retry.wait_seconds(attempts, random.random)
            self._nodes.release(node, delay=delay, failures=1, error=fault.error)
            self._around.emit("node.retrying", node, error=fault.error)
            return
        self._replace(node, self._divided(node, fault, kills=False))

    def _divided(self, node: Node, fault: Fault, *, kills: bool) -> list[Segment]:
        """What becomes of a leaf that is out of attempts."""
        source = self._loaded.source
        attempts = max(node.attempts + 1, self._retry.max_attempts)
        keys = source.keys(node.cur, node.resv, failing.ITEMWISE + 1)
        if source.counts_rows and not keys:
            # Nothing in it needs work any more.
            return [Segment(lo=node.cur, hi=node.resv, state=NodeState.DONE, depth=node.depth)]
        is_key = len(keys) <= 1
        may_halve = not is_key and self._retry.bisect
        if may_halve and not failing.is_over_budget(self._database, self._loaded):
            if len(keys) <= failing.ITEMWISE and not kills and not node.interrupted:
                return [failing.again(node, fault, attempts=attempts, delay=0.0)]
            halves = failing.halves(
                self._loaded, node, fault, attempts=attempts, kills=kills or bool(node.interrupted)
            )
            if halves is not None:
                return halves
        items = 1 if is_key else self._leaves.count(node)
        start = keys[0] if keys else node.cur
        one = self._leaves.lost(node, start, node.resv, items, fault, is_key=is_key)
        segment = failing.lost(one, depth=node.depth)
        return [replace(segment, lo=node.cur)]

    # Key by key

    def _each(self, node: Node, keys: list[Position]) -> None:
        """Each in a savepoint, so that those that fail leave the others' work alone."""
        is_atomic = self._loaded.options.atomic
        pieces = list(zip([node.cur, *keys[1:]], [*keys[1:], node.resv], keys, strict=True))
        try:
            with self._leaves.transaction() if is_atomic else nullcontext():
                segments = [self._one(node, *piece) for piece in pieces]
                with self._database.transaction():
                    self._write(node, segments)
        except Fenced:
            raise
        except (_Again, HandBack):
            self._nodes.release(node)
            return
        except BaseException as error:
            verdict = self.judge(error)
            if verdict == "permanent":
                raise
            if verdict == "transient":
                self.rest_a_while(node)
            self._nodes.release(node)
            return
        self.succeeded()
        self._tell(node, segments)

    def _one(self, node: Node, lo: Position, hi: Position, key: Position) -> Segment:
        piece = replace(node, cur=lo, resv=hi)
        is_atomic = self._loaded.options.atomic
        try:
            with transaction.atomic(using=self._database.alias) if is_atomic else nullcontext():
                context, items, _ = self._leaves.process(piece, None, None, is_one_key=True)
                if is_atomic:
                    # Django would roll it back now without a word, and it would count as done.
                    connections[self._database.alias].validate_no_broken_transaction()
        except Fenced:
            raise
        except BaseException as error:
            verdict = self._verdict(error, has_progress=False)
            if verdict == "stop":
                raise
            if verdict == "transient" and self.rest_a_while(node):
                raise _Again from error
            return self._bad(node, lo, hi, key, 1, error)
        if context.failed:
            why = next(iter(context.failed.values()))
            return self._bad(node, lo, hi, key, max(1, items), why)
        return Segment(lo=lo, hi=hi, state=NodeState.DONE, items=items, depth=node.depth)

    def _bad(
        self,
        node: Node,
        lo: Position,
        hi: Position,
        key: Position,
        items: int,
        error: BaseException | str,
    ) -> Segment:
        one = self._leaves.lost(node, key, hi, items, error, is_key=True)
        return replace(failing.lost(one, depth=node.depth), lo=lo)

    # Writing and telling

    def _replace(self, node: Node, segments: list[Segment]) -> Node | None:
        with self._database.transaction():
            rest = self._write(node, segments)
        self._tell(node, segments)
        return rest

    def _write(self, node: Node, segments: list[Segment]) -> Node | None:
        segments = failing.joined(segments)
        ids, rest = rewrite(self._nodes, node, segments)
        failing.record(self._loaded, self._database.alias, ids, segments)
        return rest

    def _tell(self, node: Node, segments: list[Segment]) -> None:
        """Events after the commit, and what failures mean for the run."""
        states = [segment.state for segment in segments]
        error = next((s.error for s in segments if s.error), "")
        if NodeState.ERROR in states:
            self._around.emit("node.failed", node, error=error)
            self._around.check_threshold()
        elif len(segments) > 1:
            self._around.emit("node.bisected", node, error=error)
        else:
            self._around.emit("node.retrying", node, error=error)
