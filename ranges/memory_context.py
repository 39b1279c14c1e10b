"""What `process` knows about its run in memory, and the little it may ask for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import structlog

from jobs.context import Levels
from jobs.errors import InvalidInput
from jobs.texts import describe_error
from ranges.frontier import BadKeys
from ranges.leaf_range import ATOMIC_HAS_NO_PARTS, LeafRange
from ranges.positions import Position, before, position_of
from ranges.sources import key_of
from ranges.states import RunStatus
from ranges.strands import Node

if TYPE_CHECKING:
    from ranges.memory import MemoryRun

_log = structlog.get_logger("coppice.ranges")


class MemoryLog(Levels):
    """Into the log of the process."""

    def __init__(self, **facts: Any) -> None:
        self._log = _log.bind(**facts)

    def _say(self, level: str, message: str, data: dict[str, Any]) -> None:
        getattr(self._log.bind(**data), level)(message)


class MemoryContext:
    """What `process` knows about its run, and the little it may ask for (`LeafContext`)."""

    __slots__ = ("_failed", "_results", "_run", "attempt", "index", "leaf", "node", "progressed")

    def __init__(self, run: MemoryRun, node: Node, leaf: LeafRange, index: int) -> None:
        self._run = run
        self.node = node
        self.leaf = leaf
        self.index = index
        self.attempt: int = node.attempts + 1
        self.progressed = False
        self._failed: BadKeys | None = None
        self._results: list[Any] | None = None

    @property
    def params(self) -> Mapping[str, Any]:
        return self._run.params

    @property
    def run_id(self) -> str:
        return self._run.id

    @property
    def node_id(self) -> str:
        return str(self.node.id)

    @property
    def log(self) -> MemoryLog:
        return MemoryLog(run_id=self._run.id, node_id=self.node.id, job=self._run.job.name)

    @property
    def cancelled(self) -> bool:
        return self._run.status is RunStatus.CANCELLED

    @property
    def should_yield(self) -> bool:
        return self._run.must_leave(self.index)

    def checkpoint(self, upto: Any) -> None:
        if self._run.options.atomic:
            raise InvalidInput(ATOMIC_HAS_NO_PARTS, field="checkpoint")
        position = self._position(upto, "upto")
        if before(position, self.leaf.start) or before(self.leaf.end, position):
            raise InvalidInput("lies outside the leaf", field="upto")
        if self._run.advance(self.node, position, self._failed):
            self.progressed = True
            self._failed = None
            self.keep_results()

    def item_key(self, obj: Any) -> str:
        axis = self._run.source.axis
        key = axis.validate(key_of(self._run.source, obj), "obj")
        return f"{self._run.id}:{axis.to_json(key)}"

    def fail(self, obj: Any, error: BaseException | str) -> None:
        position = self._position(key_of(self._run.source, obj), "obj")
        if before(position, self.leaf.start) or not before(position, self.leaf.end):
            raise InvalidInput("lies outside the leaf", field="obj")
        if before(position, self.node.cur):
            raise InvalidInput("lies before the checkpoint, so it is done", field="obj")
        reason = error if isinstance(error, str) else describe_error(error)
        if self._failed is None:
            self._failed = []
        self._failed.append((position, reason))

    def emit(self, result: Any) -> None:
        """Keep a result; those of a leaf that fails are dropped."""
        if self._results is None:
            self._results = []
        self._results.append(result)

    @property
    def failed(self) -> BadKeys | None:
        """Keys that failed for good since the last checkpoint; None: none."""
        return self._failed

    def keep_results(self) -> None:
        """They belong to what is done now."""
        if self._results is not None:
            self._run.results.extend(self._results)
            self._results = None

    def _position(self, key: Any, field: str) -> Position:
        axis = self._run.source.axis
        return position_of(axis, axis.validate(key, field))
