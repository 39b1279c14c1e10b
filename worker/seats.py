"""What runs right now: one seat per running attempt, with what is needed to stop it.

The threads and the loop sit down and rise; the main thread looks around (`deadlines.py`). A seat's
lock makes sure that a stop meets the attempt that it is meant for and not the next one.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from threading import Lock, get_ident

from jobs.answers import JobTimeout
from jobs.claimed import Claimed
from jobs.context import Context


class Seat:
    """One running attempt. A thread keeps its seat from job to job; the loop makes one per job."""

    __slots__ = (
        "abandoned",
        "context",
        "deadline",
        "interrupt",
        "interrupted",
        "job",
        "lock",
        "started",
        "timeout",
    )

    def __init__(self) -> None:
        self.lock = Lock()
        self.job: Claimed | None = None
        self.context: Context | None = None
        self.deadline = 0.0
        self.timeout = 0.0
        self.started = 0.0
        self.interrupted = False
        self.abandoned = False
        self.interrupt: Callable[[], None] | None = None
        """How to shake the attempt when its time is up; None: it cannot be shaken."""

    def sit(self, job: Claimed, context: Context, timeout: float | None) -> None:
        self.context = context
        self.interrupted = False
        self.started = time.monotonic()
        self.timeout = timeout or 0.0
        self.deadline = self.started + timeout if timeout else 0.0
        self.job = job

    def rise(self) -> bool:
        """The attempt has ended; False if it was given up meanwhile, so its outcome is void."""
        with self.lock:
            self.job = None
            self.context = None
            return not self.abandoned


class Seats:
    """All seats of this process. Readers copy; adding and removing are single list operations."""

    def __init__(self) -> None:
        self._all: list[Seat] = []

    def add(self, seat: Seat) -> Seat:
        self._all.append(seat)
        return seat

    def remove(self, seat: Seat) -> None:
        self._all.remove(seat)

    def taken(self) -> list[Seat]:
        return [seat for seat in list(self._all) if seat.job is not None]

    def stop(self, leases: dict[str, int], reason: str) -> int:
        """Ask the attempts with these (job id, lease epoch) to stop; returns how many heard."""
        heard = 0
        for seat in self.taken():
            with seat.lock:
                job, context = seat.job, seat.context
                if (
                    job is not None
                    and context is not None
                    and leases.get(job.id) == job.lease_epoch
                ):
                    context.stop(reason)
                    heard += 1
        return heard

    def stop_all(self, reason: str) -> None:
        for seat in self.taken():
            with seat.lock:
                if seat.context is not None:
                    seat.context.stop(reason)


def raise_in_thread(thread_id: int) -> None:
    """Raise JobTimeout in a thread, at its next bytecode; C code that never returns does not hear."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread_id), ctypes.py_object(JobTimeout)
    )


def take_back_raise() -> None:
    """Forget an exception that was set for this thread and has not been raised yet."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(get_ident()), None)
