"""One event loop in a thread of its own, for async handlers.

Each attempt has its own ThreadSensitiveContext: without it all attempts would share one thread, and
so one connection, for their database calls. A handler that blocks the loop delays other async
handlers and nothing else.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from threading import Thread

import structlog
from asgiref.sync import SyncToAsync, ThreadSensitiveContext, sync_to_async
from django.db import connections

from jobs import execution
from jobs.claimed import Claimed
from jobs.context import Context, Desk
from jobs.endings import Ending, Success
from jobs.outcomes import Run, decide_timed_out
from jobs.registry import Handler
from worker.kernel import end_if_forked
from worker.places import Places
from worker.seats import Seat, Seats

_log = structlog.get_logger("coppice.worker")


class Loop:
    """Started with the first async job."""

    def __init__(
        self,
        *,
        seats: Seats,
        places: Places,
        desk: Desk,
        put: Callable[[Success | Ending], None],
        release: Callable[[], None],
        measured: Callable[[str, float], None],
    ) -> None:
        self._seats = seats
        self._places = places
        self._desk = desk
        self._put = put
        self._release = release
        self._measured = measured
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._pid = os.getpid()

    def run(self, handler: Handler, job: Claimed) -> None:
        """Start an attempt on the loop; its slot is released when it ends."""
        loop = self._started()
        loop.call_soon_threadsafe(self._begin, handler, job)

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            # Two threads may meet here; the loser's loop runs what its thread brought, no more.
            loop = asyncio.new_event_loop()
            self._loop = loop
            Thread(target=self._serve, args=(loop,), name="loop", daemon=True).start()
        return self._loop

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        while True:
            try:
                loop.run_forever()
            except BaseException as error:  # noqa: BLE001 - a task of a handler's own called exit
                _log.error("loop.interrupted", exc_info=error)

    def _begin(self, handler: Handler, job: Claimed) -> None:
        task = asyncio.get_running_loop().create_task(
            self._attempt(handler, job), name=f"job {job.id}"
        )
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _attempt(self, handler: Handler, job: Claimed) -> None:
        timeout = execution.timeout_of(handler)
        context = Context(job, self._desk, timeout=timeout)
        seat = self._seats.add(Seat())
        task = asyncio.current_task()
        loop = asyncio.get_running_loop()
        if task is not None:
            seat.interrupt = lambda: _cancel(loop, task)
        seat.sit(job, context, timeout)
        self._places.start(job.place, seat.deadline)
        try:
            async with ThreadSensitiveContext() as own:
                outcome = await execution.run_async(handler, job, context)
                end_if_forked(self._pid)
                if own in SyncToAsync.context_to_thread_executor:
                    # The attempt's thread for database calls ends here; so must its connections.
                    await sync_to_async(connections.close_all)()
        except BaseException:  # noqa: BLE001 - cancelled between the handler's return and here
            run = Run(
                wait=max(0.0, seat.started - job.received), run=time.monotonic() - seat.started
            )
            outcome = decide_timed_out(job, seat.timeout, run, handler)
        counts = seat.rise()
        self._seats.remove(seat)
        if counts:
            self._put(outcome)
            self._measured(job.type, outcome.run)
            self._release()


def _cancel(loop: asyncio.AbstractEventLoop, task: asyncio.Task[None]) -> None:
    loop.call_soon_threadsafe(task.cancel)
