"""One client's side of the hub, whichever way it came in."""

from __future__ import annotations

import asyncio

from jobs.live.batches import Batch, Subscription
from jobs.live.gate import Person
from jobs.live.owed import Owed
from jobs.live.positions import Position


class Receiver:
    """The hub puts in, the client's own task takes out. All on one event loop, but for `end`."""

    def __init__(self, person: Person) -> None:
        self.person = person
        self.subscription = Subscription(may_see=person.may_see)
        self.owed = Owed()
        self.changed = asyncio.Event()
        self.is_joined = False
        """Whether what happens is added; not while a replay closes the gap before it."""
        self.ended_with: int | None = None
        self._loop = asyncio.get_running_loop()

    # Called by the hub

    def take(self, batch: Batch) -> None:
        if self.is_joined:
            self.owed.add(batch, self.subscription)
            self._wake_if_due()

    def take_stats(self, text: str) -> None:
        if self.subscription.wants_stats:
            self.owed.add_stats(text)
            self.changed.set()

    def take_feed(self, feed: str) -> None:
        self.owed.add_feed(feed)
        self.changed.set()

    def take_resync(self, position: Position, why: str) -> None:
        if self.subscription.topics:
            self.join(position)
            self.owed.add_resync(position, why)
            self.changed.set()

    # Called by the client's task

    def join(self, position: Position) -> None:
        """From there on, everything is added. The hub must not be further."""
        self.owed.restart(position)
        self.is_joined = True

    def part(self) -> None:
        self.is_joined = False

    # Called from any thread

    def end(self, code: int) -> None:
        try:
            self._loop.call_soon_threadsafe(self._end, code)
        except RuntimeError:  # the loop is closed, and the client with it
            return

    def _end(self, code: int) -> None:
        if self.ended_with is None:
            self.ended_with = code
        self.changed.set()

    def _wake_if_due(self) -> None:
        if self.owed.is_due:
            self.changed.set()
