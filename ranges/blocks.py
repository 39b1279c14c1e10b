"""The virtual tree that `should_process` is asked about.

The run's range is halved, and its halves are halved, down to leaves; no node of that tree is ever
stored. At a cursor the largest block that starts there is asked first, then what lies inside it.

1. The only state is the cursor. What was asked already is remembered to save questions; when that
   is lost (a crash, another process) at most one question per level is asked again.
2. A block is clipped to what the strand still has to do, and the question is about the clipped part.
   So whatever the cursor, False skips exactly the keys that the question named.
3. Only False skips. An error, a time-out, None or any other answer means: process.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from jobs.texts import describe_error
from ranges.positions import Position, before, end_key, key_at, least, midpoint
from ranges.sources import ProbeTimeout

if TYPE_CHECKING:
    from ranges.axes.base import Axis

TRIES = 3
TIMEOUTS_IN_A_ROW = 3


class Block(NamedTuple):
    """What `should_process(lo, hi, node)` is told about the place in the tree."""

    depth: int
    path: str
    """From the root, "0" for the left half and "1" for the right one: "" is the root."""
    is_leaf: bool


type Ask = Callable[[Any, Any, Block], object]


class Answer(NamedTuple):
    hi: Position
    """The block that the answer is about ends here (clipped)."""
    skip: bool
    is_leaf: bool
    block: Block


@dataclass(slots=True)
class Doubts:
    """What was processed because nobody could say that it need not be."""

    questions: int = 0
    errors: int = 0
    timeouts: int = 0
    last_error: str = ""
    skipped: list[tuple[Position, Position, Block]] = field(default_factory=list)
    """The blocks that were skipped, at most a hundred."""


class Pruner:
    """Asks `should_process` from the top down. One per strand's walker; not for many threads."""

    def __init__(
        self,
        axis: Axis[Any],
        lo: Position,
        hi: Position,
        ask: Ask,
        *,
        max_depth: int | None = None,
    ) -> None:
        self._axis = axis
        self._lo = lo
        self._hi = hi
        self._ask = ask
        self._max_depth = max_depth
        self._entered: list[str] = []
        self._timeouts_in_a_row = 0
        self.doubts = Doubts()

    def look(self, cur: Position, hi: Position, upto: Position) -> Answer:
        """Ask about the blocks at `cur` until one is skipped, or a leaf is to be processed.

        A block that ends at or before `upto` is a leaf. Nothing at or behind `hi` is asked about.
        """
        left, right, path = self._lo, self._hi, ""
        entered: list[str] = []
        while True:
            end = least(right, hi)
            middle = None
            if self._max_depth is None or len(path) < self._max_depth:
                middle = midpoint(self._axis, left, right)
            is_leaf = middle is None or not before(upto, end)
            if not is_leaf:
                assert middle is not None
                # Where the clipped part lies in one half, the half says better where it is.
                if not before(cur, middle):
                    left, path = middle, path + "1"
                    continue
                if not before(middle, end):
                    right, path = middle, path + "0"
                    continue
                if path in self._entered:
                    entered.append(path)
                    right, path = middle, path + "0"
                    continue
            block = Block(len(path), path, is_leaf)
            if not self._wanted(cur, end, block):
                self._entered = entered
                return Answer(end, True, is_leaf, block)
            if is_leaf:
                self._entered = entered
                return Answer(end, False, True, block)
            entered.append(path)
            assert middle is not None
            right, path = middle, path + "0"

    def _wanted(self, lo: Position, hi: Position, block: Block) -> bool:
        doubts = self.doubts
        if self._timeouts_in_a_row >= TIMEOUTS_IN_A_ROW:
            return True
        low, high = key_at(self._axis, lo), end_key(self._axis, hi)
        for tries_left in range(TRIES - 1, -1, -1):
            doubts.questions += 1
            try:
                answer = self._ask(low, high, block)
                if inspect.iscoroutine(answer):
                    answer = _run(answer)
            except (ProbeTimeout, TimeoutError) as error:
                self._timeouts_in_a_row += 1
                doubts.timeouts += 1
                doubts.last_error = describe_error(error, 500)
                return True
            except (Exception, SystemExit) as error:  # noqa: BLE001 - nothing is known then
                if tries_left:
                    continue
                doubts.errors += 1
                doubts.last_error = describe_error(error, 500)
                return True
            self._timeouts_in_a_row = 0
            if answer is False:
                if len(doubts.skipped) < 100:
                    doubts.skipped.append((lo, hi, block))
                return False
            return True
        raise AssertionError("each try returns or is followed by another")


def _run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """The answer of an async `should_process`. Walkers never run inside an event loop."""
    from asgiref.sync import async_to_sync

    async def awaited() -> Any:
        return await coroutine

    return async_to_sync(awaited)()
