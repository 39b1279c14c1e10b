"""How far a machine's clock is from the database's. Pure: whoever asks brings the times."""

from __future__ import annotations

from dataclasses import dataclass

TELLING_SECONDS = 2.0
"""Less is what two clocks may differ by without misleading anybody."""


@dataclass(frozen=True, kw_only=True)
class ClockSkew:
    seconds: float
    """How far the machine's clock is ahead of the database's; below 0: behind it."""
    uncertainty_seconds: float
    """By how much it may be more or less: half of the time in which the database was asked."""

    @property
    def is_telling(self) -> bool:
        """Whether it is worth saying: certainly more than clocks may differ by."""
        return abs(self.seconds) - self.uncertainty_seconds > TELLING_SECONDS

    @property
    def side(self) -> str:
        return "ahead of" if self.seconds > 0 else "behind"


def measured(*, sent_at: float, theirs: float, heard_at: float) -> ClockSkew:
    """From the machine's time before and after it asked, and the database's time in between."""
    return ClockSkew(
        seconds=round((sent_at + heard_at) / 2 - theirs, 3),
        uncertainty_seconds=round(abs(heard_at - sent_at) / 2, 3),
    )
