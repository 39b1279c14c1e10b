"""What runs now, the longest first, and whether that is longer than such jobs usually run."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from jobs.console.kept import kept
from jobs.database import DjangoDatabase
from jobs.histograms import counts, percentile
from jobs.limits import limited

NAME = "active"
FRESH_SECONDS = 1.0
SECONDS = 2.0
ROWS = 8
CAP = 10_000
SHARE = 0.95
LEAST_SECONDS = 1.0
"""Nobody is told that a job runs for longer than its usual three milliseconds."""

# No more is processing than the workers hold: a small index. Where there are more than the cap,
# "longest" is among those that it holds first.
RUNNING = """
SELECT j.id::text, j.type, j.queue, j.attempt_count, j.started_at, w.id::text, w.name,
    j.progress_done, j.progress_total, j.cancel_requested_at IS NOT NULL
FROM (
    SELECT * FROM (
        SELECT id, type, queue, attempt_count, started_at, worker_id, progress_done, progress_total,
            cancel_requested_at
        FROM jobs_job WHERE status = 'processing' ORDER BY worker_id LIMIT %(cap)s
    ) held
    ORDER BY started_at, id LIMIT %(most)s
) j
LEFT JOIN jobs_worker w ON w.id = j.worker_id
ORDER BY j.started_at, j.id
"""

# By the key of the totals.
USUAL = """
SELECT t.queue, t.type, t.timings
FROM unnest(%(queues)s::text[], %(types)s::text[]) AS wanted (queue, type)
JOIN jobs_total t ON t.queue = wanted.queue AND t.type = wanted.type AND t.outcome = 'succeeded'
"""


@dataclass(frozen=True, kw_only=True)
class Active:
    id: str
    type: str
    queue: str
    attempt: int
    started_at: datetime
    worker_id: str | None
    worker: str
    done: int | None
    total: int | None
    cancelling: bool
    usual: float | None
    """Seconds that 95 % of such jobs did not exceed."""
    now: float
    """When this was read, epoch seconds of the database."""

    @property
    def state(self) -> str:
        return "cancelling" if self.cancelling else "running"

    @property
    def limit(self) -> float | None:
        """Seconds beyond which it is over its usual time."""
        return None if self.usual is None else max(self.usual, LEAST_SECONDS)

    @property
    def is_over(self) -> bool:
        ran = self.now - self.started_at.timestamp()
        return self.limit is not None and ran > self.limit

    @property
    def percent(self) -> int | None:
        if not self.total or self.done is None:
            return None
        return max(0, min(100, round(100 * self.done / self.total)))


def active() -> list[Active]:
    return kept(NAME, FRESH_SECONDS, _read)


def _read() -> list[Active]:
    database = DjangoDatabase()
    with limited(database, seconds=SECONDS) as now:
        rows = database.rows(RUNNING, {"cap": CAP, "most": ROWS})
        kinds = {(row[2], row[1]) for row in rows}
        given = {"queues": [queue for queue, _ in kinds], "types": [type for _, type in kinds]}
        usual = {
            (queue, type): percentile(counts([timings])[1], SHARE)
            for queue, type, timings in (database.rows(USUAL, given) if kinds else [])
        }
    return [
        Active(
            id=id,
            type=type,
            queue=queue,
            attempt=attempt,
            started_at=started_at,
            worker_id=worker_id,
            worker=worker or "",
            done=done,
            total=total,
            cancelling=cancelling,
            usual=usual.get((queue, type)),
            now=now,
        )
        for id, type, queue, attempt, started_at, worker_id, worker, done, total, cancelling in rows
    ]
