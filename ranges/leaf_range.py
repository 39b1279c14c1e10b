"""What `process` is given: the keys of one leaf, and what it may know and ask for.

Both engines give a `LeafRange`; each has its own context, of which `LeafContext` is the promise.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Iterator, Mapping
from typing import Any, Protocol, cast

from jobs.errors import CoppiceError
from ranges.positions import Position, end_key, key_at, width
from ranges.sources import Source

ATOMIC_HAS_NO_PARTS = "an atomic leaf has no parts: its work and its cursor are one transaction"


class LeafRange:
    """What `process` is to do: the keys of [lo, hi) that need work."""

    __slots__ = ("end", "source", "start")

    def __init__(self, source: Source, start: Position, end: Position) -> None:
        self.source = source
        self.start = start
        """Positions; for keys see `lo` and `hi`."""
        self.end = end

    @property
    def lo(self) -> Any:
        return key_at(self.source.axis, self.start)

    @property
    def hi(self) -> Any:
        """Exclusive; None: up to the last key that the type has."""
        return end_key(self.source.axis, self.end)

    @property
    def queryset(self) -> Any:
        """`over`, inside [lo, hi), still `todo`; None for a plain range."""
        return self.source.leaf_queryset(self.start, self.end)

    @property
    def width(self) -> int:
        return width(self.source.axis, self.start, self.end)

    def __iter__(self) -> Iterator[Any]:
        """The rows that need work, or the keys of a plain range."""
        if self.source.counts_rows:
            return iter(self.queryset.iterator())
        axis = self.source.axis
        if not axis.is_ordinal:
            raise TypeError("a range of text has no list of keys")
        places = range(cast(int, self.start), cast(int, self.end))
        return iter(places) if axis.name == "int" else map(axis.decode, places)

    def __repr__(self) -> str:
        return f"<leaf [{self.lo!r}, {self.hi!r})>"


def result_of(answer: Any) -> Any:
    """What `process` has returned; a coroutine is awaited first, else it would have done nothing."""
    if inspect.iscoroutine(answer):
        from asgiref.sync import async_to_sync

        # So what it asks the database for through Django is asked on this thread's connection,
        # which is looked after; a loop's own threads keep theirs, broken or not.
        return async_to_sync(_awaited)(answer)
    if inspect.isgenerator(answer) or inspect.isasyncgen(answer):
        raise TypeError("process has returned a generator, which nobody runs")
    return answer


async def _awaited(answer: Awaitable[Any]) -> Any:
    return await answer


class HandBack(CoppiceError):
    """Raised by `process`: what lies behind the last checkpoint is handed back. No failed attempt.

    For long leaves that see `context.should_yield` or `context.cancelled`.
    """


class LeafContext(Protocol):
    """What `process` knows about its run, and the little it may ask for."""

    params: Mapping[str, Any]

    @property
    def run_id(self) -> str: ...
    @property
    def node_id(self) -> str: ...
    @property
    def attempt(self) -> int:
        """Of this leaf, from 1."""
        ...

    @property
    def log(self) -> Any: ...

    @property
    def cancelled(self) -> bool: ...
    @property
    def should_yield(self) -> bool:
        """Whether a long leaf should `checkpoint` soon and raise HandBack."""
        ...

    def checkpoint(self, upto: Any) -> None:
        """All keys of the leaf before `upto` are done: if it fails or hands back, it goes on there.

        A leaf that returns is done as a whole, whatever its checkpoints.
        """
        ...

    def item_key(self, obj: Any) -> str:
        """The same text for the same item at every attempt: for systems that ignore repeats."""
        ...

    def fail(self, obj: Any, error: BaseException | str) -> None:
        """This item failed for good; the rest of the leaf is done."""
        ...

    def emit(self, result: Any) -> None: ...
