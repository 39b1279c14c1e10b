"""What a scheduler is, and the half of it that the heap and the skip list share.

A scheduler holds the jobs that this worker has claimed and hands them out in the one order of
`jobs.order`: ``(score at the moment of the pop, due_at, id)``.

Thread-safety: none. One thread owns a scheduler, or its callers hold a lock.

Scores change while jobs wait, so no structure sorted by score stays sorted. But within one
priority the older job is never worse. So there is one **lane** per priority, sorted by
``(due_at, id)``, which never changes, and the next job is the best of the lanes' firsts.

Invariants:

1. ``_known`` maps the id of every entry held to the entry; each id stands in exactly one lane, the
   one of its priority, as the item ``(due_at, id)``. An entry must not change while it is held.
2. ``lane.first`` is the lane's smallest item, or ``END`` if the lane is empty. It is never one that
   was discarded.
3. If ``_since <= now < _until`` and the first of ``_best`` is due before ``_stay``, then ``_best``
   is the lane to pop from. That spares the hot loop every score: ``_since`` is the moment of the
   last comparison, ``_until`` the first at which a first of another lane may get a better score,
   and ``_stay`` bounds the items of ``_best`` that surely beat the others. Anything that changes
   the first of another lane forgets the comparison.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from math import inf
from typing import Protocol

from jobs.order import AGING_MINUTES, AGING_STEP, no_worse_before, score, steady_until

type Item = tuple[float, str]

END: Item = (inf, "")
"""Sorts behind every item, since a due time is finite."""


class Entry(Protocol):
    """A job as schedulers see it."""

    @property
    def id(self) -> str: ...

    @property
    def priority(self) -> int: ...

    @property
    def due_at(self) -> float: ...


class Scheduler[E: Entry](Protocol):
    """Claimed jobs in order. ``now`` is the database's clock in epoch seconds."""

    def push(self, entry: E) -> bool:
        """Take an entry in. False, and nothing changes, if its id is held already."""

    def push_many(self, entries: Iterable[E]) -> int:
        """Take entries in and say how many were new; of two with one id the first counts."""

    def pop(self, now: float) -> E | None:
        """Give out the first entry, None if there is none."""

    def pop_many(self, n: int, now: float) -> list[E]:
        """Give out the first ``n`` entries, or all if there are fewer, as ``n`` pops would."""

    def peek(self, now: float) -> E | None:
        """The entry that `pop` would give out."""

    def discard(self, job_id: str) -> E | None:
        """Take one entry out, wherever it stands. None if it is not held."""

    def __len__(self) -> int: ...

    def __contains__(self, job_id: object) -> bool: ...


class Lane(Protocol):
    """The items of one priority, each there at most once."""

    priority: int
    first: Item

    def push(self, item: Item) -> bool:
        """Put in; true if this is the new first."""

    def push_many(self, items: list[Item]) -> None:
        """Put in a sorted list, not empty."""

    def shift(self) -> Item:
        """Take out the first; the lane is not empty."""

    def take(self, n: int) -> list[Item]:
        """Take out the first ``n``, in order, or all."""

    def give_back(self, items: list[Item]) -> None:
        """Put a sorted list back that was taken out, all before what is left."""

    def remove(self, item: Item) -> None:
        """Take out an item that is there."""

    def __len__(self) -> int: ...

    def check(self) -> list[Item]:
        """Assert the lane's invariants; the items in order."""


class LaneScheduler[L: Lane, E: Entry]:
    """A `Scheduler` over lanes; a subclass says what a lane is."""

    __slots__ = (
        "_aging_minutes",
        "_aging_step",
        "_best",
        "_known",
        "_lanes",
        "_since",
        "_stay",
        "_until",
    )

    def __init__(
        self, *, aging_minutes: float = AGING_MINUTES, aging_step: float = AGING_STEP
    ) -> None:
        self._aging_minutes = aging_minutes
        self._aging_step = aging_step
        self._known: dict[str, E] = {}
        self._lanes: dict[int, L] = {}
        self._best: L | None = None
        self._since = inf
        self._until = -inf
        self._stay = -inf

    def new_lane(self, priority: int) -> L:
        raise NotImplementedError

    def push(self, entry: E) -> bool:
        job_id = entry.id
        known = self._known
        if job_id in known:
            return False
        known[job_id] = entry
        try:
            lane = self._lanes[entry.priority]
        except KeyError:
            lane = self._open_lane(entry.priority)
        if lane.push((entry.due_at, job_id)) and lane is not self._best:
            self._until = -inf
        return True

    def push_many(self, entries: Iterable[E]) -> int:
        known = self._known
        # Backwards, so that of two entries with one id the first stays.
        fresh = {entry.id: entry for entry in reversed(list(entries))}
        for job_id in known.keys() & fresh.keys():
            del fresh[job_id]
        items_by_priority: defaultdict[int, list[Item]] = defaultdict(list)
        for job_id, entry in fresh.items():
            items_by_priority[entry.priority].append((entry.due_at, job_id))
        for priority, items in items_by_priority.items():
            items.sort()
            if priority not in self._lanes:
                self._open_lane(priority)
            self._lanes[priority].push_many(items)
        known.update(fresh)
        self._until = -inf
        return len(fresh)

    def pop(self, now: float) -> E | None:
        lane = self._best
        if lane is None or not self._since <= now < self._until or not lane.first[0] < self._stay:
            lane = self._compare(now)
            if lane is None:
                return None
        return self._known.pop(lane.shift()[1])

    def pop_many(self, n: int, now: float) -> list[E]:
        lanes = [lane for lane in self._lanes.values() if lane.first is not END]
        if n <= 0 or not lanes:
            return []
        self._until = -inf
        items = lanes[0].take(n) if len(lanes) == 1 else self._take_merged(lanes, n, now)
        pop_entry = self._known.pop
        return [pop_entry(job_id) for _, job_id in items]

    def peek(self, now: float) -> E | None:
        lane = self._compare(now)
        return None if lane is None else self._known[lane.first[1]]

    def discard(self, job_id: str) -> E | None:
        entry = self._known.pop(job_id, None)
        if entry is not None:
            self._lanes[entry.priority].remove((entry.due_at, job_id))
            self._until = -inf
        return entry

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, job_id: object) -> bool:
        return job_id in self._known

    def check(self) -> None:
        """Assert all invariants. Slow: for tests."""
        held: set[tuple[int, float, str]] = set()
        for priority, lane in self._lanes.items():
            items = lane.check()
            assert lane.priority == priority
            assert lane.first == (items[0] if items else END)
            assert len(lane) == len(items)
            assert items == sorted(set(items))
            held.update((priority, *item) for item in items)
        known = {(entry.priority, entry.due_at, job_id) for job_id, entry in self._known.items()}
        assert held == known
        assert len(held) == len(self._known)

    def _open_lane(self, priority: int) -> L:
        lane = self._lanes[priority] = self.new_lane(priority)
        return lane

    def _compare(self, now: float) -> L | None:
        """Find the lane to pop from and remember for how long the answer holds."""
        minutes, step = self._aging_minutes, self._aging_step
        best: L | None = None
        best_score = rival_score = inf
        rival_first = END
        until = inf
        for lane in self._lanes.values():
            first = lane.first
            if first is END:
                continue
            lane_score = score(lane.priority, now - first[0], minutes, step)
            if best is None or (lane_score, first) < (best_score, best.first):
                if best is not None:
                    rival_score, rival_first = best_score, best.first
                    until = min(until, self._steady_until(best, now))
                best, best_score = lane, lane_score
            else:
                rival_score, rival_first = min((rival_score, rival_first), (lane_score, first))
                until = min(until, self._steady_until(lane, now))
        if rival_first is END:
            self._stay = inf
        elif best is not None:
            stay = no_worse_before(best.priority, best.first[0], now, minutes, step)
            self._stay = min(stay, rival_first[0]) if rival_score == best_score else stay
        self._best = best
        self._since = now
        self._until = until
        return best

    def _steady_until(self, lane: L, now: float) -> float:
        return steady_until(
            lane.priority, lane.first[0], now, self._aging_minutes, self._aging_step
        )

    def _take_merged(self, lanes: list[L], n: int, now: float) -> list[Item]:
        """Take the first ``n`` items of several lanes.

        1. Take up to ``n`` from each lane: more is never needed.
        2. Scores rise along a lane in few steps, so cut what was taken at those steps.
        3. Join the pieces by score; pieces of one score are sorted runs, which the sort merges.
        4. Give back what is left over.
        """
        taken = [(lane, lane.take(n), self._scorer(lane.priority, now)) for lane in lanes]
        pieces: defaultdict[float, list[list[Item]]] = defaultdict(list)
        for _, items, score_of in taken:
            for piece_score, piece in _cut_by_score(items, score_of):
                pieces[piece_score].append(piece)
        merged: list[Item] = []
        last_score = 0.0
        for last_score in sorted(pieces):
            group = pieces[last_score]
            merged += group[0] if len(group) == 1 else sorted(chain.from_iterable(group))
            if len(merged) >= n:
                break
        del merged[n:]
        last = (last_score, merged[-1])
        for lane, items, score_of in taken:
            if (score_of(items[-1]), items[-1]) > last:
                kept = bisect_right(items, last, key=lambda item: (score_of(item), item))
                lane.give_back(items[kept:])
        return merged

    def _scorer(self, priority: int, now: float) -> Callable[[Item], float]:
        minutes, step = self._aging_minutes, self._aging_step
        return lambda item: score(priority, now - item[0], minutes, step)


def _cut_by_score(
    items: list[Item], score_of: Callable[[Item], float]
) -> Iterator[tuple[float, list[Item]]]:
    """Cut items of one lane, in order, into pieces of one score each."""
    worst = score_of(items[-1])
    start = 0
    while (piece_score := score_of(items[start])) < worst:
        end = bisect_right(items, piece_score, lo=start, key=score_of)
        yield piece_score, items[start:end]
        start = end
    yield worst, items[start:]
