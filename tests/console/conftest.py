"""Tests of the console: those here in this process, those below `browser/` in a real browser."""

from __future__ import annotations

from contextlib import suppress

import pytest


@pytest.fixture(autouse=True)
def _no_sample_of_another_test() -> None:
    from jobs.console import kept, sample
    from jobs.live import sample as live
    from jobs.live import stream

    sample.forget()
    kept.forget()
    live._Own.counted_at = float("-inf")
    with suppress(*stream.AWAY):  # other tests may have left a Redis with theirs
        stream.client().delete(live.KEY, live.LOCK)
