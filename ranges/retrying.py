"""What follows from a leaf that failed: when to try again, and when to stop the run.

Pure: no clock, and no random source but the one handed in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import Any, Self

from jobs.errors import InvalidInput
from jobs.retry import Backoff

type Waiting = Backoff | Callable[[int], float | timedelta]

TRANSIENT_TRIES = 5
"""An error that is likely to pass does not count as an attempt so many times in a row."""

LONGEST_WAIT_SECONDS = 86_400.0

THRESHOLD_LEAST_ITEMS = 100
"""A share of fewer items says nothing yet."""


def fixed(seconds: float | timedelta) -> Backoff:
    """The same wait each time."""
    return Backoff.fixed(seconds)


def linear(seconds: float | timedelta) -> Backoff:
    """The wait, twice the wait, three times the wait ..."""
    return Backoff.linear(seconds)


def exponential(seconds: float | timedelta, *, factor: float = 2.0) -> Backoff:
    """The wait, then `factor` times the last wait each time; at most an hour."""
    return Backoff.exponential(seconds, factor=factor)


_DEFAULT = exponential(1)


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """How often a leaf is tried as a whole, and what becomes of it then.

    `backoff`: `fixed(s)`, `linear(s)`, `exponential(s)`, or a function of the attempt (from 1).
    `bisect`: halve a leaf that is out of attempts, down to the keys that fail; else it is recorded
    as one failure. `transient`: error classes that do not count as attempts. When a run has
    recorded `bisect_budget` failures it stops halving: then whole leaves are recorded.
    """

    max_attempts: int = 3
    backoff: Waiting = _DEFAULT
    bisect: bool = True
    transient: tuple[type[BaseException], ...] = ()
    bisect_budget: int = 1_000

    def __post_init__(self) -> None:
        _whole(self.max_attempts, 1, 1_000, "retry.max_attempts")
        _whole(self.bisect_budget, 0, 10**9, "retry.bisect_budget")
        if not isinstance(self.backoff, Backoff) and not callable(self.backoff):
            raise InvalidInput(
                "must be fixed(s), linear(s), exponential(s) or a function of the attempt",
                field="retry.backoff",
            )
        if not isinstance(self.bisect, bool):
            raise InvalidInput("must be True or False", field="retry.bisect")
        object.__setattr__(self, "transient", tuple(self.transient))
        if not all(isinstance(e, type) and issubclass(e, BaseException) for e in self.transient):
            raise InvalidInput("must be classes of errors", field="retry.transient")

    def to_json(self, declared: RetryPolicy) -> dict[str, Any]:
        """What a run keeps of its own policy, beside `max_attempts`: where it is not its class's.

        Code is never stored, so a function and classes of errors must be those of the class.
        """
        if self.transient != declared.transient:
            raise InvalidInput(
                "must be those of the job's class: a run cannot keep classes",
                field="retry.transient",
            )
        kept: dict[str, Any] = {
            name: getattr(self, name)
            for name in ("bisect", "bisect_budget")
            if getattr(self, name) != getattr(declared, name)
        }
        if self.backoff != declared.backoff:
            if not isinstance(self.backoff, Backoff):
                raise InvalidInput(
                    "must be fixed(s), linear(s) or exponential(s), or that of the job's class:"
                    " a run cannot keep a function",
                    field="retry.backoff",
                )
            kept["backoff"] = asdict(self.backoff)
        return kept

    def with_kept(self, kept: Mapping[str, Any]) -> Self:
        """The policy of a class, with what a run has kept of its own."""
        values = dict(kept)
        if "backoff" in values:
            values["backoff"] = Backoff(**values["backoff"])
        return replace(self, **values)

    def wait_seconds(self, attempt: int, random: Callable[[], float]) -> float:
        """Seconds after failed attempt `attempt` (from 1).

        An own function that fails, or answers nonsense, gives the default wait: a broken backoff
        must not lose the leaf.
        """
        if isinstance(self.backoff, Backoff):
            return self.backoff.seconds(attempt, random)
        try:
            wait = self.backoff(attempt)
            seconds = wait.total_seconds() if isinstance(wait, timedelta) else float(wait)
        except Exception:  # noqa: BLE001 - see above
            seconds = math.nan
        if not math.isfinite(seconds) or seconds < 0:
            return _DEFAULT.seconds(attempt, random)
        return min(seconds, LONGEST_WAIT_SECONDS)

    def is_transient(self, error: BaseException) -> bool:
        return isinstance(error, self.transient) or is_transient(error)


_TRANSIENT_WAIT = Backoff.exponential(0.1, factor=2.0, cap=5.0)

# Serialisation, deadlock, lock not available, cancelled by a time-out, shut down, no slot free.
_SQLSTATES = frozenset({"40001", "40P01", "55P03", "57014", "57P01", "57P02", "57P03", "53300"})


def transient_seconds(tries: int, random: Callable[[], float]) -> float:
    """How long a strand rests after its `tries`-th transient error in a row."""
    return _TRANSIENT_WAIT.seconds(tries, random)


def is_transient(error: BaseException) -> bool:
    """Whether the same work is likely to succeed soon, as nothing was wrong with it."""
    seen: BaseException | None = error
    for _ in range(5):
        if seen is None:
            return False
        state = getattr(seen, "sqlstate", None)
        if isinstance(state, str):
            return state in _SQLSTATES or state.startswith("08")
        if isinstance(seen, ConnectionError | TimeoutError):
            return True
        seen = seen.__cause__
    return False


def crossed(*, failed: int, attempted: int, threshold: float | None) -> bool:
    """Whether more than `threshold` per cent of the attempted items failed: the run stops.

    Of fewer than a hundred items no share is taken, but with a threshold of 0 one failure is enough.
    """
    if threshold is None or not failed:
        return False
    if threshold > 0 and attempted < THRESHOLD_LEAST_ITEMS:
        return False
    return failed * 100 > threshold * attempted


def most_open_bisects(concurrency: int) -> int:
    """With so many failing leaves open no new leaf is begun: first it shows what fails.

    Otherwise a run in which everything fails would peel off its whole range.
    """
    return max(8, 2 * concurrency)


def _whole(value: object, least: int, most: int, field: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InvalidInput(f"must be a whole number from {least:,} to {most:,}", field=field)
