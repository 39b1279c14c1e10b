"""Threads that take jobs from the stock and run them.

    take -> run -> put the outcome -> take the next

A plain handler runs in the thread itself. An async one is handed to the loop, which gives the slot
back when it is done; the thread goes on at once. One that must be killable (`isolation="process"`,
or a job that was lost before) runs in a process of its own while the thread waits for it.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from threading import Thread, get_ident

from jobs import execution, registry
from jobs.answers import JobTimeout
from jobs.claimed import Claimed
from jobs.complete import Written
from jobs.context import Context, Desk
from jobs.endings import Ending, Success
from jobs.outcomes import Run, decide_raise, decide_timed_out, hand_back
from jobs.registry import Handler
from worker.completer import Committed, Completer
from worker.coroutines import Loop
from worker.kernel import end_if_forked
from worker.places import Places
from worker.sandbox import Sandbox
from worker.seats import Seat, Seats, raise_in_thread, take_back_raise
from worker.stock import Stock


class Executor:
    def __init__(
        self,
        *,
        worker_id: str,
        completer: Completer,
        places: Places,
        seats: Seats,
        desk: Desk,
        loop: Loop,
        sandbox: Sandbox,
    ) -> None:
        self.stock: Stock
        self._worker_id = worker_id
        self._completer = completer
        self._places = places
        self._seats = seats
        self._desk = desk
        self._loop = loop
        self._sandbox = sandbox
        self._threads: list[Thread] = []
        self._pid = os.getpid()

    def start_thread(self) -> None:
        """One more thread, as long as there are slots for it; called under the stock's lock."""
        if len(self._threads) < self.stock.concurrency:
            thread = Thread(
                target=self._work, name=f"handler-{len(self._threads) + 1}", daemon=True
            )
            with suppress(RuntimeError):  # the system has no room for it now: the next call tries
                thread.start()
                self._threads.append(thread)

    def _work(self) -> None:
        seat = self._seats.add(Seat())
        thread_id = get_ident()
        seat.interrupt = lambda: raise_in_thread(thread_id)
        stock, put = self.stock, self._completer.put
        job = stock.take()
        while job is not None:
            handler = registry.find(job.type)
            if handler is None:
                # Unregistered since the claim: give it back untouched.
                put(hand_back(job, "no handler is registered here"))
            elif handler.is_async and not _must_be_killable(handler, job):
                self._loop.run(handler, job)
                job = stock.take()
                continue
            else:
                outcome = self._attempt(seat, handler, job)
                if outcome is None:
                    return  # given up: the slot is lost, and so is this thread
                put(outcome)
                stock.measured(job.type, outcome_seconds(outcome))
            job = stock.take(done=True)

    def _attempt(
        self, seat: Seat, handler: Handler, job: Claimed
    ) -> Success | Ending | Committed | None:
        """Run one job here; None if it was given up while it ran."""
        timeout = execution.timeout_of(handler)
        context = Context(job, self._desk, timeout=timeout)
        seat.sit(job, context, timeout)
        self._places.start(job.place, seat.deadline)
        outcome: Success | Ending | Committed
        try:
            if _must_be_killable(handler, job):
                outcome = self._sandbox.run(handler, job, context)
            elif handler.atomic:
                ending, written = execution.run_atomic(handler, job, context, self._worker_id)
                outcome = _committed(job, ending, written)
            else:
                outcome = execution.run_sync(handler, job, context)
            end_if_forked(self._pid)
            execution.after_handler()
        except JobTimeout:
            # The stop came between the handler's return and here.
            execution.after_handler()
            outcome = self._timed_out(seat, handler, job)
        except BaseException as error:  # noqa: BLE001 - no process can be forked, say
            outcome = decide_raise(job, error, self._run_of(seat, job), handler)
        while not self._risen(seat):
            pass
        return None if seat.abandoned else outcome

    def _risen(self, seat: Seat) -> bool:
        """Leave the seat; False if the stop fell right into it, so it must be done again."""
        try:
            seat.rise()
            if seat.interrupted:
                take_back_raise()
        except JobTimeout:
            return False
        return True

    def _timed_out(self, seat: Seat, handler: Handler, job: Claimed) -> Ending:
        return decide_timed_out(job, seat.timeout, self._run_of(seat, job), handler)

    def _run_of(self, seat: Seat, job: Claimed) -> Run:
        wait = max(0.0, seat.started - job.received)
        return Run(wait=wait, run=time.monotonic() - seat.started)


def outcome_seconds(outcome: Success | Ending | Committed) -> float:
    return 1.0 if isinstance(outcome, Committed) else outcome.run


def _must_be_killable(handler: Handler, job: Claimed) -> bool:
    return handler.isolation == "process" or job.lost_count > 0


def _committed(
    job: Claimed, ending: Success | Ending, written: Written | None
) -> Success | Ending | Committed:
    return ending if written is None else Committed(job, written)
