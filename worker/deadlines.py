"""Stop attempts whose time is up, and give up those that do not stop.

    deadline -> context.cancelled and one exception in the handler -> grace -> given up

Called by the main thread a few dozen times a second. A killable process is not stopped here: its
thread kills it at the deadline.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from jobs import registry
from jobs.endings import Ending
from jobs.outcomes import Run, decide_timed_out
from worker.seats import Seat, Seats


class Deadlines:
    def __init__(
        self,
        seats: Seats,
        *,
        grace_seconds: float,
        put: Callable[[Ending], None],
        on_given_up: Callable[[], None],
    ) -> None:
        self._seats = seats
        self._grace = grace_seconds
        self._put = put
        self._on_given_up = on_given_up

    def look(self) -> None:
        now = time.monotonic()
        for seat in self._seats.taken():
            if seat.deadline and now >= seat.deadline:
                self._overdue(seat, now)

    def _overdue(self, seat: Seat, now: float) -> None:
        with seat.lock:
            job, context = seat.job, seat.context
            if job is None or context is None or not seat.deadline or now < seat.deadline:
                return  # ended, or another attempt by now
            if not seat.interrupted:
                context.stop("timeout")
                seat.interrupted = True
                if seat.interrupt is not None:
                    seat.interrupt()
                return
            if seat.abandoned or now < seat.deadline + self._grace:
                return
            seat.abandoned = True
            run = Run(wait=max(0.0, seat.started - job.received), run=now - seat.started)
            reason = f"did not stop within {self._grace:g} s of its time-out of {seat.timeout:g} s"
            ending = decide_timed_out(job, seat.timeout, run, registry.find(job.type), reason)
        self._put(ending)
        self._on_given_up()
