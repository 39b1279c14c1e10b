"""A run in memory: the same walk as on PostgreSQL, without a database of its own.

    statistics = MyJob.run_in_memory(0, 1_000_000)       # here and now
    run = MyJob.in_memory(); run.start(); run.pause(); run.resume(); run.cancel(); run.wait()

1. A lane owns the strand it works on; each lane is a thread, or a task if `process` is async. The
   strands always tile the range, and every change to them happens under one lock.
2. `process`, `should_process`, listeners and questions to the source run outside that lock, so a
   slow one delays its own lane only.
3. A lane looks at the run's status after every leaf. There are never two lanes of one number:
   who resumes starts only those that have left.
4. The last lane to leave ends the run, once.

Nothing survives the process. Where `over` is a queryset, each leaf is one transaction if `atomic`.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from functools import partial
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Any, cast

import structlog

from jobs.errors import Conflict, InvalidInput
from jobs.events import Event, heard, tell_listeners
from jobs.ids import new_uuid
from ranges.cells import Cells
from ranges.declaring import HandBack, LeafRange, Options, RangeJob, bounds_of, least_leaf
from ranges.positions import Position, before, end_key, key_at, midpoint, position_of, width
from ranges.reports import Durations, FailedTry, Failure, Statistics
from ranges.retrying import TRANSIENT_TRIES, crossed, most_open_bisects, transient_seconds
from ranges.sizing import LeafSizer
from ranges.splitting import Victim, cool_down_seconds, halve, start_pieces, whom_to_steal_from
from ranges.states import (
    CELL_FAILED,
    CELL_PROCESSED,
    CELL_SKIPPED,
    CELLS,
    ENDED,
    FailureState,
    NodeKind,
    NodeState,
    RunStatus,
)
from ranges.strands import Node, ended_state
from ranges.walking import Step, Walker

if TYPE_CHECKING:
    from jobs.events import Event as Fact

FAILURE_THRESHOLD = "failure threshold"
HISTORY = 10_000
"""So many failed tries are remembered, the newest."""
STATS_EVERY_SECONDS = 1.0
SAMPLE_EVERY_SECONDS = 0.5
SAMPLES = 20
LEAST_TO_STEAL_SECONDS = 0.005
DEEPEST_TREE = 10

_IDLE_SECONDS = 0.05
_LONGEST_IDLE_SECONDS = 5.0

_log = structlog.get_logger("coppice.ranges")


class MemoryContext:
    """What `process` knows about its run, and the little it may ask for (`LeafContext`)."""

    __slots__ = ("_failed", "_results", "_run", "attempt", "index", "leaf", "node", "progressed")

    def __init__(self, run: MemoryRun, node: Node, leaf: LeafRange, index: int) -> None:
        self._run = run
        self.node = node
        self.leaf = leaf
        self.index = index
        self.attempt: int = node.attempts + 1
        self.progressed = False
        self._failed: list[tuple[Position, str]] | None = None
        self._results: list[Any] | None = None

    @property
    def params(self) -> Mapping[str, Any]:
        return self._run.params

    @property
    def run_id(self) -> str:
        return self._run.id

    @property
    def node_id(self) -> str:
        return str(self.node.id)

    @property
    def log(self) -> Any:
        return _log.bind(run_id=self._run.id, node_id=self.node.id, job=self._run.job.name)

    @property
    def cancelled(self) -> bool:
        return self._run.status is RunStatus.CANCELLED

    @property
    def should_yield(self) -> bool:
        return self._run.must_leave(self.index)

    def checkpoint(self, upto: Any) -> None:
        position = self._position(upto, "upto")
        if before(position, self.leaf.start) or before(self.leaf.end, position):
            raise InvalidInput("lies outside the leaf", field="upto")
        if self._run.advance(self.node, position, self._failed):
            self.progressed = True
            self._failed = None
            self._keep_results()

    def item_key(self, obj: Any) -> str:
        axis = self._run.source.axis
        key = self._key_of(obj)
        return f"{self._run.id}:{axis.to_json(axis.validate(key, 'obj'))}"

    def fail(self, obj: Any, error: BaseException | str) -> None:
        position = self._position(self._key_of(obj), "obj")
        if before(position, self.leaf.start) or not before(position, self.leaf.end):
            raise InvalidInput("lies outside the leaf", field="obj")
        said = error if isinstance(error, str) else _said(error)
        if self._failed is None:
            self._failed = []
        self._failed.append((position, said))

    def emit(self, result: Any) -> None:
        """Keep a result; those of a leaf that fails are dropped."""
        if self._results is None:
            self._results = []
        self._results.append(result)

    def take_failed(self) -> list[tuple[Position, str]] | None:
        return self._failed

    def _keep_results(self) -> None:
        if self._results is not None:
            self._run.results.extend(self._results)
            self._results = None

    def _key_of(self, obj: Any) -> Any:
        return getattr(obj, self._run.job.key, obj) if self._run.source.counts_rows else obj

    def _position(self, key: Any, field: str) -> Position:
        axis = self._run.source.axis
        return position_of(axis, axis.validate(key, field))


class _Wait:
    """A lane has nothing to do before something changes, or so many seconds pass."""

    __slots__ = ("seconds", "seen")

    def __init__(self, seconds: float, seen: int) -> None:
        self.seconds = seconds
        self.seen = seen


class _Ask:
    """A question that may block, so an event loop must not wait for it."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[[], Any]) -> None:
        self.call = call


type _Wish = MemoryContext | _Wait | _Ask
type _Lane = Generator[_Wish, Any, None]


class MemoryRun:
    """One run of a range job in this process."""

    def __init__(
        self,
        job: RangeJob,
        options: Options,
        *,
        start: Any = None,
        end: Any = None,
        params: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        self.id = str(new_uuid())
        self.job = job
        self.options = options
        self.params: Mapping[str, Any] = params or {}
        self.metadata: Mapping[str, Any] = metadata or {}
        self.source = job.source(options)
        self.lo, self.hi = bounds_of(self.source, start, end)
        self.status = RunStatus.CREATED
        self.reason = ""
        self.results: list[Any] = []
        self.failures: list[Failure] = []
        self.history: deque[FailedTry] = deque(maxlen=HISTORY)
        """Failed tries, oldest first."""
        self.nodes: list[Node] = []
        self.concurrency = options.concurrency

        self._leaf = options.leaf.on(self.source.axis)
        self._is_async = job.is_async()
        self._ordinal = self.source.axis.is_ordinal
        self._counts_rows = self.source.counts_rows
        self._plain = not self._is_async and not self._counts_rows
        self._offload = self._is_async and (job.asks() or self._counts_rows)
        self._random = Random().random
        check_nulls = getattr(self.source, "check_nulls", None)
        if check_nulls is not None:
            check_nulls()

        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._version = 0
        self._idle = 0
        self._live: set[int] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._bell: asyncio.Event | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._crash: BaseException | None = None

        self._ids = count(1)
        self._open: dict[int, Node] = {}
        self._open_bisects = 0
        self._total = width(self.source.axis, self.lo, self.hi)
        self._least = 1
        self._cells = bytearray(CELLS)
        self._grid = Cells(self.source.axis, self.lo, self.hi)
        self._seconds_per_item: float | None = None

        self._durations = Durations()
        self._attempts = 0
        self._retries = 0
        self._items_ok = 0
        self._items_failed = 0
        self._forgiven = (0, 0)
        self._questions = 0
        self._prune_errors = 0
        self._probe_timeouts = 0
        self._running_since: float | None = None
        self._active_seconds = 0.0
        self._samples: deque[tuple[float, int, int, int]] = deque(maxlen=SAMPLES)
        self._sampled_at = 0.0
        self._told_at = 0.0
        self._tell(self._facts("range.created"))

    # What a user does with it

    def run(self) -> Statistics:
        """Start it, or go on after a pause, here; return when it has ended or paused."""
        if self._is_async:
            asyncio.run(self.arun())
        else:
            missing = self._begin()
            for index in missing[1:]:
                self._start_thread(index)
            if missing:
                self._drive(missing[0])
        return self.wait()

    async def arun(self) -> Statistics:
        """The same inside an event loop."""
        if not self._is_async:
            return await asyncio.to_thread(self.run)
        await self._host(self._begin())
        if self._crash is not None:
            raise self._crash
        return self.statistics()

    def start(self) -> MemoryRun:
        """Start it in the background."""
        if self.status is not RunStatus.CREATED:
            raise Conflict(f"the run is {self.status}, so it cannot be started")
        self._staff(self._begin())
        return self

    def pause(self, reason: str = "") -> None:
        """No leaf is begun any more; those at work finish. See `wait`."""
        with self._lock:
            if self.status is not RunStatus.RUNNING:
                raise Conflict(f"the run is {self.status}, so it cannot be paused")
            events = self._pause(reason)
        self._tell(events)

    def resume(self) -> None:
        """Go on where it paused, in the background."""
        if self.status is not RunStatus.PAUSED:
            raise Conflict(f"the run is {self.status}, so it cannot be resumed")
        self._staff(self._begin())

    def cancel(self) -> None:
        """No leaf is begun any more, for good; those at work see `context.cancelled`."""
        with self._lock:
            if self.status in ENDED:
                raise Conflict(f"the run is {self.status}, so it cannot be cancelled")
            self._stop_clock()
            self.status = RunStatus.CANCELLED
            self._ring()
            events = self._facts("range.cancelled")
        self._tell(events)

    def retune(self, *, concurrency: int) -> None:
        """More lanes at once, or fewer as they finish their leaf."""
        if isinstance(concurrency, bool) or not isinstance(concurrency, int) or concurrency < 1:
            raise InvalidInput("must be a whole number from 1", field="concurrency")
        with self._lock:
            self.concurrency = concurrency
            missing = self._missing() if self.status is RunStatus.RUNNING else []
            self._ring()
        self._staff(missing)

    def retry_failed(self) -> None:
        """Try everything that failed again, in the background."""
        with self._lock:
            if self.status in (RunStatus.CREATED, RunStatus.CANCELLED) or self._live:
                raise Conflict(f"the run is {self.status}, so failures cannot be retried now")
            for node in self.nodes:
                if node.state is NodeState.ERROR:
                    self._reopen(node)
            self.failures.clear()
            self.status = RunStatus.PAUSED
        self._staff(self._begin())

    def wait(self, timeout: float | None = None) -> Statistics:
        """Wait until it rests: ended, or paused with no leaf at work. Raises TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(self._rests, timeout):
                raise TimeoutError(f"the run is still {self.status}")
            crash = self._crash
        if crash is not None:
            raise crash
        return self.statistics()

    # What it says about itself

    def statistics(self) -> Statistics:
        with self._lock:
            return self._statistics()

    def tree(self, depth: int = 4) -> dict[str, Any]:
        """The virtual tree of halves down to a depth of at most 10, as plain values for JSON.

        What was processed and what was skipped inside a block is known by cells, of which a run
        has 1,024; what failed or is left is exact.
        """
        if isinstance(depth, bool) or not isinstance(depth, int) or not 0 <= depth <= DEEPEST_TREE:
            raise InvalidInput(f"must be a whole number from 0 to {DEEPEST_TREE}", field="depth")
        with self._lock:
            for node in self._open.values():
                self._mark_processed(node)
            return self._block(self.lo, self.hi, "", depth)

    def verify(self) -> bool:
        """Whether the nodes tile the range, without gap or overlap, and their sums add up."""
        with self._lock:
            return self._tiles()

    # Called by contexts

    def must_leave(self, index: int) -> bool:
        return self.status is not RunStatus.RUNNING or index >= self.concurrency

    def advance(
        self, node: Node, upto: Position, failed: list[tuple[Position, str]] | None
    ) -> bool:
        """All of the leaf before `upto` is done."""
        with self._lock:
            if not before(node.cur, upto):
                return False
            inside = [each for each in failed or () if before(each[0], upto)]
            items = width(self.source.axis, node.cur, upto) if not self._counts_rows else 0
            events: list[Fact] = []
            self._pass_over(node, upto, items, inside, events)
            events += self._check_threshold() if inside else []
        self._tell(events)
        return True

    # Starting and ending

    def _begin(self) -> list[int]:
        """Set it running; the numbers of the lanes that somebody must start now."""
        with self._lock:
            if self.status not in (RunStatus.CREATED, RunStatus.PAUSED):
                raise Conflict(f"the run is {self.status}, so it cannot be run")
            is_new = self.status is RunStatus.CREATED
            self.status = RunStatus.RUNNING
            self.reason = ""
            self._crash = None
            self._forgiven = (self._items_failed, self._items_ok + self._items_failed)
            self._running_since = time.monotonic()
            self._samples.clear()
            missing = self._missing()
            events = self._facts("range.started" if is_new else "range.resumed")
            self._ring()
        self._tell(events)
        if is_new:
            # No lane has started, so nobody else plans.
            try:
                self._plan()
            except BaseException:
                with self._lock:
                    self._live.difference_update(missing)
                    self._stop_clock()
                    self.status = RunStatus.FAILED
                    self.reason = "planning failed"
                    self._changed.notify_all()
                raise
        return missing

    def _plan(self) -> None:
        if not before(self.lo, self.hi):
            return
        self._least = least_leaf(self.source, (self.lo, self.hi), self.options.max_depth)
        size = LeafSizer(self._leaf, least=self._least).size()
        found = start_pieces(
            self.source, self.lo, self.hi, concurrency=self.concurrency, leaf_size=size
        )
        events: list[Fact] = []
        with self._lock:
            for lo, hi in found:
                events += self._add(NodeKind.STRAND, lo, hi, None)
            if len(found) > 1:
                events += self._facts("node.split", lo=self.lo, hi=self.hi, parts=len(found))
        self._tell(events)

    def _missing(self) -> list[int]:
        missing = [index for index in range(self.concurrency) if index not in self._live]
        self._live.update(missing)
        return missing

    def _staff(self, missing: list[int]) -> None:
        """Start lanes in the background."""
        if not missing:
            return
        if not self._is_async:
            for index in missing:
                self._start_thread(index)
            return
        with self._lock:
            loop = self._loop
            if loop is not None:
                loop.call_soon_threadsafe(self._start_tasks, missing)
        if loop is None:
            threading.Thread(
                target=lambda: asyncio.run(self._host(missing)), name="range-run", daemon=True
            ).start()

    def _leave(self, index: int) -> None:
        """A lane is gone; the last one ends the run if nothing is left."""
        events: list[Fact] = []
        again: list[int] = []
        with self._lock:
            self._live.discard(index)
            if not self._live and self.status is RunStatus.RUNNING:
                if self._open:
                    # Something was opened again while the last lane was on its way out.
                    again = self._missing()
                else:
                    events = self._end()
            self._ring()
        self._tell(events)
        with self._lock:
            self._changed.notify_all()
        self._staff(again)

    def _tiles(self) -> bool:
        axis, at = self.source.axis, self.lo
        for node in sorted(self.nodes, key=lambda each: each.lo):
            counted = node.width_ok + node.width_skipped + node.width_failed
            if node.lo != at or before(node.hi, node.lo):
                return False
            if before(node.cur, node.lo) or before(node.resv, node.cur):
                return False
            if before(node.hi, node.resv):
                return False
            if self._ordinal and counted != width(axis, node.lo, node.cur):
                return False
            at = node.hi
        return at == self.hi or not self.nodes

    def _end(self) -> list[Fact]:
        self._stop_clock()
        if self._left() or not self._tiles():
            # Never seen, and never to be taken for success.
            self.status, self.reason = RunStatus.FAILED, "corrupt"
        elif not self.failures:
            self.status = RunStatus.COMPLETED
        elif self._items_ok:
            self.status = RunStatus.PARTIALLY_FAILED
        else:
            self.status = RunStatus.FAILED
        return self._stats_facts() + self._facts(f"range.{self.status}")

    def _pause(self, reason: str) -> list[Fact]:
        self._stop_clock()
        self.status = RunStatus.PAUSED
        self.reason = reason
        self._ring()
        return self._facts("range.paused", reason=reason)

    def _stop_clock(self) -> None:
        if self._running_since is not None:
            self._active_seconds += time.monotonic() - self._running_since
            self._running_since = None

    def _rests(self) -> bool:
        return not self._live and self.status not in (RunStatus.CREATED, RunStatus.RUNNING)

    def _broken(self, error: BaseException) -> None:
        """A lane met something that is no failure of a leaf: an interrupt, or a fault in here."""
        events: list[Fact] = []
        with self._lock:
            self._crash = error
            if self.status is RunStatus.RUNNING:
                events = self._pause(_said(error))
        self._tell(events)

    # A lane

    def _lane(self, index: int) -> _Lane:
        while True:
            taken = self._take(index)
            if taken is None:
                return
            if isinstance(taken, _Wait):
                yield taken
                continue
            if isinstance(taken, Victim):
                cut = yield from self._asked(partial(self._cut, taken))
                stolen = self._steal(taken, cut)
                if stolen is None:
                    continue
                taken = stolen
            try:
                yield from self._work(taken, index)
            finally:
                with self._lock:
                    if taken.state is NodeState.RUNNING:
                        taken.state = NodeState.PENDING
                        taken.resv = taken.cur
                        self._ring()

    def _work(self, node: Node, index: int) -> _Lane:
        """Leaf after leaf, until the node has ended or must be given back."""
        while node.state is NodeState.RUNNING:
            try:
                if self._plain and not node.is_whole:
                    leaf, items = self._reserve(node, node.walker.next(node.cur, node.hi))
                else:
                    leaf, items = yield from self._find(node)
            except Exception as error:  # noqa: BLE001 - nothing is known, so nothing is skipped
                self._stumble(node, error)
                return
            if leaf is None:
                if self.must_leave(index):
                    return
                continue
            context = MemoryContext(self, node, leaf, index)
            outcome = yield context
            failure, result, seconds = outcome
            if failure is None:
                if self._counts_rows and type(result) is int and result >= 0:
                    items = result
                self._done(node, context, items, seconds)
            elif isinstance(failure, HandBack):
                self._handed_back(node, context, seconds)
            else:
                self._failed(node, context, failure, items, seconds)
            if self.status is not RunStatus.RUNNING or index >= self.concurrency:
                return

    def _find(self, node: Node) -> Generator[_Wish, Any, tuple[LeafRange | None, int | None]]:
        """The node's next leaf, reserved, and its rows if they are known; None: it was a skip."""
        if node.is_whole:
            step = Step(node.cur, node.hi)
        elif self._offload:
            cur, hi = node.cur, node.hi
            step = yield _Ask(lambda: node.walker.next(cur, hi))
        else:
            step = node.walker.next(node.cur, node.hi)
        leaf, items = self._reserve(node, step)
        if leaf is not None and items is None and self._counts_rows:
            items = yield from self._asked(leaf.queryset.count)
        return leaf, items

    def _asked[T](self, call: Callable[[], T]) -> Generator[_Wish, Any, T]:
        if self._offload:
            return cast("T", (yield _Ask(call)))
        return call()

    def _take(self, index: int) -> Node | Victim | _Wait | None:
        """What this lane does next: a node, a theft, or nothing for a while; None: leave."""
        events: list[Fact] = []
        with self._lock:
            if self.must_leave(index) or not self._open:
                return None
            now = time.monotonic()
            node, earliest = self._due(now)
            if node is not None:
                node.state = NodeState.RUNNING
                node.commits = 0
                if not node.started:
                    node.started = True
                    events = self._facts("node.started", node)
            elif self._open_bisects < most_open_bisects(self.concurrency):
                victim = whom_to_steal_from(
                    self._victims(), now=now, least_seconds=self._least_to_steal()
                )
                if victim is not None:
                    return victim
            if node is None:
                wait = _IDLE_SECONDS if self._has_strand() else _LONGEST_IDLE_SECONDS
                return _Wait(min(wait, max(earliest - now, 0.0)), self._version)
        self._tell(events)
        return node

    def _due(self, now: float) -> tuple[Node | None, float]:
        """The next pending node that is due, failed leaves first; and when the next one is."""
        earliest = now + _LONGEST_IDLE_SECONDS
        strand: Node | None = None
        for node in self._open.values():
            if node.state is not NodeState.PENDING:
                continue
            if node.next_at > now:
                earliest = min(earliest, node.next_at)
            elif node.is_whole:
                return node, earliest
            elif strand is None:
                strand = node
        if self._open_bisects >= most_open_bisects(self.concurrency):
            strand = None
        return strand, earliest

    # What becomes of a leaf

    def _reserve(self, node: Node, step: Step) -> tuple[LeafRange | None, int | None]:
        """Take the step, as far as no thief was faster."""
        events: list[Fact] = []
        lo, hi, items = step
        with self._lock:
            end = node.hi
            if lo is None or not before(lo, end):
                upto = hi if lo is None and before(hi, end) else end
                events = self._skip(node, upto)
                leaf = None
            else:
                if lo != node.cur:
                    events = self._skip(node, lo)
                if before(end, hi):
                    hi, items = end, None
                node.resv = hi
                leaf = LeafRange(self.source, lo, hi)
            if node.walker.has_tally:
                events += self._count_tally(node.walker)
        if events:
            self._tell(events)
        return leaf, items

    def _skip(self, node: Node, upto: Position) -> list[Fact]:
        events: list[Fact] = []
        if before(node.cur, upto):
            if heard("node.skipped"):
                events = self._facts("node.skipped", node, lo=node.cur, hi=upto)
            node.width_skipped += width(self.source.axis, node.cur, upto)
            self._mark_processed(node)
            self._mark(node.cur, upto, CELL_SKIPPED)
            node.cur = node.resv = node.drawn = upto
        if node.cur == node.hi:
            events += self._close(node)
        return events

    def _done(self, node: Node, context: MemoryContext, items: int | None, seconds: float) -> None:
        events: list[Fact] = []
        lo, hi = context.leaf.start, context.leaf.end
        failed = context.take_failed()
        with self._lock:
            self._attempts += 1
            self._durations.add(seconds)
            done = width(self.source.axis, lo, hi) if items is None else items
            node.sizer.observe(done, seconds)
            node.commits += 1
            node.transient_tries = 0
            node.leaves += 1
            if failed is None and not self._counts_rows and node.cur == lo:
                # The usual leaf, in as few steps as can be.
                node.rows_ok += done
                node.width_ok += done
                self._items_ok += done
                node.cur = hi
            else:
                if not self._counts_rows:
                    done = width(self.source.axis, node.cur, hi)
                self._pass_over(node, hi, done, failed or [], events)
            context._keep_results()  # noqa: SLF001 - they belong to the leaf that is done now
            if self._idle:
                self._ring()
            if heard("leaf.completed"):
                events += self._facts("leaf.completed", node, lo=lo, hi=hi, seconds=seconds)
            if failed:
                events += self._check_threshold()
            if not before(node.cur, node.hi):
                events += self._close(node)
            now = time.monotonic()
            if now >= self._sampled_at:
                events += self._sample(now)
        if events:
            self._tell(events)

    def _pass_over(
        self,
        node: Node,
        hi: Position,
        items: int,
        failed: list[tuple[Position, str]],
        events: list[Fact],
    ) -> None:
        """[cur, hi) was done, but for single keys in it, which become nodes of their own."""
        axis = self.source.axis
        by_key = dict(failed)
        for position in sorted(by_key):
            behind = _behind(axis, position)
            if before(node.cur, position):
                node.width_ok += width(axis, node.cur, position)
            node.cur = position
            self._cut_off(node)
            bad = self._node(NodeKind.BISECT, position, behind, node)
            bad.tries = node.tries + node.attempts + 1
            bad.allowed = self.options.retry.max_attempts
            node.lo = node.cur = node.resv = node.drawn = behind
            events += self._record(bad, by_key[position], "", 1)
        if before(node.cur, hi):
            node.width_ok += width(axis, node.cur, hi)
            node.cur = hi
        good = max(items - len(by_key), 0)
        node.rows_ok += good
        self._items_ok += good

    def _handed_back(self, node: Node, context: MemoryContext, seconds: float) -> None:
        if not context.progressed:
            # Handing back without getting on would go on for ever.
            self._failed(node, context, HandBack("nothing was done"), None, seconds)
            return
        events: list[Fact] = []
        with self._lock:
            self._attempts += 1
            node.transient_tries = 0
            node.leaves += 1
            node.resv = node.cur
            if before(node.cur, node.hi):
                node.state = NodeState.PENDING
            else:
                events = self._close(node)
        self._tell(events)

    def _failed(
        self,
        node: Node,
        context: MemoryContext,
        error: BaseException,
        items: int | None,
        seconds: float,
    ) -> None:
        policy = self.options.retry
        transient = isinstance(error, HandBack) or policy.is_transient(error)
        trace = "".join(traceback.format_exception(error))[-4_000:]
        with self._lock:
            self._attempts += 1
            self._durations.add(seconds)
            node.error, node.traceback = _said(error), trace
            events = (
                self._facts("leaf.failed", node, lo=node.cur, hi=node.resv, error=node.error)
                if heard("leaf.failed")
                else []
            )
            if transient and node.transient_tries < TRANSIENT_TRIES:
                node.transient_tries += 1
                wait = transient_seconds(node.transient_tries, self._random)
                self._remember(node, context.attempt, seconds, wait, transient=True)
                node.sizer.halve()
                node.resv = node.cur
                events += self._back_off(node, wait)
            else:
                node.transient_tries = 0
                failing = node if node.is_whole else self._peel(node, events)
                failing.attempts += 1
                failing.items = items
                events += self._after_attempt(failing, context.attempt, seconds)
            self._ring()
        self._tell(events)

    def _peel(self, node: Node, events: list[Fact]) -> Node:
        """Make the leaf [cur, resv) a node of its own, and let the strand go on behind it."""
        lo, hi = node.cur, node.resv
        self._cut_off(node)
        failing = self._node(NodeKind.BISECT, lo, hi, node)
        failing.allowed = self.options.retry.max_attempts
        failing.error, failing.traceback = node.error, node.traceback
        failing.started = True
        self._open[failing.id] = failing
        self._open_bisects += 1
        events += self._facts("node.created", failing)
        node.lo = node.cur = node.resv = node.drawn = hi
        if not before(node.cur, node.hi):
            self._drop(node)
        elif self._open_bisects >= most_open_bisects(self.concurrency):
            node.state = NodeState.PENDING
        return failing

    def _after_attempt(self, node: Node, attempt: int, seconds: float) -> list[Fact]:
        """A whole leaf failed once more: try again later, halve it, or record it."""
        policy = self.options.retry
        if node.attempts < node.allowed:
            wait = policy.wait_seconds(node.attempts, self._random)
            self._remember(node, attempt, seconds, wait, transient=False)
            return self._back_off(node, wait)
        self._remember(node, attempt, seconds, None, transient=False)
        if policy.bisect and len(self.failures) < policy.bisect_budget:
            cut = halve(self.source, node.cur, node.hi)
            if cut is not None:
                return self._bisect(node, cut)
        items = node.items
        if items is None:
            items = max(1, self.source.estimate(node.cur, node.hi))
        self._drop(node, keep=True)
        node.tries += node.attempts
        return self._record(node, node.error, node.traceback, items) + self._check_threshold()

    def _bisect(self, node: Node, cut: Position) -> list[Fact]:
        """Halves are tried once each; the node becomes the left one."""
        events = self._facts("node.bisected", node, cut=cut)
        if before(node.lo, node.cur):
            self._cut_off(node)
        right = self._node(NodeKind.BISECT, cut, node.hi, node)
        right.started = True
        right.tries = node.tries = node.tries + node.attempts
        right.error, right.traceback = node.error, node.traceback
        self._open[right.id] = right
        self._open_bisects += 1
        node.hi = cut
        node.resv = node.cur
        node.attempts, node.allowed, node.items = 0, 1, None
        node.next_at = 0.0
        node.state = NodeState.PENDING
        return events + self._facts("node.created", right)

    def _record(self, node: Node, error: str, trace: str, items: int) -> list[Fact]:
        """The node's keys failed for good."""
        axis = self.source.axis
        node.width_failed = width(axis, node.cur, node.hi)
        node.rows_failed = items
        node.state = NodeState.ERROR
        is_one = node.hi == _behind(axis, node.cur)
        failure = Failure(
            node_id=node.id,
            key=axis.to_json(key_at(axis, node.cur)),
            upto=None if is_one else _json_end(axis, node.hi),
            items=items,
            attempts=node.tries,
            error=error,
            traceback=trace,
            state=FailureState.OPEN,
        )
        self.failures.append(failure)
        self._items_failed += items
        self._mark(node.cur, node.hi, CELL_FAILED)
        events = self._facts("node.failed", node, lo=node.cur, hi=node.hi, error=error, items=items)
        node.cur = node.resv = node.drawn = node.hi
        return events

    def _check_threshold(self) -> list[Fact]:
        """Of what was attempted since the run was last started or resumed."""
        failed = self._items_failed - self._forgiven[0]
        attempted = self._items_ok + self._items_failed - self._forgiven[1]
        threshold = self.options.failure_threshold
        if self.status is RunStatus.RUNNING and crossed(
            failed=failed, attempted=attempted, threshold=threshold
        ):
            return self._pause(FAILURE_THRESHOLD)
        return []

    def _back_off(self, node: Node, wait: float) -> list[Fact]:
        self._retries += 1
        node.next_at = time.monotonic() + wait
        node.state = NodeState.PENDING
        if not heard("node.retrying"):
            return []
        return self._facts("node.retrying", node, retry_in=wait, error=node.error)

    def _stumble(self, node: Node, error: Exception) -> None:
        """The walk itself failed: nothing is known, so nothing is skipped. Rest, then give up."""
        with self._lock:
            node.error = _said(error)
            node.transient_tries += 1
            node.resv = node.cur
            if node.transient_tries <= TRANSIENT_TRIES:
                wait = transient_seconds(node.transient_tries, self._random)
                events = self._back_off(node, wait)
            else:
                node.state = NodeState.PENDING
                node.transient_tries = 0
                events = []
                if self.status is RunStatus.RUNNING:
                    events = self._pause(f"the walk failed: {node.error}")
            self._ring()
        self._tell(events)

    # Nodes

    def _node(self, kind: NodeKind, lo: Position, hi: Position, parent: Node | None) -> Node:
        bounds = (self.lo, self.hi)
        known = self._seconds_per_item if parent is None else parent.sizer.seconds_per_item
        sizer = LeafSizer(self._leaf, least=self._least, seconds_per_item=known)
        if kind is NodeKind.BISECT and parent is not None:
            walker, sizer = parent.walker, parent.sizer
        else:
            walker = self._walker(bounds, sizer)
        node = Node(next(self._ids), kind, lo, hi, walker=walker, sizer=sizer, parent=parent)
        self.nodes.append(node)
        return node

    def _walker(self, bounds: tuple[Position, Position], sizer: LeafSizer) -> Walker:
        return self.job.walker(self.source, bounds, sizer, max_depth=self.options.max_depth)

    def _add(self, kind: NodeKind, lo: Position, hi: Position, parent: Node | None) -> list[Fact]:
        node = self._node(kind, lo, hi, parent)
        self._open[node.id] = node
        return self._facts("node.created", node)

    def _cut_off(self, node: Node) -> None:
        """What the node has behind it becomes a node that has ended."""
        if not before(node.lo, node.cur):
            return
        self._mark_processed(node)
        done = self._node(node.kind, node.lo, node.cur, node)
        node.hand_over_done_part(done)

    def _close(self, node: Node) -> list[Fact]:
        """Nothing is left of the node."""
        if node.cur != node.hi:
            raise AssertionError("a node that has not reached its end cannot be done")
        node.state = ended_state(node)
        self._mark_processed(node)
        self._drop(node, keep=True)
        if self._seconds_per_item is None:
            self._seconds_per_item = node.sizer.seconds_per_item
        self._ring()
        name = "node.completed" if node.state is NodeState.DONE else f"node.{node.state}"
        if name == "node.skipped" or not heard(name):
            # Each skip was told already, with its bounds.
            return []
        return self._facts(name, node)

    def _drop(self, node: Node, *, keep: bool = False) -> None:
        """It is open no more. Without `keep` nothing is left of its range either."""
        if self._open.pop(node.id, None) is not None and node.is_whole:
            self._open_bisects -= 1
        if not keep:
            node.state = NodeState.DONE
            self.nodes = [each for each in self.nodes if each is not node]

    def _reopen(self, node: Node) -> None:
        self._items_failed -= node.rows_failed
        node.cur = node.resv = node.drawn = node.lo
        node.width_failed = node.rows_failed = 0
        node.attempts, node.next_at = 0, 0.0
        node.kind = NodeKind.BISECT
        node.allowed = self.options.retry.max_attempts
        node.state = NodeState.PENDING
        self._open[node.id] = node
        self._open_bisects += 1

    # Stealing

    def _victims(self) -> list[Victim]:
        return [
            Victim(
                id=node.id,
                left=self.source.estimate(node.resv, node.hi),
                leaf_size=node.sizer.size(),
                seconds_per_item=node.sizer.seconds_per_item,
                commits=node.commits,
                cool_until=node.cool_until,
            )
            for node in self._open.values()
            if node.state is NodeState.RUNNING and not node.is_whole and before(node.resv, node.hi)
        ]

    def _least_to_steal(self) -> float:
        target = self._leaf.target_seconds
        return LEAST_TO_STEAL_SECONDS if target is None else 2 * target

    def _has_strand(self) -> bool:
        return any(
            node.state is NodeState.RUNNING and not node.is_whole for node in self._open.values()
        )

    def _cut(self, victim: Victim) -> Position | None:
        node = self._open.get(victim.id)
        return None if node is None else halve(self.source, node.resv, node.hi)

    def _steal(self, victim: Victim, cut: Position | None) -> Node | None:
        """Take the tail of a strand, if it has not got there meanwhile."""
        with self._lock:
            node = self._open.get(victim.id)
            if node is None or node.is_whole or node.state is not NodeState.RUNNING:
                return None
            node.thefts += 1
            node.cool_until = time.monotonic() + cool_down_seconds(node.thefts)
            if cut is None or not before(node.resv, cut) or not before(cut, node.hi):
                return None
            thief = self._node(NodeKind.STRAND, cut, node.hi, node)
            thief.state = NodeState.RUNNING
            thief.started = True
            node.hi = cut
            self._open[thief.id] = thief
            events = (
                self._facts("node.stolen", node, cut=cut, by=thief.id)
                + self._facts("node.created", thief)
                + self._facts("node.started", thief)
            )
        self._tell(events)
        return thief

    # Telling

    def _facts(self, name: str, node: Node | None = None, **facts: Any) -> list[Fact]:
        """The event, if anybody wants it. Bounds in their JSON form."""
        if not heard(name):
            return []
        axis = self.source.axis
        known: dict[str, Any] = {"run_id": self.id}
        if node is None:
            known["status"] = str(self.status)
        else:
            known |= {
                "node_id": node.id, "kind": str(node.kind), "state": str(node.state),
                "attempt": node.attempts, "depth": node.depth, "lo": node.lo, "hi": node.hi,
            }  # fmt: skip
        known |= facts
        if "lo" in known:
            known["lo"] = axis.to_json(key_at(axis, known["lo"]))
            known["hi"] = _json_end(axis, known["hi"])
        if known.get("cut") is not None:
            known["cut"] = axis.to_json(key_at(axis, known["cut"]))
        return [Event(name, None, self.job.name, "", known)]

    def _tell(self, events: list[Fact]) -> None:
        if events:
            tell_listeners(events)

    def _sample(self, now: float) -> list[Fact]:
        self._sampled_at = now + SAMPLE_EVERY_SECONDS
        left = self._total - self._dealt_with()
        self._samples.append((now, self._processed(), self._items_ok, left))
        if now < self._told_at:
            return []
        self._told_at = now + STATS_EVERY_SECONDS
        return self._stats_facts()

    def _stats_facts(self) -> list[Fact]:
        if not (heard("range.stats_updated") or heard("range.metrics_updated")):
            return []
        now = self._statistics()
        return self._facts(
            "range.stats_updated", total=now.total, processed=now.processed, skipped=now.skipped,
            failed=now.failed, left=now.left, rows=now.rows, nodes=dict(now.nodes),
            percent=now.done_percent,
        ) + self._facts(
            "range.metrics_updated", attempts=now.attempts, retries=now.retries,
            leaves=now.leaves, keys_per_second=now.keys_per_second, eta_seconds=now.eta_seconds,
            mean_seconds=now.leaf_seconds.mean if now.leaf_seconds else None,
        )  # fmt: skip

    def _count_tally(self, walker: Walker) -> list[Fact]:
        tally = walker.take_tally()
        self._questions += tally.questions
        self._prune_errors += tally.prune_errors + tally.prune_timeouts
        self._probe_timeouts += tally.probe_timeouts
        return []

    def _remember(
        self, node: Node, attempt: int, seconds: float, wait: float | None, *, transient: bool
    ) -> None:
        axis = self.source.axis
        self.history.append(
            FailedTry(
                node_id=node.id,
                lo=axis.to_json(key_at(axis, node.cur)),
                hi=_json_end(axis, node.resv if before(node.cur, node.resv) else node.hi),
                attempt=attempt,
                error=node.error,
                transient=transient,
                seconds=seconds,
                retry_in=wait,
            )
        )

    def _mark(self, lo: Position, hi: Position, flag: int) -> None:
        self._grid.mark(self._cells, self.lo, lo, hi, flag)

    def _mark_processed(self, node: Node) -> None:
        """Draw what the node has processed; not at each leaf, as cells are much larger."""
        if before(node.drawn, node.cur):
            self._mark(node.drawn, node.cur, CELL_PROCESSED)
        node.drawn = node.cur

    # Sums

    def _processed(self) -> int:
        return sum(node.width_ok for node in self.nodes)

    def _dealt_with(self) -> int:
        return sum(n.width_ok + n.width_skipped + n.width_failed for n in self.nodes)

    def _statistics(self) -> Statistics:
        states = dict.fromkeys((str(state) for state in NodeState), 0)
        processed = skipped = failed = rows = rows_failed = leaves = 0
        for node in self.nodes:
            states[str(node.state)] += 1
            processed += node.width_ok
            skipped += node.width_skipped
            failed += node.width_failed
            rows += node.rows_ok
            rows_failed += node.rows_failed
            leaves += node.leaves
        left = self._left()
        active = self._active_seconds
        now = time.monotonic()
        if self._running_since is not None:
            active += now - self._running_since
        rate, row_rate, eta = self._rates(now, processed, rows, left, active)
        return Statistics(
            run_id=self.id,
            job=self.job.name,
            status=self.status,
            reason=self.reason,
            total=self._total,
            processed=processed,
            skipped=skipped,
            failed=failed,
            left=left,
            rows=rows,
            rows_failed=rows_failed,
            leaves=leaves,
            attempts=self._attempts,
            retries=self._retries,
            nodes=states,
            failures=tuple(self.failures),
            leaf_seconds=self._durations.report(),
            active_seconds=active,
            keys_per_second=rate,
            rows_per_second=row_rate,
            eta_seconds=eta,
            questions=self._questions,
            prune_errors=self._prune_errors,
            probe_timeouts=self._probe_timeouts,
        )

    def _left(self) -> int:
        if not self.nodes:
            return self._total if self.status is RunStatus.CREATED else 0
        axis = self.source.axis
        return sum(
            width(axis, node.cur, node.hi) for node in self.nodes if before(node.cur, node.hi)
        )

    def _rates(
        self, now: float, processed: int, rows: int, left: int, active: float
    ) -> tuple[float | None, float | None, float | None]:
        """Keys and rows a second, and the seconds to go, over the last samples."""
        began, keys_then, rows_then, left_then = now - active, 0, 0, self._total
        if self.status is RunStatus.RUNNING and self._samples:
            began, keys_then, rows_then, left_then = self._samples[0]
        seconds = now - began
        if seconds <= 0 or not processed:
            return None, None, None if left else 0.0
        pace = (left_then - left) / seconds
        eta = 0.0 if not left else left / pace if pace > 0 else None
        return (processed - keys_then) / seconds, (rows - rows_then) / seconds, eta

    def _block(self, lo: Position, hi: Position, path: str, depth: int) -> dict[str, Any]:
        axis = self.source.axis
        total = width(axis, lo, hi)
        left = failed = 0
        running = False
        for node in self.nodes:
            if before(node.lo, hi) and before(lo, node.hi):
                if node.state is NodeState.ERROR:
                    failed += _overlap(axis, lo, hi, node.lo, node.hi)
                else:
                    left += _overlap(axis, lo, hi, node.cur, node.hi)
                    running = running or (
                        node.state is NodeState.RUNNING
                        and _overlap(axis, lo, hi, node.cur, node.hi) > 0
                    )
        if not self.nodes:
            left = self._left() and total
        done, skipped = self._shares(lo, hi, total - left - failed)
        if left:
            state = NodeState.RUNNING if running or left < total else NodeState.PENDING
        elif failed:
            state = NodeState.ERROR
        else:
            state = NodeState.DONE if done or not total else NodeState.SKIPPED
        block: dict[str, Any] = {
            "path": path,
            "lo": axis.to_json(key_at(axis, lo)),
            "hi": _json_end(axis, hi),
            "state": str(state),
            "processed": done,
            "skipped": skipped,
            "failed": failed,
            "left": left,
        }
        middle = midpoint(axis, lo, hi) if depth else None
        if middle is not None:
            block["children"] = [
                self._block(lo, middle, path + "0", depth - 1),
                self._block(middle, hi, path + "1", depth - 1),
            ]
        return block

    def _shares(self, lo: Position, hi: Position, dealt_with: int) -> tuple[int, int]:
        """How much of a block was processed, and how much skipped."""
        if dealt_with <= 0 or not before(lo, hi):
            return 0, 0
        cells = self._cells[self._grid.first(lo) : self._grid.last(lo, hi) + 1]
        worked = sum(1 for cell in cells if cell & CELL_PROCESSED)
        passed = sum(1 for cell in cells if cell & CELL_SKIPPED)
        if not worked:
            return 0, dealt_with
        if not passed:
            return dealt_with, 0
        skipped = dealt_with * passed // (worked + passed)
        return dealt_with - skipped, skipped

    # Threads

    def _start_thread(self, index: int) -> None:
        threading.Thread(
            target=self._drive_thread, args=(index,), name=f"range-lane-{index}", daemon=True
        ).start()

    def _drive_thread(self, index: int) -> None:
        with suppress(Exception):  # `wait` raises it
            self._drive(index)
        _close_connections()

    def _drive(self, index: int) -> None:
        """Run one lane in this thread."""
        process = self._process()
        clock = time.perf_counter
        lane = self._lane(index)
        send = lane.send
        answer: Any = None
        try:
            while True:
                try:
                    wish = send(answer)
                except StopIteration:
                    break
                if type(wish) is MemoryContext:
                    began = clock()
                    try:
                        result = process(wish.leaf, wish)
                    except Exception as error:  # noqa: BLE001 - whatever it is, the leaf failed
                        answer = (error, None, clock() - began)
                    else:
                        answer = (None, result, clock() - began)
                else:
                    assert isinstance(wish, _Wait)
                    answer = None
                    self._sleep(wish)
        except BaseException as error:
            lane.close()
            self._broken(error)
            raise
        finally:
            self._leave(index)

    def _process(self) -> Callable[[LeafRange, Any], Any]:
        if not (self._counts_rows and self.options.atomic):
            return self.job.process
        from django.db import transaction

        alias = getattr(self.source, "alias", None)

        def process(leaf: LeafRange, context: Any) -> Any:
            with transaction.atomic(using=alias):
                return self.job.process(leaf, context)

        return process

    def _sleep(self, wish: _Wait) -> None:
        with self._changed:
            if self._version == wish.seen:
                self._idle += 1
                self._changed.wait(wish.seconds)
                self._idle -= 1

    def _ring(self) -> None:
        """Something changed; whoever waits looks again. Under the lock."""
        self._version += 1
        self._changed.notify_all()
        if self._loop is not None and self._bell is not None:
            self._loop.call_soon_threadsafe(self._bell.set)

    # An event loop

    async def _host(self, missing: list[int]) -> None:
        """Run lanes as tasks of this loop until the last one has left."""
        with self._lock:
            self._loop = asyncio.get_running_loop()
            self._bell = bell = asyncio.Event()
        self._start_tasks(missing)
        try:
            while True:
                with self._lock:
                    if not self._live:
                        self._loop = self._bell = None
                        break
                    bell.clear()
                await bell.wait()
        except BaseException as error:
            self._broken(error)
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            with self._lock:
                self._loop = self._bell = None
            raise

    def _start_tasks(self, missing: list[int]) -> None:
        for index in missing:
            task = asyncio.ensure_future(self._drive_task(index))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _drive_task(self, index: int) -> None:
        clock = time.perf_counter
        lane = self._lane(index)
        answer: Any = None
        failure: Exception | None = None
        try:
            while True:
                try:
                    wish = lane.send(answer) if failure is None else lane.throw(failure)
                except StopIteration:
                    break
                answer = failure = None
                if isinstance(wish, MemoryContext):
                    began = clock()
                    try:
                        result = await self.job.process(wish.leaf, wish)
                    except Exception as error:  # noqa: BLE001 - whatever it is, the leaf failed
                        answer = (error, None, clock() - began)
                    else:
                        answer = (None, result, clock() - began)
                elif isinstance(wish, _Ask):
                    try:
                        answer = await asyncio.to_thread(wish.call)
                    except Exception as error:  # noqa: BLE001 - thrown into the lane
                        failure = error
                else:
                    await self._doze(wish)
        except BaseException as error:
            lane.close()
            self._broken(error)
            if not isinstance(error, Exception):
                raise
        finally:
            self._leave(index)

    async def _doze(self, wish: _Wait) -> None:
        bell = self._bell
        if bell is None:
            return
        with self._lock:
            if self._version != wish.seen:
                return
            bell.clear()
            self._idle += 1
        try:
            await asyncio.wait_for(bell.wait(), wish.seconds)
        except TimeoutError:
            pass
        finally:
            with self._lock:
                self._idle -= 1


def _behind(axis: Any, position: Position) -> Position:
    """The least position behind one that has a key."""
    return position + 1 if isinstance(position, int) else cast(str, axis.successor(position))


def _json_end(axis: Any, position: Position) -> Any:
    """None: up to the last key of the type."""
    key = end_key(axis, position)
    return None if key is None else axis.to_json(key)


def _overlap(axis: Any, lo: Position, hi: Position, start: Position, end: Position) -> int:
    left = start if before(lo, start) else lo
    right = end if before(end, hi) else hi
    return width(axis, left, right) if before(left, right) else 0


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:2_000]


def _close_connections() -> None:
    """A lane's thread ends, and with it whatever connections it opened."""
    if "django.db" in sys.modules:
        from django.db import connections

        connections.close_all()
