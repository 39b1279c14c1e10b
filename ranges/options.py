"""The options of a run: the class gives the defaults, a run may set its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from jobs.errors import InvalidInput
from ranges.retrying import RetryPolicy
from ranges.sizing import Leaf


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a run may set for itself; the class gives the defaults."""

    leaf: Leaf
    concurrency: int
    retry: RetryPolicy
    failure_threshold: float | None
    max_depth: int | None
    atomic: bool
    nulls: Literal["refuse", "skip"]

    def __post_init__(self) -> None:
        if not isinstance(self.leaf, Leaf):
            raise InvalidInput("must be Leaf(...)", field="leaf")
        if not isinstance(self.retry, RetryPolicy):
            raise InvalidInput("must be RetryPolicy(...)", field="retry")
        check_concurrency(self.concurrency)
        if self.max_depth is not None:
            _whole(self.max_depth, 0, 200, "max_depth")
        threshold = self.failure_threshold
        if threshold is not None and (
            isinstance(threshold, bool)
            or not isinstance(threshold, int | float)
            or not 0 <= threshold <= 100
        ):
            raise InvalidInput("must be from 0 to 100 per cent, or None", field="failure_threshold")
        if not isinstance(self.atomic, bool):
            raise InvalidInput("must be True or False", field="atomic")
        if self.nulls not in ("refuse", "skip"):
            raise InvalidInput("must be 'refuse' or 'skip'", field="nulls")


def check_concurrency(value: object) -> None:
    _whole(value, 1, 1_000, "concurrency")


def _whole(value: object, least: int, most: int, field: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InvalidInput(f"must be a whole number from {least:,} to {most:,}", field=field)
