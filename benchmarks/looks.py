"""One claim by itself, timed and taken back."""

from __future__ import annotations

import time
from statistics import median
from uuid import uuid4

from benchmarks.stage import Database
from jobs.claim import CLAIM_SESSION, Lane, claim
from jobs.database import DirectDatabase

LIMIT = 100
TIMES = 30


def first_look_ms(database: Database, type: str) -> float:
    """Milliseconds of a claim of 100 jobs from the beginning of the lanes, as a new worker looks."""
    direct = DirectDatabase(database.url, name="benchmark", session=CLAIM_SESSION)
    lanes = [Lane("default", type, priority) for priority in (1, 2, 3)]
    times = []
    try:
        for _ in range(TIMES):
            with direct.connection.transaction(force_rollback=True):
                started = time.perf_counter()
                claim(
                    direct,
                    worker_id=str(uuid4()),
                    lanes=lanes,
                    limit=LIMIT,
                    aging_minutes=10,
                    aging_step=0.5,
                )
                times.append(time.perf_counter() - started)
    finally:
        direct.close()
    return median(times) * 1000
