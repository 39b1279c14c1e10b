"""What happened between two positions of the stream, and the part of it that one client is told.

A batch is shared by all clients, and so is the part for each set of topics: with two hundred equal
consoles the work is done once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from jobs.live.entries import Counts, Entry, Uncounted, add_counts
from jobs.live.positions import Position
from jobs.live.topics import RESET, Topic, keys
from jobs.publishing import PLENTIFUL

MOST_EVENTS = 50
MOST_BYTES = 64 * 1024
"""Of the events of one frame, as JSON."""


@dataclass(frozen=True, kw_only=True)
class Subscription:
    topics: frozenset[Topic] = frozenset()
    may_see: bool = False
    """Whether error texts are shown."""

    @property
    def wants_stats(self) -> bool:
        return any(topic.wants_stats for topic in self.topics)


@dataclass(frozen=True, kw_only=True)
class Part:
    """Events of a batch in order, and how many more there are of each name."""

    events: tuple[Entry, ...] = ()
    left_out: Counts = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.events or self.left_out)


NOTHING = Part()


@dataclass(kw_only=True, eq=False)
class Batch:
    """Everything after `prev` up to `to`."""

    prev: Position
    to: Position
    found: Sequence[Entry | Uncounted]
    _entries: list[Entry] = field(init=False)
    _uncounted: Counts = field(init=False)
    _names: set[str] = field(init=False)
    _by_key: dict[str, list[int]] | None = field(init=False, default=None)
    _by_topic: dict[Topic, list[int]] = field(init=False, default_factory=dict)
    _parts: dict[Subscription, Part] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._entries = [each for each in self.found if isinstance(each, Entry)]
        self._names = {entry.name for entry in self._entries}
        self._uncounted = {}
        for each in self.found:
            if isinstance(each, Uncounted):
                add_counts(self._uncounted, each.counts)

    def part_for(self, subscription: Subscription) -> Part:
        """What a client with these topics is told, within the limits of one frame."""
        part = self._parts.get(subscription)
        if part is None:
            left_out = self._left_out(subscription.topics)
            part = cut(self.matching(subscription.topics), left_out, may_see=subscription.may_see)
            self._parts[subscription] = part
        return part

    def after(self, position: Position) -> Batch:
        """The rest of it, for a client that has had the beginning."""
        if position <= self.prev:
            return self
        rest = [each for each in self.found if each.position > position]
        return Batch(prev=position, to=self.to, found=rest)

    def matching(self, topics: Iterable[Topic]) -> list[Entry]:
        """All events that any of the topics means, in order."""
        chosen = [self._of(topic) for topic in topics]
        if len(chosen) == 1:
            return [self._entries[index] for index in chosen[0]]
        return [self._entries[index] for index in sorted({i for each in chosen for i in each})]

    def pieces(self, subscription: Subscription) -> Iterator[tuple[Position, Part]]:
        """All of it as parts that leave nothing out but what never came, each with its end."""
        events = self.matching(subscription.topics)
        left_out = self._left_out(subscription.topics)
        begin = 0
        while True:
            end = _fitting(events, begin, may_see=subscription.may_see)
            to = events[end - 1].position if end < len(events) else self.to
            yield to, Part(events=tuple(events[begin:end]), left_out=left_out)
            if end == len(events):
                return
            begin, left_out = end, {}

    def _of(self, topic: Topic) -> list[int]:
        found = self._by_topic.get(topic)
        if found is None:
            names = {name for name in self._names if topic.could_be(name)}
            if not names:
                found = []
            elif topic.kind.key is None:
                found = _indexes(self._entries, lambda e: e.name in names and topic.matches(e))
            else:
                meant = sorted({*self._keyed(topic.text), *self._keyed(RESET)})
                found = [index for index in meant if self._entries[index].name in names]
            self._by_topic[topic] = found
        return found

    def _keyed(self, text: str) -> list[int]:
        if self._by_key is None:
            self._by_key = {}
            for index, entry in enumerate(self._entries):
                for key in keys(entry):
                    self._by_key.setdefault(key, []).append(index)
        return self._by_key.get(text, [])

    def _left_out(self, topics: frozenset[Topic]) -> Counts:
        return {
            name: count
            for name, count in self._uncounted.items()
            if any(topic.could_be(name) for topic in topics)
        }


def cut(events: Sequence[Entry], left_out: Counts, *, may_see: bool) -> Part:
    """At most MOST_EVENTS and MOST_BYTES of them; the rest is counted.

    Rare names are kept before plentiful ones, and newer events before older.
    """
    kept: list[int] = []
    size = 0
    for index in _by_worth(events):
        size += len(events[index].text(may_see=may_see)) + 1
        if size > MOST_BYTES:
            break
        kept.append(index)
        if len(kept) == MOST_EVENTS:
            break
    if len(kept) == len(events):
        return Part(events=tuple(events), left_out=left_out)
    chosen = set(kept)
    counts = dict(left_out)
    for index, entry in enumerate(events):
        if index not in chosen:
            add_counts(counts, {entry.name: 1})
    return Part(events=tuple(events[index] for index in sorted(kept)), left_out=counts)


def merge(first: Part, second: Part, *, may_see: bool) -> Part:
    """Both as one part, for a client that was not sent the first in time."""
    if not first:
        return second
    if not second:
        return first
    counts = dict(first.left_out)
    add_counts(counts, second.left_out)
    return cut((*first.events, *second.events), counts, may_see=may_see)


def _by_worth(events: Sequence[Entry]) -> Iterator[int]:
    newest_first = range(len(events) - 1, -1, -1)
    yield from (index for index in newest_first if events[index].name not in PLENTIFUL)
    yield from (index for index in newest_first if events[index].name in PLENTIFUL)


def _fitting(events: Sequence[Entry], begin: int, *, may_see: bool) -> int:
    """Where a frame that begins with `begin` ends; it holds at least one."""
    size = 0
    end = begin
    while end < len(events) and end - begin < MOST_EVENTS:
        size += len(events[end].text(may_see=may_see)) + 1
        if size > MOST_BYTES and end > begin:
            break
        end += 1
    return end


def _indexes(entries: Sequence[Entry], test: Callable[[Entry], bool]) -> list[int]:
    return [index for index, entry in enumerate(entries) if test(entry)]
