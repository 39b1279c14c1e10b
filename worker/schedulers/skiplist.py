"""The skip list scheduler: a lane is a skip list whose nodes hold short sorted lists.

Thread-safety: none, see `base`.

A skip list is a sorted linked list with express lanes: a node of height h has a forward pointer on
each of the levels 0 to h - 1, and half of the nodes of one level reach the next. A search starts at
the top of the head and walks right as long as it may, then down. Plain nodes would cost an object
and a step in Python for each item; nodes of up to ``CAPACITY`` items leave most of the work to
`bisect` and to slices.

Invariants:

1. On level 0 all nodes are linked, in ascending order, from ``_head.forward[0]`` to ``_TAIL``; on
   each higher level a part of those below, in the same order.
2. A node holds 1 to ``CAPACITY`` items in ascending order, all below the first item of the next
   node. Only the head and ``_TAIL`` stand for no items.
3. ``_last[level]`` is the last node of each level, the head if there is none. So appending at the
   end needs no search.
4. There is nothing dead: removal unlinks at once.
"""

from bisect import bisect_left, insort
from itertools import pairwise
from random import Random

from jobs.order import AGING_MINUTES, AGING_STEP
from worker.schedulers.base import END, Entry, Item, LaneScheduler

CAPACITY = 128
MAX_HEIGHT = 20

# A batch that is at least one in so many of the lane is sorted into it as a whole, and the nodes
# are made anew; a smaller one is inserted item by item.
REBUILD_ONE_IN = 8


class _Node:
    __slots__ = ("forward", "items")

    def __init__(self, items: list[Item], forward: "list[_Node]") -> None:
        self.items = items
        self.forward = forward


# Its item sorts behind all others, so no walk needs to ask whether the list has ended.
_TAIL = _Node([END], [])


class SkipListLane:
    __slots__ = ("_head", "_last", "_length", "_random", "first", "priority")

    def __init__(self, priority: int, random: Random) -> None:
        self.priority = priority
        self.first = END
        self._random = random
        self._clear()

    def push(self, item: Item) -> bool:
        self._length += 1
        last = self._last[0]
        if last is self._head:
            self._append([item])
        elif item > last.items[-1]:
            if len(last.items) < CAPACITY:
                last.items.append(item)
            else:
                self._append([item])
        else:
            self._insert(item)
        if item < self.first:
            self.first = item
            return True
        return False

    def push_many(self, items: list[Item]) -> None:
        if self._length and items[0] < self._last[0].items[-1]:
            if len(items) * REBUILD_ONE_IN < self._length:
                for item in items:
                    self.push(item)
                return
            items = sorted(self.take(self._length) + items)
        self._length += len(items)
        for start in range(0, len(items), CAPACITY):
            self._append(items[start : start + CAPACITY])
        self.first = self._head.forward[0].items[0]

    def shift(self) -> Item:
        self._length -= 1
        node = self._head.forward[0]
        items = node.items
        item = items.pop(0)
        if items:
            self.first = items[0]
        else:
            self._drop_first_node()
        return item

    def take(self, n: int) -> list[Item]:
        taken: list[Item] = []
        if n >= self._length:
            node = self._head.forward[0]
            while node is not _TAIL:
                taken += node.items
                node = node.forward[0]
            self._clear()
            return taken
        self._length -= n
        while n >= len(items := self._head.forward[0].items):
            n -= len(items)
            taken += items
            self._drop_first_node()
        taken += items[:n]
        del items[:n]
        self.first = items[0]
        return taken

    def give_back(self, items: list[Item]) -> None:
        self._length += len(items)
        self.first = items[0]
        node = self._head.forward[0]
        if node is not _TAIL and len(node.items) + len(items) <= CAPACITY:
            node.items[:0] = items
            return
        for end in range(len(items), 0, -CAPACITY):
            self._link(items[max(0, end - CAPACITY) : end], [])

    def remove(self, item: Item) -> None:
        self._length -= 1
        before = self._path(item)
        node = before[0].forward[0]
        if node.items[0] == item:
            if len(node.items) == 1:
                self._unlink(node, before)
            else:
                del node.items[0]
        else:
            node = before[0]
            del node.items[bisect_left(node.items, item)]
        self.first = self._head.forward[0].items[0]

    def __len__(self) -> int:
        return self._length

    def check(self) -> list[Item]:
        items: list[Item] = []
        nodes: list[_Node] = []
        node = self._head.forward[0]
        while node is not _TAIL:
            assert 1 <= len(node.items) <= CAPACITY
            assert 1 <= len(node.forward) <= len(self._last)
            nodes.append(node)
            items += node.items
            node = node.forward[0]
        assert len(self._last) == len(self._head.forward) <= MAX_HEIGHT
        for level in range(len(self._last)):
            tall = [node for node in nodes if len(node.forward) > level]
            chain = [self._head, *tall, _TAIL]
            for node, following in pairwise(chain):
                assert node.forward[level] is following
            assert self._last[level] is chain[-2]
        assert self._length == len(items)
        assert _TAIL.items == [END]
        return items

    def _clear(self) -> None:
        self._head = _Node([], [_TAIL])
        self._last = [self._head]
        self._length = 0
        self.first = END

    def _insert(self, item: Item) -> None:
        """Put an item that is not the last into its node; split the node if it is full."""
        node = self._head
        seen = following = _TAIL
        for level in range(len(node.forward) - 1, -1, -1):
            following = node.forward[level]
            # Half of the time this is the node that the level above has stopped at.
            while following is not seen and following.items[0] < item:
                node = following
                following = node.forward[level]
            seen = following
        if node is self._head:
            node = following
        items = node.items
        insort(items, item)
        if len(items) > CAPACITY:
            upper = items[CAPACITY // 2 :]
            before = self._path(upper[0])
            del items[CAPACITY // 2 :]
            self._link(upper, before)

    def _append(self, items: list[Item]) -> None:
        self._link(items, self._last)

    def _path(self, item: Item) -> list[_Node]:
        """On each level the last node whose first item is below this one."""
        node = self._head
        path = [node] * len(node.forward)
        for level in range(len(path) - 1, -1, -1):
            following = node.forward[level]
            while following.items[0] < item:
                node = following
                following = node.forward[level]
            path[level] = node
        return path

    def _link(self, items: list[Item], before: list[_Node]) -> None:
        """Make a node of random height behind these, one for each level, else behind the head."""
        # Each bit of a random number ends the tower with probability one half.
        bits = self._random.getrandbits(MAX_HEIGHT - 1) | 1 << (MAX_HEIGHT - 1)
        height = (bits & -bits).bit_length()
        head, last = self._head, self._last
        while len(last) < height:
            head.forward.append(_TAIL)
            last.append(head)
        node = _Node(items, [])
        for level in range(height):
            previous = before[level] if level < len(before) else head
            node.forward.append(previous.forward[level])
            previous.forward[level] = node
            if last[level] is previous:
                last[level] = node

    def _unlink(self, node: _Node, before: list[_Node]) -> None:
        for level, following in enumerate(node.forward):
            before[level].forward[level] = following
            if self._last[level] is node:
                self._last[level] = before[level]

    def _drop_first_node(self) -> None:
        node = self._head.forward[0]
        self._unlink(node, [self._head] * len(node.forward))
        self.first = self._head.forward[0].items[0]


class SkipListScheduler[E: Entry](LaneScheduler[SkipListLane, E]):
    """Holds the jobs in skip lists. Push and discard O(log n), pop O(1), pop of n O(n) slices."""

    __slots__ = ("_random",)

    def __init__(
        self,
        *,
        aging_minutes: float = AGING_MINUTES,
        aging_step: float = AGING_STEP,
        random: Random | None = None,
    ) -> None:
        super().__init__(aging_minutes=aging_minutes, aging_step=aging_step)
        self._random = random or Random()

    def new_lane(self, priority: int) -> SkipListLane:
        return SkipListLane(priority, self._random)
