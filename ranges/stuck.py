"""Jobs of a run whose worker shows no sign of life, and which nobody has taken back."""

from __future__ import annotations

from jobs import conf
from jobs.database import Database, DjangoDatabase
from ranges.models import RangeRun

# The run's own job, and its lanes by the index of children.
STUCK = """
SELECT j.id::text FROM (
    SELECT id, worker_id FROM jobs_job WHERE parent_id = %(job)s::uuid AND status = 'processing'
    UNION ALL
    SELECT id, worker_id FROM jobs_job WHERE id = %(job)s::uuid AND status = 'processing'
) j LEFT JOIN jobs_worker w ON w.id = j.worker_id
WHERE NOT coalesce(w.state IN ('running', 'draining')
    AND w.beat_at > clock_timestamp() - %(dead_after)s * interval '1 second', false)
ORDER BY j.id
"""


def stuck(run: RangeRun, *, database: Database | None = None) -> list[str]:
    """Their ids. A live worker takes such jobs back within seconds; without one they stay."""
    if run.job_id is None:
        return []
    given = {"job": str(run.job_id), "dead_after": conf.get().dead_after_seconds}
    return [id for (id,) in (database or DjangoDatabase()).rows(STUCK, given)]
