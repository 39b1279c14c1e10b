"""Which lanes to look into, and where to begin in each. Owned by the feeder's thread."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jobs.claim import Lane, Mark
from jobs.claimed import Claimed
from jobs.registry import Handler

PRIORITIES = (1, 2, 3)
REMEMBERED_LOOKS = 600
"""For so many looks, ten minutes as a rule, a queue is remembered that holds no work any more."""


class LaneBook:
    """The lanes of the types that this worker knows, in the queues that it serves.

    A lane is hot when its handler uses that queue by default, or when jobs came from it. A busy
    feeder looks into the hot ones at each claim, and into all of them about once a second. Queues
    may come and go, one for each customer or batch: those that hold no work for long are forgotten,
    or each claim would look into every queue that there ever was.
    """

    def __init__(self, handlers: Iterable[Handler], queues: Sequence[str] = ()) -> None:
        self._handlers = list(handlers)
        self._only = frozenset(queues)
        self._own: set[str] = set(queues)
        self._seen: dict[str, int] = {}
        """Other queues, each with the number of the look that found work there last."""
        self._looks = 0
        self._marks: dict[Lane, Mark] = {}
        self._hot: dict[Lane, None] = {}
        for handler in self._handlers:
            if not self._only or handler.queue in self._only:
                self._own.add(handler.queue)
                for priority in PRIORITIES:
                    self._hot[Lane(handler.queue, handler.type, priority)] = None

    @property
    def serves_all_queues(self) -> bool:
        return not self._only

    @property
    def marks(self) -> dict[Lane, Mark]:
        return self._marks

    def hot(self) -> list[Lane]:
        return list(self._hot)

    def all(self) -> list[Lane]:
        return [
            Lane(queue, handler.type, priority)
            for queue in sorted({*self._own, *self._seen})
            for handler in self._handlers
            for priority in PRIORITIES
        ]

    def saw_queues(self, queues: Iterable[str]) -> None:
        """Note all queues that hold work; a worker for all queues serves each that it hears of."""
        if not self.serves_all_queues:
            return
        self._looks += 1
        self._seen |= dict.fromkeys(queues, self._looks)
        oldest = self._looks - REMEMBERED_LOOKS
        gone = {queue for queue, look in self._seen.items() if look < oldest}
        if gone:
            self._seen = {queue: look for queue, look in self._seen.items() if queue not in gone}
            gone -= self._own
            self._hot = {lane: None for lane in self._hot if lane.queue not in gone}
            self._marks = {lane: m for lane, m in self._marks.items() if lane.queue not in gone}

    def took(self, jobs: Iterable[Claimed]) -> None:
        """Move the marks behind the jobs just claimed."""
        last: dict[tuple[str, str, int], tuple[float, str]] = {}
        for job in jobs:
            key = (job.queue, job.type, job.priority)
            at = (job.due_at, job.id)
            if key not in last or last[key] < at:
                last[key] = at
        for key, at in last.items():
            lane = Lane(*key)
            self._hot[lane] = None
            mark = self._marks.get(lane)
            if mark is None or mark < at:
                self._marks[lane] = Mark(*at)
