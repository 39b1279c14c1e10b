"""What a worker ran last."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from jobs.database import DjangoDatabase
from jobs.errors import TooBroad
from jobs.filtering import id_at
from jobs.limits import limited
from jobs.workers import WorkerFacts

SECONDS = 2.0
MOST = 50
LOOKED_AT = 5_000
"""No index leads from a worker to what it has ended, so that no completion pays for one: the newest
jobs are looked at, of one that has ended those from before its end."""

LAST = """
SELECT id::text, type, queue, status, attempt_count, started_at, ended_at FROM (
    (SELECT id, type, queue, status, attempt_count, started_at, completed_at AS ended_at FROM (
        SELECT * FROM jobs_job WHERE status = 'completed' AND id <= %(until_id)s::uuid
        ORDER BY id DESC LIMIT %(looked_at)s
    ) completed WHERE worker_id = %(worker)s::uuid)
    UNION ALL
    (SELECT id, type, queue, status, attempt_count, started_at, failed_at FROM (
        SELECT * FROM jobs_job WHERE status = 'failed' AND failed_at <= %(until)s
        ORDER BY failed_at DESC, id DESC LIMIT %(looked_at)s
    ) dead WHERE worker_id = %(worker)s::uuid)
) ended
ORDER BY ended_at DESC, id DESC LIMIT %(most)s
"""


@dataclass(frozen=True, kw_only=True)
class Ran:
    id: str
    type: str
    queue: str
    state: str
    attempt: int
    started_at: datetime | None
    ended_at: datetime

    @property
    def seconds(self) -> float | None:
        if self.started_at is None or self.ended_at < self.started_at:
            return None
        return (self.ended_at - self.started_at).total_seconds()


def last_jobs(worker: WorkerFacts) -> list[Ran] | None:
    """The newest first; None: it took too long to look."""
    until = worker.stopped_at or datetime.max.replace(tzinfo=worker.started_at.tzinfo)
    database = DjangoDatabase()
    try:
        with limited(database, seconds=SECONDS):
            rows = database.rows(
                LAST,
                {
                    "worker": worker.id,
                    "until": until,
                    "until_id": str(id_at(until)),
                    "looked_at": LOOKED_AT,
                    "most": MOST,
                },
            )
    except TooBroad:
        return None
    return [
        Ran(
            id=id,
            type=type,
            queue=queue,
            state="dead" if status == "failed" else status,
            attempt=attempt,
            started_at=started_at,
            ended_at=ended_at,
        )
        for id, type, queue, status, attempt, started_at, ended_at in rows
    ]
