"""Where a range run and its nodes can be. Pure: no Django."""

from __future__ import annotations

from enum import StrEnum


class RunStatus(StrEnum):
    CREATED = "created"
    RUNNING = "running"
    PAUSED = "paused"
    COMPLETED = "completed"
    PARTIALLY_FAILED = "partially_failed"
    FAILED = "failed"
    CANCELLED = "cancelled"


ENDED = frozenset(
    {RunStatus.COMPLETED, RunStatus.PARTIALLY_FAILED, RunStatus.FAILED, RunStatus.CANCELLED}
)


class NodeKind(StrEnum):
    STRAND = "strand"  # a piece of the walk, with a cursor
    BISECT = "bisect"  # a leaf that failed, on its way down to the bad key


class NodeState(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"
    SKIPPED = "skipped"  # done without a single leaf
    ERROR = "error"  # recorded as a failure


class FailureState(StrEnum):
    OPEN = "open"
    RETRIED = "retried"
    WAIVED = "waived"


# What happened in a cell of the run's axis; flags, as one cell may hold several strands' work.
CELL_PROCESSED = 1
CELL_SKIPPED = 2
CELL_FAILED = 4
CELLS = 1_024
