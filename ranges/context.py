"""What `process` knows about its leaf when a lane runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from jobs.context import Context
from jobs.errors import InvalidInput
from ranges.leaf_range import ATOMIC_HAS_NO_PARTS
from ranges.loading import Loaded
from ranges.positions import Position, before, greatest, position_of
from ranges.sources import key_of

if TYPE_CHECKING:
    from ranges.held import Node


class LaneContext:
    """One attempt at one leaf. See `leaf_range.LeafContext`."""

    __slots__ = (
        "_checkpoint", "_context", "_done", "_loaded", "_node", "_stored", "end", "failed", "results",
        "start",
    )  # fmt: skip

    def __init__(
        self,
        loaded: Loaded,
        context: Context,
        node: Node,
        checkpoint: Callable[[Position], None] | None,
    ) -> None:
        self._loaded = loaded
        self._context = context
        self._node = node
        self._checkpoint = checkpoint
        self.start = self._done = self._stored = node.cur
        self.end = node.resv
        self.failed: dict[Position, BaseException | str] = {}
        self.results: list[Any] = []

    @property
    def run_id(self) -> str:
        return self._loaded.run_id

    @property
    def node_id(self) -> str:
        return str(self._node.id)

    @property
    def attempt(self) -> int:
        """Of this leaf, from 1."""
        return self._node.attempts + self._node.interrupted + 1

    @property
    def params(self) -> Mapping[str, Any]:
        params: Mapping[str, Any] = self._loaded.run.params
        return params

    @property
    def log(self) -> Any:
        return self._context.log

    @property
    def cancelled(self) -> bool:
        return self._context.cancelled

    @property
    def should_yield(self) -> bool:
        return self._context.should_yield

    def checkpoint(self, upto: Any) -> None:
        """All keys before `upto` are done: should the leaf fail or break off, it goes on there.

        Or, if an item before it has failed, at that item, which is recorded when the leaf ends.
        """
        if self._checkpoint is None:
            raise InvalidInput(ATOMIC_HAS_NO_PARTS, field="checkpoint")
        axis = self._loaded.source.axis
        position = position_of(axis, axis.validate(upto, "upto"))
        if before(position, self.start) or before(self.end, position):
            raise InvalidInput("lies outside the leaf", field="upto")
        self._done = greatest(self._done, position)
        position = min([position, *self.failed])
        if before(self._stored, position):
            self._checkpoint(position)
            self._stored = position

    def item_key(self, obj: Any) -> str:
        """The same text for the same item at every attempt."""
        return f"{self.run_id}:{self._loaded.key_json(self._position(obj))}"

    def fail(self, obj: Any, error: BaseException | str) -> None:
        """This item failed for good; the rest of the leaf is done."""
        position = self._position(obj)
        if before(position, self.start) or not before(position, self.end):
            raise InvalidInput("lies outside the leaf", field="obj")
        if before(position, self._done):
            raise InvalidInput("lies before the checkpoint, so it is done", field="obj")
        self.failed.setdefault(position, error)

    def emit(self, result: Any) -> None:
        """Hand a result to the listeners of `range.result`, once the leaf is committed."""
        self.results.append(result)

    def _position(self, obj: Any) -> Position:
        """Of a row of the queryset, or of a key."""
        axis = self._loaded.source.axis
        return position_of(axis, axis.validate(key_of(self._loaded.source, obj), "obj"))
