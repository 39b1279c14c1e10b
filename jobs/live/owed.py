"""What one client is to be told next: everything since it was last told, in bounded space."""

from __future__ import annotations

from dataclasses import dataclass

from jobs.live.batches import NOTHING, Batch, Part, Subscription, merge
from jobs.live.positions import START, Position

RESYNC_WITHIN = 0.5


@dataclass(frozen=True, kw_only=True)
class Frame:
    prev: Position
    to: Position
    part: Part
    stats: str | None = None


@dataclass(frozen=True, kw_only=True)
class Resync:
    to: Position
    why: str
    within: float = RESYNC_WITHIN


@dataclass(frozen=True, kw_only=True)
class FeedIs:
    feed: str


type Message = Frame | Resync | FeedIs


class Owed:
    """The chain of one client: `told` is the end of what it has, `to` of what is known.

    What must always be true: each frame begins where the last one, or a resync, ended.
    """

    def __init__(self, position: Position = START) -> None:
        self.told = position
        self.to = position
        self._part: Part = NOTHING
        self._stats: str | None = None
        self._resync: str | None = None
        self._feed: str | None = None

    def restart(self, position: Position) -> None:
        """The chain begins anew there, and nothing is owed of what was before."""
        self.told = self.to = position
        self._part = NOTHING
        self._resync = None

    def add(self, batch: Batch, subscription: Subscription) -> None:
        if batch.to <= self.to:
            return
        part = batch.after(self.to).part_for(subscription)
        self.to = batch.to
        self._part = merge(self._part, part, may_see=subscription.may_see)

    def add_stats(self, text: str) -> None:
        self._stats = text

    def add_resync(self, position: Position, why: str) -> None:
        """Whatever was owed is not told any more."""
        self.restart(position)
        self._resync = why

    def add_feed(self, feed: str) -> None:
        self._feed = feed

    @property
    def is_due(self) -> bool:
        """Whether there is anything to say."""
        return bool(self._feed or self._resync or self._stats or self._part)

    def take(self) -> Message | None:
        """What to send now. The feed first, then what makes the rest readable."""
        if self._feed is not None:
            feed, self._feed = self._feed, None
            return FeedIs(feed=feed)
        if self._resync is not None:
            why, self._resync = self._resync, None
            return Resync(to=self.told, why=why)
        if self.is_due:
            return self.take_frame()
        return None

    def take_frame(self) -> Frame:
        """A frame in any case, if only to say where the stream stands."""
        frame = Frame(prev=self.told, to=self.to, part=self._part, stats=self._stats)
        self.told, self._part, self._stats = self.to, NOTHING, None
        return frame
