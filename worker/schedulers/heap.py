"""The heap scheduler: a lane is a binary min-heap with a sorted run beside it.

Thread-safety: none, see `base`.

Jobs are claimed oldest first, so nearly every item belongs behind all others of its lane. Such an
item goes to the end of the run, and is taken from its front, at O(1); only one that comes out of
turn goes through the heap, at O(log n). The first of the lane is the lesser of the two firsts.

Invariants:

1. ``_run`` is ascending; ``_late`` is a heap; no item stands twice, in either or both.
2. ``_dead`` holds the items that were removed and still stand in the run or the heap. They are
   skipped when they come to the front, so the first is never dead.
3. There are at most as many dead items as live ones, or ``FEW_DEAD``: beyond that they are swept
   out, which costs each removal O(log n) on average.
"""

from collections import deque
from heapq import heapify, heappop, heappush

from worker.schedulers.base import END, Entry, Item, LaneScheduler

FEW_DEAD = 64

# One sort of the whole lane is cheaper than single steps on the heap if they touch more than
# about one item in so many.
SORT_ONE_IN = 8


class HeapLane:
    __slots__ = ("_dead", "_late", "_run", "first", "priority")

    def __init__(self, priority: int) -> None:
        self.priority = priority
        self.first = END
        self._run: deque[Item] = deque()
        self._late: list[Item] = []
        self._dead: set[Item] = set()

    def push(self, item: Item) -> bool:
        run, dead = self._run, self._dead
        if run and not dead and item > run[-1]:
            run.append(item)
            return False
        if dead and item in dead:
            dead.remove(item)
        elif run or self._late:
            heappush(self._late, item)
        else:
            run.append(item)
        if item < self.first:
            self.first = item
            return True
        return False

    def push_many(self, items: list[Item]) -> None:
        if self._dead:
            self._sort()
        run = self._run
        if not run or items[0] > run[-1]:
            run.extend(items)
        else:
            self._late += items
            if len(items) * SORT_ONE_IN > len(self):
                self._sort()
            else:
                heapify(self._late)
        self._find_first()

    def shift(self) -> Item:
        item = self.first
        run = self._run
        if self._late or self._dead:
            if run and run[0] is item:
                run.popleft()
            else:
                heappop(self._late)
            self._find_first()
        else:
            run.popleft()
            self.first = run[0] if run else END
        return item

    def take(self, n: int) -> list[Item]:
        n = min(n, len(self))
        if (self._late or self._dead) and n * SORT_ONE_IN > len(self):
            self._sort()
        if self._late or self._dead:
            return [self.shift() for _ in range(n)]
        run = self._run
        if n == len(run):
            items = list(run)
            run.clear()
        else:
            items = [run.popleft() for _ in range(n)]
        self._find_first()
        return items

    def give_back(self, items: list[Item]) -> None:
        self._run.extendleft(reversed(items))
        self.first = items[0]

    def remove(self, item: Item) -> None:
        self._dead.add(item)
        self._find_first()

    def __len__(self) -> int:
        return len(self._run) + len(self._late) - len(self._dead)

    def check(self) -> list[Item]:
        run, late, dead = self._run, self._late, self._dead
        items = [*run, *late]
        assert list(run) == sorted(run)
        assert all(late[(i - 1) // 2] < late[i] for i in range(1, len(late)))
        assert len(set(items)) == len(items)
        assert dead <= set(items)
        assert self.first not in dead
        assert len(dead) <= max(len(self), FEW_DEAD)
        return sorted(set(items) - dead)

    def _sort(self) -> None:
        """Make one run of all that is alive."""
        dead = self._dead
        items = [*self._run, *self._late]
        if dead:
            items = [item for item in items if item not in dead]
        items.sort()
        self._run = deque(items)
        self._late.clear()
        dead.clear()

    def _find_first(self) -> None:
        """Set ``first``, after dropping the dead items before it, or all if they are many."""
        if len(self._dead) > FEW_DEAD and len(self._dead) > len(self):
            self._sort()
        run, late, dead = self._run, self._late, self._dead
        while True:
            first = run[0] if run else END
            if late and late[0] < first:
                first = late[0]
            if not dead or first not in dead:
                self.first = first
                return
            dead.remove(first)
            if run and run[0] is first:
                run.popleft()
            else:
                heappop(late)


class HeapScheduler[E: Entry](LaneScheduler[HeapLane, E]):
    """Holds the jobs in heaps. Push and pop O(1) for jobs that come in turn, else O(log n)."""

    __slots__ = ()

    def new_lane(self, priority: int) -> HeapLane:
        return HeapLane(priority)
