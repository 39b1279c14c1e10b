"""Numbers that pages share are a second old; a test wants those of now."""

from __future__ import annotations

from contextlib import suppress


def look_anew() -> None:
    """Forget what this process and Redis, if one is there, know of the numbers."""
    from jobs.console import kept, sample
    from jobs.live import sample as live
    from jobs.live import stream

    sample.forget()
    kept.forget()
    live._Own.counted_at = float("-inf")
    with suppress(*stream.AWAY):
        # Also what servers of other tests put there, whose database was another one.
        ours = [
            key
            for start in ("console", "job-stats")
            for key in stream.client().scan_iter(f"*coppice:{start}*")
        ]
        stream.client().delete(live.KEY, live.LOCK, *ours)
