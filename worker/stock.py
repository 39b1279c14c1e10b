"""The jobs that this process has claimed and not started, and the slots that run the others.

All threads meet here, under one lock. What must always be true:
1. A job is in the scheduler, or in one slot, or given up to the completer: never in two places.
2. At most `concurrency` slots are busy. An async job keeps its slot while it runs on the loop.
3. When jobs wait and slots are free, some thread is awake to take them. A thread that is about to
   run a job whose type takes long wakes the next; one whose job takes microseconds comes back
   itself, since waking more threads would only make them fight for the interpreter. `nudge`, called
   a few dozen times a second, mends the case in which a fast type turned slow.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from threading import Condition, Lock
from typing import Any

from jobs.claimed import Claimed
from jobs.order import score
from worker.schedulers import Scheduler

SHORT_SECONDS = 0.0003
_SMOOTHING = 0.2


class Stock:
    def __init__(
        self,
        scheduler: Scheduler[Any],
        concurrency: int,
        *,
        aging_minutes: float,
        aging_step: float,
        wants_more: Callable[[], None],
        wants_thread: Callable[[], None],
    ) -> None:
        self.concurrency = concurrency
        self.active = 0
        self.low_water = 0
        self.taken_total = 0
        self.closed = False
        self.best_outside: float | None = None
        """The score of the best due job that nobody has claimed, told while no slot is free."""
        self._scheduler = scheduler
        self._aging = (aging_minutes, aging_step)
        self._wants_more = wants_more
        self._wants_thread = wants_thread
        self._lock = Lock()
        self._changed = Condition(self._lock)
        self._idle_threads = 0
        self._asked = False
        self._taken_at_nudge = -1
        self._clock_offset = 0.0
        self._seconds: dict[str, float] = {}

    # The feeder's side

    def put(self, jobs: Sequence[Claimed]) -> None:
        """Take in claimed jobs and see to it that somebody starts them."""
        if not jobs:
            return
        with self._lock:
            self._clock_offset = jobs[0].claimed_at - jobs[0].received
            self._scheduler.push_many(jobs)
            self._asked = False
            self._wake()

    def __len__(self) -> int:
        return len(self._scheduler)

    @property
    def free_slots(self) -> int:
        return max(0, self.concurrency - self.active)

    def expect_more(self) -> None:
        """The feeder is about to look: the next shortage is told again."""
        self._asked = False

    def take_back(self) -> list[Claimed]:
        """Everything that has not started, to be handed back."""
        with self._lock:
            return self._scheduler.pop_many(len(self._scheduler), self._now())

    def discard(self, job_id: str) -> Claimed | None:
        with self._lock:
            found: Claimed | None = self._scheduler.discard(job_id)
            return found

    def close(self) -> None:
        """No thread takes another job; those that wait leave."""
        with self._lock:
            self.closed = True
            self._changed.notify_all()

    # The threads' side

    def take(self, done: bool = False) -> Claimed | None:
        """The best job, waiting for one if need be; None once the stock is closed.

        `done` gives back the slot of the job before, under the same lock.
        """
        with self._lock:
            if done:
                self.active -= 1
            while not self.closed:
                if self.active < self.concurrency:
                    job: Claimed | None = self._scheduler.pop(self._now())
                    if job is not None:
                        self.active += 1
                        self.taken_total += 1
                        left = len(self._scheduler)
                        if left <= self.low_water and not self._asked:
                            self._asked = True
                            self._wants_more()
                        if left and self._seconds.get(job.type, 1.0) > SHORT_SECONDS:
                            self._wake()
                        return job
                if not self._asked:
                    self._asked = True
                    self._wants_more()
                self._idle_threads += 1
                self._changed.wait()
                self._idle_threads -= 1
            return None

    def release(self) -> None:
        """Give back the slot of a job that ran elsewhere: on the loop."""
        with self._lock:
            self.active -= 1
            if len(self._scheduler):
                self._wake()
            elif not self._asked:
                self._asked = True
                self._wants_more()

    def measured(self, type: str, seconds: float) -> None:
        """Learn how long jobs of a type take; racing writers lose nothing that matters."""
        known = self._seconds.get(type)
        self._seconds[type] = seconds if known is None else known + (seconds - known) * _SMOOTHING

    def nudge(self) -> None:
        """Wake threads if jobs wait, slots are free, and nobody has taken any since last time."""
        with self._lock:
            stuck = self.taken_total == self._taken_at_nudge
            self._taken_at_nudge = self.taken_total
            if stuck and len(self._scheduler) and self.active < self.concurrency:
                self._wake(min(len(self._scheduler), self.concurrency - self.active))

    def has_better_waiting(self, job: Claimed) -> bool:
        """Whether a job waits for a slot, none is free, and it comes before this one."""
        with self._lock:
            if self.active < self.concurrency:
                return False
            now = self._now()
            mine = self._score(job, now)
            head: Claimed | None = self._scheduler.peek(now)
            if head is not None and self._score(head, now) < mine:
                return True
            return self.best_outside is not None and self.best_outside < mine

    def now(self) -> float:
        """The database's clock, as last heard of, in epoch seconds."""
        return self._now()

    def _now(self) -> float:
        return time.monotonic() + self._clock_offset

    def _score(self, job: Claimed, now: float) -> float:
        return score(job.priority, now - job.due_at, *self._aging)

    def _wake(self, count: int = 1) -> None:
        if self._idle_threads:
            self._changed.notify(count)
        else:
            self._wants_thread()


class Pace:
    """How fast jobs leave the stock, to know how many to hold: a short memory of (time, total)."""

    def __init__(self, seconds: float = 0.5) -> None:
        self._seconds = seconds
        self._points: deque[tuple[float, int]] = deque()

    def note(self, at: float, total: int) -> None:
        points = self._points
        points.append((at, total))
        while len(points) > 2 and at - points[0][0] > self._seconds:
            points.popleft()

    def per_second(self) -> float:
        if len(self._points) < 2:
            return 0.0
        (since, before), (until, after) = self._points[0], self._points[-1]
        return (after - before) / (until - since) if until > since else 0.0
