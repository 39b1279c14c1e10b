"""How long to wait before the next attempt.

The wait grows, varies a little so that jobs that failed together do not return together, and
never passes the cap. No clock and no random source but the one handed in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Self

from jobs.errors import InvalidInput
from jobs.moments import parse_duration

DEFAULT_CAP_SECONDS = 3600.0
DEFAULT_JITTER = 0.2

# Above this a float cannot tell one whole number from the next.
_LARGEST_EXPONENT = 2**53


@dataclass(frozen=True, kw_only=True)
class Backoff:
    """Seconds before attempt n + 1: `base * factor ** (n - 1) + step * (n - 1)`, at most `cap`.

    `jitter` is the largest part by which the wait differs from that, to either side.
    """

    base: float = 1.0
    factor: float = 5.0
    step: float = 0.0
    cap: float = DEFAULT_CAP_SECONDS
    jitter: float = DEFAULT_JITTER

    def __post_init__(self) -> None:
        for name in ("base", "step", "cap"):
            object.__setattr__(self, name, parse_duration(getattr(self, name), f"backoff.{name}"))
        object.__setattr__(self, "factor", _between(self.factor, 1, 1000, "backoff.factor"))
        object.__setattr__(self, "jitter", _between(self.jitter, 0, 1, "backoff.jitter"))

    @classmethod
    def fixed(
        cls, wait: float | timedelta, *, cap: float | timedelta | None = None, jitter: float = 0.0
    ) -> Self:
        """The same wait each time, to the letter unless a jitter is asked for."""
        seconds = parse_duration(wait, "backoff")
        return cls(base=seconds, factor=1.0, cap=_cap(cap, seconds), jitter=jitter)

    @classmethod
    def linear(
        cls,
        wait: float | timedelta,
        *,
        cap: float | timedelta | None = None,
        jitter: float = DEFAULT_JITTER,
    ) -> Self:
        """The wait, twice the wait, three times the wait ..."""
        seconds = parse_duration(wait, "backoff")
        return cls(base=seconds, factor=1.0, step=seconds, cap=_cap(cap, seconds), jitter=jitter)

    @classmethod
    def exponential(
        cls,
        wait: float | timedelta,
        *,
        factor: float = 5.0,
        cap: float | timedelta | None = None,
        jitter: float = DEFAULT_JITTER,
    ) -> Self:
        """The wait, then `factor` times the last wait each time."""
        seconds = parse_duration(wait, "backoff")
        return cls(base=seconds, factor=factor, cap=_cap(cap, seconds), jitter=jitter)

    def nominal_seconds(self, attempt: int) -> float:
        """The wait after failed attempt `attempt` (1, 2, ...) before the jitter; never shrinks."""
        earlier = min(max(attempt, 1) - 1, _LARGEST_EXPONENT)
        if self.base == 0 and self.step == 0:
            return 0.0
        try:
            wait = self.base * self.factor**earlier + self.step * earlier
        except OverflowError:
            wait = self.cap if self.base else self.step * earlier  # 0 times any power is 0
        return min(wait, self.cap)

    def seconds(self, attempt: int, random: Callable[[], float]) -> float:
        """The wait after failed attempt `attempt`; `random` gives a number from 0 to 1."""
        spread = 1 + self.jitter * (2 * random() - 1)
        return min(self.nominal_seconds(attempt) * spread, self.cap)


def backoff_seconds(
    attempt: int,
    *,
    base: float = 1.0,
    factor: float = 5.0,
    cap: float = DEFAULT_CAP_SECONDS,
    jitter: float = DEFAULT_JITTER,
    random: Callable[[], float],
) -> float:
    """The default: 1, 5, 25, 125 ... seconds, plus or minus 20 %, at most an hour."""
    return Backoff(base=base, factor=factor, cap=cap, jitter=jitter).seconds(attempt, random)


def _cap(given: float | timedelta | None, wait: float) -> float:
    """An hour, unless the first wait alone is longer: then the caller wants longer waits."""
    if given is None:
        return max(DEFAULT_CAP_SECONDS, wait)
    return parse_duration(given, "backoff.cap")


def _between(value: object, least: float, most: float, field: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(f"must be a number, not {type(value).__name__}", field=field)
    if not least <= value <= most:
        raise InvalidInput(f"must be from {least} to {most}", field=field)
    return float(value)  # whole numbers would be raised to powers of any size
