"""A run in memory: the same walk as on PostgreSQL, without a database of its own.

    statistics = MyJob.run_in_memory(0, 1_000_000)       # here and now
    run = MyJob.in_memory(); run.start(); run.pause(); run.resume(); run.cancel(); run.wait()

1. A lane (`memory_lane.py`) owns the strand it works on; each lane is a thread, or a task if
   `process` is async (`memory_crews.py`). The strands always tile the range (`tiles.py`), and
   every change to them happens under one lock.
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
import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import Any

from jobs.errors import Conflict, InvalidInput
from jobs.events import Event, heard, tell_listeners
from jobs.ids import new_uuid
from jobs.texts import describe_error
from ranges.bounding import bounds_of
from ranges.declaring import RangeJob
from ranges.frontier import BadKeys, Frontier
from ranges.memory_crews import Tasks, Threads
from ranges.mishaps import Mishaps
from ranges.options import Options, check_concurrency
from ranges.positions import Position, before, width
from ranges.reports import FailedTry, Failure, Statistics
from ranges.snapshots import Pace, statistics_of, tree_of
from ranges.states import ENDED, RunStatus
from ranges.strands import Node
from ranges.tiles import Tiles

FAILURE_THRESHOLD = "failure threshold"
CORRUPT = "corrupt"
DEEPEST_TREE = 10


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
        self.tiles = Tiles(self.id, job, options, self.source, bounds)
        self.mishaps = Mishaps(self.tiles)
        self.frontier = Frontier(self.tiles, self.mishaps)
        self.status = RunStatus.CREATED
        self.reason = ""
        self.results: list[Any] = []
        """What `process` emitted, in the order in which leaves were done."""

        self.is_async = job.is_async()
        self.pace = Pace()
        self._running_since: float | None = None
        self._active_seconds = 0.0

        self.lock = threading.Lock()
        self.changed = threading.Condition(self.lock)
        self.version = 0
        """Of what lanes look at: it grows with every change."""
        self.live: set[int] = set()
        """The numbers of the lanes that have not left."""
        self._crash: BaseException | None = None
        self._crew: Threads | Tasks = Tasks(self) if self.is_async else Threads(self)
        self.tell(self._facts("range.created"))

    # What a user does with it

    def run(self) -> Statistics:
        """Start it, or go on after a pause, here; return when it has ended or paused."""
        missing = self._begin()
        if isinstance(self._crew, Threads):
            self._crew.here(missing)
        elif self._crew.is_hosted or not missing:
            self._crew.start(missing)
        else:
            asyncio.run(self._crew.host(missing))
        return self.wait()

    async def arun(self) -> Statistics:
        """The same inside an event loop."""
        if not isinstance(self._crew, Tasks):
            return await asyncio.to_thread(self.run)
        missing = await asyncio.to_thread(self._begin)  # which may ask the database where to cut
        if self._crew.is_hosted or not missing:
            # Lanes from before the pause are still at work, in a loop of their own.
            self._crew.start(missing)
            return await asyncio.to_thread(self.wait)
        await self._crew.host(missing)
        if self._crash is not None:
            raise self._crash
        return self.statistics()

    def start(self) -> MemoryRun:
        """Start it in the background."""
        if self.status is not RunStatus.CREATED:
            raise Conflict(f"the run is {self.status}, so it cannot be started")
        self._crew.start(self._begin())
        return self

    def pause(self, reason: str = "") -> None:
        """No leaf is begun any more; those at work finish. See `wait`."""
        with self.lock:
            if self.status is not RunStatus.RUNNING:
                raise Conflict(f"the run is {self.status}, so it cannot be paused")
            events = self.pause_held(reason)
        self.tell(events)

    def resume(self) -> None:
        """Go on where it paused, in the background."""
        if self.status is not RunStatus.PAUSED:
            raise Conflict(f"the run is {self.status}, so it cannot be resumed")
        self._crew.start(self._begin())

    def cancel(self) -> None:
        """No leaf is begun any more, for good; those at work see `context.cancelled`."""
        with self.lock:
            if self.status in ENDED:
                raise Conflict(f"the run is {self.status}, so it cannot be cancelled")
            self._stop_clock()
            self.status = RunStatus.CANCELLED
            self.ring()
            events = self._facts("range.cancelled")
        self.tell(events)

    def retune(self, *, concurrency: int) -> None:
        """More lanes at once, or fewer as they finish their leaf."""
        check_concurrency(concurrency)
        with self.lock:
            self.tiles.concurrency = concurrency
            missing = self._missing() if self.status is RunStatus.RUNNING else []
            self.ring()
        self._crew.start(missing)

    def retry_failed(self) -> None:
        """Try everything that failed again, in the background."""
        with self.lock:
            if self.status in (RunStatus.CREATED, RunStatus.CANCELLED) or self.live:
                raise Conflict(f"the run is {self.status}, so failures cannot be retried now")
            self.mishaps.reopen_failed()
            self.status = RunStatus.PAUSED
        self._crew.start(self._begin())

    def wait(self, timeout: float | None = None) -> Statistics:
        """Wait until it rests: ended, or paused with no leaf at work. Raises TimeoutError."""
        with self.changed:
            if not self.changed.wait_for(self._rests, timeout):
                raise TimeoutError(f"the run is still {self.status}")
            crash = self._crash
        if crash is not None:
            raise crash
        return self.statistics()

    # What it says about itself

    @property
    def failures(self) -> list[Failure]:
        return self.mishaps.failures

    @property
    def history(self) -> deque[FailedTry]:
        """Failed tries, oldest first."""
        return self.mishaps.history

    @property
    def nodes(self) -> list[Node]:
        return self.tiles.nodes

    def statistics(self) -> Statistics:
        with self.lock:
            return self._statistics()

    def tree(self, depth: int = 4) -> dict[str, Any]:
        """The virtual tree of halves down to a depth of at most 10, as plain values for JSON.

        What was processed and what was skipped inside a block is known by cells, of which a run
        has 1,024; what failed or is left is exact.
        """
        if isinstance(depth, bool) or not isinstance(depth, int) or not 0 <= depth <= DEEPEST_TREE:
            raise InvalidInput(f"must be a whole number from 0 to {DEEPEST_TREE}", field="depth")
        with self.lock:
            return tree_of(self.tiles, depth)

    def verify(self) -> bool:
        """Whether the nodes tile the range, without gap or overlap, and their sums add up."""
        with self.lock:
            return self.tiles.are_whole()

    # Called by lanes and contexts

    def must_leave(self, index: int) -> bool:
        return self.status is not RunStatus.RUNNING or index >= self.tiles.concurrency

    def advance(self, node: Node, upto: Position, failed: BadKeys | None) -> bool:
        """All of the leaf before `upto` is done. False: nothing new is."""
        with self.lock:
            if not before(node.cur, upto):
                return False
            items = 0
            if not self.source.counts_rows:
                items = width(self.source.axis, node.cur, upto)
            events = self.frontier.pass_over(node, upto, items, failed or [])
            if failed:
                events += self.check_threshold()
        self.tell(events)
        return True

    def ring(self) -> None:
        """Something changed; whoever waits looks again. Under the lock."""
        self.version += 1
        self.changed.notify_all()
        self._crew.ring()

    # Starting and ending

    def _begin(self) -> list[int]:
        """Set it running; the numbers of the lanes that somebody must start now."""
        with self.lock:
            if self.status not in (RunStatus.CREATED, RunStatus.PAUSED):
                raise Conflict(f"the run is {self.status}, so it cannot be run")
            is_new = self.status is RunStatus.CREATED
            self.status = RunStatus.RUNNING
            self.reason = ""
            self._crash = None
            self.mishaps.forgive()
            self.pace.clear()
            self._running_since = time.monotonic()
            missing = self._missing()
            events = self._facts("range.started" if is_new else "range.resumed")
            self.ring()
        self.tell(events)
        if is_new:
            self._plan(missing)
        return missing

    def _plan(self, missing: list[int]) -> None:
        # No lane has started, so nobody else plans.
        try:
            pieces = self.frontier.pieces()
        except BaseException as error:
            with self.lock:
                self.live.difference_update(missing)
                self._stop_clock()
                self.status, self.reason = RunStatus.FAILED, describe_error(error)
                self.changed.notify_all()
                events = self._facts("range.failed")
            self.tell(events)
            raise
        with self.lock:
            events = self.frontier.plan(pieces)
        self.tell(events)

    def _missing(self) -> list[int]:
        missing = [n for n in range(self.tiles.concurrency) if n not in self.live]
        self.live.update(missing)
        return missing

    def leave(self, index: int) -> None:
        """A lane is gone; the last one ends the run if nothing is left."""
        events: list[Event] = []
        again: list[int] = []
        with self.lock:
            self.live.discard(index)
            if not self.live and self.status is RunStatus.RUNNING:
                if self.tiles.open:
                    # Something was opened again while the last lane was on its way out.
                    again = self._missing()
                else:
                    events = self._end()
            self.ring()
        self.tell(events)
        with self.lock:
            self.changed.notify_all()
        self._crew.start(again)

    def _end(self) -> list[Event]:
        self._stop_clock()
        if self.tiles.left() or not self.tiles.are_whole():
            # Never seen, and never to be taken for success.
            self.status, self.reason = RunStatus.FAILED, CORRUPT
        elif not self.mishaps.failures:
            self.status = RunStatus.COMPLETED
        elif self.tiles.items_ok:
            self.status = RunStatus.PARTIALLY_FAILED
        else:
            self.status = RunStatus.FAILED
        return self.sums() + self._facts(f"range.{self.status}")

    def pause_held(self, reason: str) -> list[Event]:
        self._stop_clock()
        self.status = RunStatus.PAUSED
        self.reason = reason
        self.ring()
        return self._facts("range.paused", reason=reason)

    def _stop_clock(self) -> None:
        if self._running_since is not None:
            self._active_seconds += time.monotonic() - self._running_since
            self._running_since = None

    def _rests(self) -> bool:
        return not self.live and self.status not in (RunStatus.CREATED, RunStatus.RUNNING)

    def broken(self, error: BaseException) -> None:
        """A lane met something that is no failure of a leaf: an interrupt, or a fault in here."""
        events: list[Event] = []
        with self.lock:
            self._crash = error
            if self.status is RunStatus.RUNNING:
                events = self.pause_held(describe_error(error))
        self.tell(events)

    def check_threshold(self) -> list[Event]:
        if self.status is RunStatus.RUNNING and self.mishaps.has_crossed():
            return self.pause_held(FAILURE_THRESHOLD)
        return []

    # Telling

    def _facts(self, name: str, **facts: Any) -> list[Event]:
        return self.tiles.facts(name, status=str(self.status), **facts)

    def tell(self, events: list[Event]) -> None:
        """Only here: no other process could look a run in memory up."""
        if events:
            tell_listeners(events)

    def sums(self) -> list[Event]:
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
        return statistics_of(
            self.tiles, self.mishaps.failures, self.pace, self.status, self.reason, active
        )
