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

Nothing survives the process. Where `over` is a queryset, each leaf is one transaction if `atomic`;
rows that need work again behind a cursor are left to the next run. A leaf's `hard_timeout` has no
effect: a thread cannot be taken away from a leaf that hangs.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, cast

from jobs.errors import Conflict, InvalidInput
from jobs.events import Event, heard, tell_listeners
from jobs.ids import new_uuid
from ranges.bounding import bounds_of
from ranges.declaring import RangeJob
from ranges.frontier import BadKeys, Frontier, said
from ranges.leaf_range import HandBack, LeafRange
from ranges.memory_context import MemoryContext
from ranges.options import Options
from ranges.positions import Position, before, width
from ranges.reports import FailedTry, Failure, Statistics
from ranges.retrying import most_open_bisects
from ranges.snapshots import Pace, statistics_of, tree_of
from ranges.splitting import Victim, halve, whom_to_steal_from
from ranges.states import ENDED, RunStatus
from ranges.strands import Node
from ranges.walking import Step

FAILURE_THRESHOLD = "failure threshold"
CORRUPT = "corrupt"
DEEPEST_TREE = 10
LEAST_TO_STEAL_SECONDS = 0.005

_IDLE_SECONDS = 0.05
_LONGEST_IDLE_SECONDS = 5.0


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
        check_nulls = getattr(self.source, "check_nulls", None)
        if check_nulls is not None:
            check_nulls()
        bounds = bounds_of(self.source, start, end)
        self.frontier = Frontier(self.id, job, options, self.source, bounds)
        self.status = RunStatus.CREATED
        self.reason = ""
        self.results: list[Any] = []
        """What `process` emitted, in the order in which leaves were done."""

        self._is_async = job.is_async()
        self._is_plain = not self._is_async and not self.source.counts_rows
        # An event loop must not wait for a database.
        self._offload = self._is_async and (job.asks() or self.source.counts_rows)
        self._pace = Pace()
        self._running_since: float | None = None
        self._active_seconds = 0.0

        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._version = 0
        self._idle = 0
        self._live: set[int] = set()
        self._crash: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._bell: asyncio.Event | None = None
        self._tasks: set[asyncio.Task[None]] = set()
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
        missing = self._begin()
        with self._lock:
            is_hosted = self._loop is not None
        if is_hosted or not missing:
            # Lanes from before the pause are still at work, in a loop of their own.
            self._staff(missing)
            return await asyncio.to_thread(self.wait)
        await self._host(missing)
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
            self.frontier.concurrency = concurrency
            missing = self._missing() if self.status is RunStatus.RUNNING else []
            self._ring()
        self._staff(missing)

    def retry_failed(self) -> None:
        """Try everything that failed again, in the background."""
        with self._lock:
            if self.status in (RunStatus.CREATED, RunStatus.CANCELLED) or self._live:
                raise Conflict(f"the run is {self.status}, so failures cannot be retried now")
            self.frontier.reopen_failed()
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

    @property
    def failures(self) -> list[Failure]:
        return self.frontier.failures

    @property
    def history(self) -> deque[FailedTry]:
        """Failed tries, oldest first."""
        return self.frontier.history

    @property
    def nodes(self) -> list[Node]:
        return self.frontier.nodes

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
            return tree_of(self.frontier, depth)

    def verify(self) -> bool:
        """Whether the nodes tile the range, without gap or overlap, and their sums add up."""
        with self._lock:
            return self.frontier.tiles()

    # Called by contexts

    def must_leave(self, index: int) -> bool:
        return self.status is not RunStatus.RUNNING or index >= self.frontier.concurrency

    def advance(self, node: Node, upto: Position, failed: BadKeys | None) -> bool:
        """All of the leaf before `upto` is done. False: nothing new is."""
        with self._lock:
            if not before(node.cur, upto):
                return False
            items = 0
            if not self.source.counts_rows:
                items = width(self.source.axis, node.cur, upto)
            events = self.frontier.pass_over(node, upto, items, failed or [])
            if failed:
                events += self._check_threshold()
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
            self.frontier.forgive()
            self._pace.clear()
            self._running_since = time.monotonic()
            missing = self._missing()
            events = self._facts("range.started" if is_new else "range.resumed")
            self._ring()
        self._tell(events)
        if is_new:
            self._plan(missing)
        return missing

    def _plan(self, missing: list[int]) -> None:
        # No lane has started, so nobody else plans.
        try:
            pieces = self.frontier.pieces()
        except BaseException as error:
            with self._lock:
                self._live.difference_update(missing)
                self._stop_clock()
                self.status, self.reason = RunStatus.FAILED, said(error)
                self._changed.notify_all()
                events = self._facts("range.failed")
            self._tell(events)
            raise
        with self._lock:
            events = self.frontier.plan(pieces)
        self._tell(events)

    def _missing(self) -> list[int]:
        missing = [n for n in range(self.frontier.concurrency) if n not in self._live]
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
        events: list[Event] = []
        again: list[int] = []
        with self._lock:
            self._live.discard(index)
            if not self._live and self.status is RunStatus.RUNNING:
                if self.frontier.open:
                    # Something was opened again while the last lane was on its way out.
                    again = self._missing()
                else:
                    events = self._end()
            self._ring()
        self._tell(events)
        with self._lock:
            self._changed.notify_all()
        self._staff(again)

    def _end(self) -> list[Event]:
        self._stop_clock()
        frontier = self.frontier
        if frontier.left() or not frontier.tiles():
            # Never seen, and never to be taken for success.
            self.status, self.reason = RunStatus.FAILED, CORRUPT
        elif not frontier.failures:
            self.status = RunStatus.COMPLETED
        elif frontier.items_ok:
            self.status = RunStatus.PARTIALLY_FAILED
        else:
            self.status = RunStatus.FAILED
        return self._sums() + self._facts(f"range.{self.status}")

    def _pause(self, reason: str) -> list[Event]:
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
        events: list[Event] = []
        with self._lock:
            self._crash = error
            if self.status is RunStatus.RUNNING:
                events = self._pause(said(error))
        self._tell(events)

    def _check_threshold(self) -> list[Event]:
        if self.status is RunStatus.RUNNING and self.frontier.has_crossed():
            return self._pause(FAILURE_THRESHOLD)
        return []

    # A lane

    def _lane(self, index: int) -> _Lane:
        """What one lane does. It yields what takes time: a leaf, a wait, a question.

        So threads and an event loop share every decision.
        """
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
                    self.frontier.release(taken)
                    self._ring()

    def _take(self, index: int) -> Node | Victim | _Wait | None:
        """What this lane does next: a node, a theft, or nothing for a while; None: leave."""
        frontier = self.frontier
        with self._lock:
            if self.must_leave(index) or not frontier.open:
                return None
            now = time.monotonic()
            node, next_at = frontier.due(now)
            if node is None:
                if frontier.open_bisects < most_open_bisects(frontier.concurrency):
                    victim = whom_to_steal_from(
                        frontier.victims(), now=now, least_seconds=self._least_to_steal()
                    )
                    if victim is not None:
                        return victim
                longest = _LONGEST_IDLE_SECONDS
                if frontier.has_running_strand():
                    longest = _IDLE_SECONDS
                return _Wait(min(longest, max(next_at - now, 0.0)), self._version)
            events = frontier.claim(node)
        self._tell(events)
        return node

    def _work(self, node: Node, index: int) -> _Lane:
        """Leaf after leaf, until the node has ended or must be given back."""
        while not self.must_leave(index) and node.is_running:
            try:
                if self._is_plain and not node.is_whole:
                    leaf, items = self._reserve(node, node.walker.next(node.cur, node.hi))
                else:
                    leaf, items = yield from self._find(node)
            except Exception as error:  # noqa: BLE001 - nothing is known, so nothing is skipped
                self._stumbled(node, error)
                return
            if leaf is None:
                continue
            context = MemoryContext(self, node, leaf, index)
            outcome = yield context
            self._settle(context, items, *outcome)

    def _find(self, node: Node) -> Generator[_Wish, Any, tuple[LeafRange | None, int | None]]:
        """The node's next leaf, reserved, and its rows if they are known; None: it was a skip."""
        if node.is_whole:
            step = Step(node.cur, node.hi)
        else:
            step = yield from self._asked(partial(node.walker.next, node.cur, node.hi))
        leaf, items = self._reserve(node, step)
        if leaf is not None and items is None and self.source.counts_rows:
            items = yield from self._asked(leaf.queryset.count)
        return leaf, items

    def _asked[T](self, call: Callable[[], T]) -> Generator[_Wish, Any, T]:
        if self._offload:
            return cast("T", (yield _Ask(call)))
        return call()

    def _reserve(self, node: Node, step: Step) -> tuple[LeafRange | None, int | None]:
        with self._lock:
            leaf, items, events = self.frontier.reserve(node, step)
            if leaf is None:
                self._ring()
        if events:
            self._tell(events)
        return leaf, items

    def _settle(
        self,
        context: MemoryContext,
        items: int | None,
        error: BaseException | None,
        result: Any,
        seconds: float,
    ) -> None:
        node, frontier = context.node, self.frontier
        if type(result) is int and result >= 0 and self.source.counts_rows:
            items = result
        with self._lock:
            if error is None:
                failed = context.failed
                events = frontier.done(node, context.leaf, items, seconds, failed)
                context.keep_results()
                if failed is not None:
                    events += self._check_threshold()
            elif isinstance(error, HandBack) and context.progressed:
                events = frontier.handed_back(node)
            else:
                # Who hands back without getting on would do so for ever.
                events = frontier.failed(node, error, items, seconds) + self._check_threshold()
            if node.commits <= 1 or not node.is_running:
                self._ring()
            now = time.monotonic()
            if self._pace.is_due(now) and self._pace.sample(now, frontier):
                events += self._sums()
        if events:
            self._tell(events)

    def _stumbled(self, node: Node, error: Exception) -> None:
        with self._lock:
            goes_on, events = self.frontier.stumbled(node, error)
            if not goes_on and self.status is RunStatus.RUNNING:
                events = self._pause(f"the walk failed: {said(error)}")
            self._ring()
        self._tell(events)

    def _least_to_steal(self) -> float:
        target = self.frontier.leaf.target_seconds
        return LEAST_TO_STEAL_SECONDS if target is None else 2 * target

    def _cut(self, victim: Victim) -> Position | None:
        node = self.frontier.open.get(victim.id)
        return None if node is None else halve(self.source, node.resv, node.hi)

    def _steal(self, victim: Victim, cut: Position | None) -> Node | None:
        with self._lock:
            thief, events = self.frontier.steal(victim, cut, time.monotonic())
        self._tell(events)
        return thief

    # Telling

    def _facts(self, name: str, **facts: Any) -> list[Event]:
        return self.frontier.facts(name, status=str(self.status), **facts)

    def _tell(self, events: list[Event]) -> None:
        """Only here: no other process could look a run in memory up."""
        if events:
            tell_listeners(events)

    def _sums(self) -> list[Event]:
        if not (heard("range.stats_updated") or heard("range.metrics_updated")):
            return []
        now = self._statistics()
        return self._facts(
            "range.stats_updated",
            total=now.total, processed=now.processed, skipped=now.skipped, failed=now.failed,
            left=now.left, rows=now.rows, nodes=dict(now.nodes), percent=now.done_percent,
        ) + self._facts(
            "range.metrics_updated",
            attempts=now.attempts, retries=now.retries, leaves=now.leaves,
            keys_per_second=now.keys_per_second, eta_seconds=now.eta_seconds,
            mean_seconds=now.leaf_seconds.mean if now.leaf_seconds else None,
        )  # fmt: skip

    def _statistics(self) -> Statistics:
        active = self._active_seconds
        if self._running_since is not None:
            active += time.monotonic() - self._running_since
        return statistics_of(self.frontier, self._pace, self.status, self.reason, active)

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
        if not (self.source.counts_rows and self.options.atomic):
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


def _close_connections() -> None:
    """A lane's thread ends, and with it whatever connections it opened."""
    if "django.db" in sys.modules:
        from django.db import connections

        connections.close_all()
