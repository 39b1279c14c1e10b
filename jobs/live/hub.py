"""The one reader of the stream in a web process, and its clients.

What must always be true:
1. Without a client nothing runs here: no task, no connection to Redis.
2. `position` is the end of what has been handed on. A client that joins there misses nothing.
3. Handing on never waits for a client: it adds to what the client is owed, in bounded space.
4. After Redis was away every client is told to read anew, since events may have been dropped
   anywhere meanwhile.
"""

from __future__ import annotations

import asyncio
import random
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache
from typing import Any

import redis.asyncio
import structlog
from django.db import close_old_connections

from jobs import conf
from jobs.live import sample, stream
from jobs.live.batches import Batch
from jobs.live.entries import OTHER, Uncounted
from jobs.live.positions import START, Position, write
from jobs.live.receiver import Receiver
from jobs.publishing import STREAM

TICK_SECONDS = 0.2
"""The time from one batch to the next, at least."""
LATE_MILLISECONDS = 1_000
"""A reader that is further behind leaves out what it has not read: a flood must not make it late."""
BLOCK_SECONDS = 1.0
"""The longest wait for an entry; so much later than an answer is due an outage is noticed."""
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 1.0
REST_SECONDS = 5.0
LOOK_SECONDS = 0.25
"""How often a process looks for new stats."""
THREADS = 4
"""For questions to the database and short ones to Redis."""

LIVE = "live"
AWAY = "away"

_log = structlog.get_logger("coppice.live")


class Hub:
    """Of one event loop. See `hub()`."""

    def __init__(self) -> None:
        self.position: Position = START
        self.feed = AWAY
        self.receivers: set[Receiver] = set()
        self._tasks: tuple[asyncio.Task[None], ...] = ()
        self._ready: asyncio.Event = asyncio.Event()
        self._stats: str | None = None

    @property
    def is_running(self) -> bool:
        return bool(self._tasks)

    async def enter(self, receiver: Receiver) -> None:
        """Returns when it is known where the stream stands, or that Redis is away."""
        self.receivers.add(receiver)
        if not self._tasks:
            self._ready = asyncio.Event()
            self._tasks = (
                asyncio.create_task(self._read(), name="coppice-live-reader"),
                asyncio.create_task(self._count(), name="coppice-live-stats"),
            )
        await self._ready.wait()
        if self.feed == AWAY:
            receiver.take_feed(AWAY)

    def leave(self, receiver: Receiver) -> None:
        """The last one to leave turns off the light."""
        self.receivers.discard(receiver)
        if not self.receivers:
            for task in self._tasks:
                task.cancel()
            self._tasks = ()
            self.feed = AWAY
            self._stats = None

    def show_stats(self, receiver: Receiver) -> None:
        """The newest that are known, for one that has just come."""
        if self._stats is not None:
            receiver.take_stats(self._stats)

    # Reading

    async def _read(self) -> None:
        failures = 0
        while True:
            client = stream.blocking_client(block_seconds=BLOCK_SECONDS)
            try:
                self.position = await in_thread(stream.end, stream.client())
                await client.ping()
                self._back(failures)
                failures = 0
                await self._hand_on(client)
            except Exception as error:  # noqa: BLE001 - the reader must outlive whatever it was
                failures += 1
                self._gone(error, failures)
            finally:
                with suppress(*stream.AWAY):
                    await client.aclose()
            longest = min(FIRST_PAUSE_SECONDS * 2**failures, LONGEST_PAUSE_SECONDS)
            await asyncio.sleep(longest * (0.5 + random.random() / 2))

    async def _hand_on(self, client: redis.asyncio.Redis) -> None:
        """Batch after batch: the first event after a pause goes out at once."""
        clock = asyncio.get_running_loop().time
        next_at = clock()
        while True:
            entries = await _after(client, self.position, block=BLOCK_SECONDS)
            if not entries:
                continue
            if (wait := next_at - clock()) > 0 and len(entries) < stream.COUNT:
                await asyncio.sleep(wait)
                entries += await _after(client, stream.position_of(entries[-1][0]))
            next_at = clock() + TICK_SECONDS
            to = stream.position_of(entries[-1][0])
            found = stream.decode(entries)
            if len(entries) >= stream.COUNT:
                oldest, newest = await in_thread(stream.extent, stream.client())
                if oldest > self.position:  # what was not read in time is gone
                    self.position = newest
                    self._resync("behind")
                    continue
                if newest[0] - to[0] > LATE_MILLISECONDS:
                    found.append(Uncounted(newest, {OTHER: 1}))
                    to = newest
            self._tell(Batch(prev=self.position, to=to, found=found))

    def _tell(self, batch: Batch) -> None:
        self.position = batch.to
        for receiver in self.receivers:
            receiver.take(batch)

    def _back(self, failures: int) -> None:
        self.feed = LIVE
        if failures:
            _log.info("the live feed can be read again", failed_tries=failures)
        if self._ready.is_set():
            for receiver in self.receivers:
                receiver.take_feed(LIVE)
            self._resync("outage")
        self._ready.set()

    def _gone(self, error: Exception, failures: int) -> None:
        if failures == 1:
            is_outage = isinstance(error, stream.AWAY)
            name = type(error).__name__
            _log.warning("the live feed cannot be read", error=name, exc_info=not is_outage)
        if self.feed == LIVE or not self._ready.is_set():
            self.feed = AWAY
            for receiver in self.receivers:
                receiver.take_feed(AWAY)
        self._ready.set()

    def _resync(self, why: str) -> None:
        for receiver in self.receivers:
            receiver.take_resync(self.position, why)

    # Counting

    async def _count(self) -> None:
        while True:
            if not any(receiver.subscription.wants_stats for receiver in self.receivers):
                self._stats = None
            elif self.feed == LIVE:
                try:
                    self._show(await in_thread(sample.shared, stream.client()))
                except stream.AWAY:
                    pass  # the reader says so
                except Exception:  # noqa: BLE001 - numbers come again, whatever it was
                    _log.exception("the stats of the live feed failed")
                    await asyncio.sleep(REST_SECONDS)
            await asyncio.sleep(LOOK_SECONDS)

    def _show(self, text: str | None) -> None:
        if text is not None and text != self._stats:
            self._stats = text
            for receiver in self.receivers:
                receiver.take_stats(text)


async def _after(
    client: redis.asyncio.Redis, position: Position, *, block: float = 0.0
) -> list[Any]:
    """Entries after a position, waiting for the first one if told to."""
    answer: Any = await client.xread(
        {conf.key(STREAM): write(position)},
        count=stream.COUNT,
        block=int(block * 1000) if block else None,
    )
    return stream.entries_of(answer)


_hubs: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Hub] = weakref.WeakKeyDictionary()


def hub() -> Hub:
    """The hub of the running event loop."""
    return _hubs.setdefault(asyncio.get_running_loop(), Hub())


# Threads


@lru_cache(maxsize=1)
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, thread_name_prefix="coppice-live")


async def in_thread[**P, T](call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run what would hold the event loop up, with a database connection if it needs one."""
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_threads(), lambda: _tidily(call, *args, **kwargs))


def _tidily[**P, T](call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    close_old_connections()
    try:
        return call(*args, **kwargs)
    finally:
        close_old_connections()
