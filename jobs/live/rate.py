"""How fast somebody may go on doing something."""

from __future__ import annotations


class Bucket:
    """Fills with `per_second`, holds `at_once`. Times are the caller's, of one clock."""

    def __init__(self, per_second: float, at_once: float, now: float) -> None:
        self._per_second = per_second
        self._at_once = at_once
        self._held = float(at_once)
        self._filled_at = now

    def take(self, now: float) -> bool:
        """Whether there was one left to take."""
        gained = (now - self._filled_at) * self._per_second
        self._held = min(self._at_once, self._held + gained)
        self._filled_at = now
        if self._held < 1:
            return False
        self._held -= 1
        return True
