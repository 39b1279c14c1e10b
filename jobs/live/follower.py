"""One client followed through its time: what it is owed is told, gaps are closed, leave is taken.

`Follower.run` is the client's one task, and the only place that sends. How things are said, and
whether there is room to say them, is what a socket and a stream of server-sent events differ in.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace

import structlog
from django.http import HttpRequest

from jobs import conf
from jobs.live import connections, gate, stream
from jobs.live.batches import Batch
from jobs.live.gate import Person, Refused
from jobs.live.hub import AWAY, hub, in_thread
from jobs.live.owed import Frame, Message
from jobs.live.positions import Position
from jobs.live.receiver import Receiver

KEEP_ALIVE_SECONDS = 15.0

_log = structlog.get_logger("coppice.live")


class Follower:
    is_socket = False

    def __init__(self, request: HttpRequest, person: Person) -> None:
        self.receiver = Receiver(person)
        self.replay_after: Position | None = None
        """Where the client wants to be told from; None: it is up to date."""
        self._request = request
        self._hub = hub()
        self._clock = asyncio.get_running_loop().time
        self._said_at = self._clock()
        self._set_recheck()

    async def tell(self, message: Message) -> None:
        """Say it, in whatever form."""
        raise NotImplementedError

    def has_room(self) -> bool:
        """Whether something may be said now."""
        raise NotImplementedError

    async def before_telling(self) -> None:
        """What is to be done at each round first."""

    def wakes_at(self) -> float:
        """When there is something to do even if nothing happens."""
        return float("inf")

    # The client's task

    async def run(self) -> None:
        """Until the client is ended. The caller closes."""
        owed = self.receiver.owed
        while await self._round():
            if self.replay_after is not None:
                await self._replay()
                continue
            while self.has_room() and (message := owed.take()) is not None:
                await self._say(message)
            if self.has_room() and self.receiver.is_joined and self._is_silent():
                await self._say(owed.take_frame())

    async def _round(self) -> bool:
        """Wait for something to do. False: it is over."""
        if self.replay_after is None:
            await self._sleep()
        if self.receiver.ended_with is None:
            await self._recheck()
        await self.before_telling()
        return self.receiver.ended_with is None

    async def _sleep(self) -> None:
        due = min(self._said_at + KEEP_ALIVE_SECONDS, self._recheck_at, self.wakes_at())
        try:
            async with asyncio.timeout_at(due):
                await self.receiver.changed.wait()
        except TimeoutError:
            pass
        self.receiver.changed.clear()

    def _is_silent(self) -> bool:
        return self._clock() >= self._said_at + KEEP_ALIVE_SECONDS

    async def _say(self, message: Message) -> None:
        self._said_at = self._clock()
        await self.tell(message)

    # Whether it may go on

    def _set_recheck(self) -> None:
        seconds = conf.get().live_recheck_seconds
        # Those who came together are not asked about together.
        self._recheck_at = self._clock() + seconds * (0.9 + random.random() / 10)

    async def _recheck(self) -> None:
        if self._clock() < self._recheck_at:
            return
        self._set_recheck()
        try:
            person = await in_thread(gate.admit, self._request, is_socket=self.is_socket)
        except Refused as refused:
            if refused.status == 503:
                _log.warning("a live connection could not be checked")
                return
            ended = refused.status == 401
            code = connections.SESSION_ENDED if ended else connections.PERMISSION_GONE
            self.receiver.end(code)
        else:
            self.receiver.person = person
            self.receiver.subscription = replace(self.receiver.subscription, may_see=person.may_see)

    # Closing a gap

    async def _replay(self) -> None:
        """Tell everything since `replay_after`, then follow on. Where that cannot be: a resync.

        The hub goes on meanwhile, so the stream is read again until it has been read as far as the
        hub is. What is found is told whole, as far as the client leaves room.
        """
        after, self.replay_after = self.replay_after, None
        assert after is not None
        receiver = self.receiver
        receiver.part()
        receiver.owed.restart(after)
        left = stream.MOST_REPLAYED
        while self._hub.feed != AWAY:  # else a resync comes when it is back
            told = receiver.owed.told
            try:
                gap = await in_thread(stream.replay, stream.client(), told, left)
            except stream.TooOld:
                receiver.take_resync(self._hub.position, "too_old")
                return
            except stream.AWAY:
                receiver.take_resync(self._hub.position, "outage")
                return
            if receiver.is_joined:  # by a resync
                return
            left -= len(gap.found)
            if not await self._tell_all(Batch(prev=told, to=gap.to, found=gap.found)):
                return
            if gap.to >= self._hub.position:
                receiver.join(gap.to)
                return

    async def _tell_all(self, batch: Batch) -> bool:
        """False: it came to nothing, since something else came between."""
        receiver = self.receiver
        for to, part in batch.pieces(receiver.subscription):
            while not self.has_room():
                if not await self._round():
                    return False
                if receiver.is_joined or self.replay_after is not None:
                    return False
            frame = Frame(prev=receiver.owed.told, to=to, part=part)
            receiver.owed.restart(to)
            await self._say(frame)
        return True
