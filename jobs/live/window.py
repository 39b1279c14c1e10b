"""How much one client may be sent before it says that it has handled what came.

The server below has no back-pressure: what is written to a client that does not read stays in this
process. So nothing more is written than its acknowledgements allow.
"""

from __future__ import annotations

from collections import deque

from jobs.live.positions import Position

FRAMES = 4
BYTES = 256 * 1024
PATIENCE_SECONDS = 30.0


class Window:
    """Times are the caller's, of one clock."""

    def __init__(self) -> None:
        self._sent: deque[tuple[Position, int, float, bool]] = deque()
        self._bytes = 0
        self._frames = 0
        self._acknowledged_at = float("-inf")

    @property
    def is_open(self) -> bool:
        return self._frames < FRAMES and self._bytes < BYTES

    def sent(self, position: Position, size: int, now: float, *, is_frame: bool = True) -> None:
        """Something that ends at a position; replies count by their size alone."""
        self._sent.append((position, size, now, is_frame))
        self._bytes += size
        self._frames += is_frame

    def acknowledge(self, position: Position, now: float) -> None:
        """The client has handled everything up to there.

        A place beyond all that was sent says nothing: who names one would have everything to come
        count as handled, and never need to read.
        """
        if not any(position <= each for each, _, _, _ in self._sent):
            return
        while self._sent and self._sent[0][0] <= position:
            _, size, _, is_frame = self._sent.popleft()
            self._bytes -= size
            self._frames -= is_frame
        self._acknowledged_at = now

    @property
    def gives_up_at(self) -> float:
        """When patience ends with a client that acknowledges nothing."""
        oldest = next((at for _, _, at, is_frame in self._sent if is_frame), None)
        if oldest is None:
            return float("inf")
        return max(oldest, self._acknowledged_at) + PATIENCE_SECONDS

    def is_stuck(self, now: float) -> bool:
        return now >= self.gives_up_at or self._bytes >= 2 * BYTES
