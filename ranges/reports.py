"""What a run in memory says about itself: numbers, failures, and the history of what failed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ranges.states import FailureState, RunStatus


@dataclass(frozen=True, kw_only=True)
class Failure:
    """One key, or one small range, that would not be processed. Keys are in their JSON form."""

    node_id: int
    key: Any
    upto: Any
    """The end of a range; None: one key."""
    items: int
    attempts: int
    error: str
    traceback: str
    state: FailureState = FailureState.OPEN


@dataclass(frozen=True, kw_only=True)
class FailedTry:
    """One attempt at a leaf that did not succeed. Successful ones are only counted."""

    node_id: int
    lo: Any
    hi: Any
    attempt: int
    error: str
    transient: bool
    """It did not count as an attempt: the error was one that passes."""
    seconds: float
    retry_in: float | None
    """Seconds until the next attempt; None: none as a whole."""


@dataclass(frozen=True, kw_only=True)
class LeafSeconds:
    """How long leaves took. Percentiles are told within five per cent."""

    count: int
    mean: float
    p50: float
    p95: float
    p99: float
    longest: float


@dataclass(frozen=True, kw_only=True)
class Statistics:
    """The sums of a run at one moment.

    Keys are the width of the range: processed + skipped + failed + left = total. Rows are what the
    work did to a table's rows (or keys again, without a table).
    """

    run_id: str
    job: str
    status: RunStatus
    reason: str
    total: int
    processed: int
    skipped: int
    failed: int
    left: int
    rows: int
    rows_failed: int
    leaves: int
    """Leaves that succeeded."""
    attempts: int
    """Calls of `process`."""
    retries: int
    nodes: Mapping[str, int]
    """How many nodes are in each state."""
    failures: tuple[Failure, ...]
    leaf_seconds: LeafSeconds | None
    active_seconds: float
    keys_per_second: float | None
    """Processed ones, over the last ten seconds or so of activity."""
    rows_per_second: float | None
    eta_seconds: float | None
    """Until nothing is left, at the rate at which keys were dealt with lately."""
    questions: int
    """To `should_process`."""
    prune_errors: int
    probe_timeouts: int

    @property
    def done_percent(self) -> float:
        """100 exactly when nothing is left."""
        return 100.0 if not self.left else min(99.99, 100.0 * (1 - self.left / self.total))


class Durations:
    """A histogram of seconds on a logarithmic scale: flat in memory, whatever the count."""

    __slots__ = ("_buckets", "count", "longest", "total")

    def __init__(self) -> None:
        self._buckets: dict[int, int] = {}
        self.count = 0
        self.total = 0.0
        self.longest = 0.0

    def add(self, seconds: float) -> None:
        self.count += 1
        self.total += seconds
        self.longest = max(self.longest, seconds)
        bucket = int(_STEPS * math.log(seconds)) if seconds > 0 else _LOWEST
        self._buckets[bucket] = self._buckets.get(bucket, 0) + 1

    def report(self) -> LeafSeconds | None:
        if not self.count:
            return None
        return LeafSeconds(
            count=self.count,
            mean=self.total / self.count,
            p50=self._percentile(0.50),
            p95=self._percentile(0.95),
            p99=self._percentile(0.99),
            longest=self.longest,
        )

    def _percentile(self, share: float) -> float:
        goal, seen = share * self.count, 0
        for bucket in sorted(self._buckets):
            seen += self._buckets[bucket]
            if seen >= goal:
                if bucket == _LOWEST:
                    return 0.0
                return min(math.exp(bucket / _STEPS), self.longest)
        return self.longest


_STEPS = 20
_LOWEST = -(10**6)
