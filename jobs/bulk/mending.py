"""End operations whose job has gone: cancelled or purged by somebody, or dead. Else they would look
as if they ran, and hold up those that wait for them.
"""

from __future__ import annotations

from jobs import events
from jobs.database import Database

# The job's id is compared again with the row as it is now: an operation that was resumed meanwhile
# has another one.
MEND = """
WITH lost AS MATERIALIZED (
    SELECT o.id, o.job_id, j.status AS ended, j.last_error
    FROM jobs_bulkoperation o LEFT JOIN jobs_job j ON j.id = o.job_id
    WHERE o.status IN ('pending', 'running')
        AND (j.id IS NULL OR j.status NOT IN ('pending', 'processing'))
)
UPDATE jobs_bulkoperation o SET
    status = CASE WHEN lost.ended = 'cancelled' THEN 'aborted' ELSE 'failed' END,
    error = CASE WHEN lost.ended = 'cancelled' THEN 'its job was cancelled'
        WHEN lost.ended IS NULL THEN 'its job is gone'
        ELSE coalesce(nullif(lost.last_error, ''), 'its job has ended') END,
    finished_at = clock_timestamp(), updated_at = clock_timestamp()
FROM lost
WHERE o.id = lost.id AND o.job_id IS NOT DISTINCT FROM lost.job_id
    AND o.status IN ('pending', 'running')
RETURNING o.id::text, o.action, o.status, o.matched, o.changed, o.skipped, o.failed
"""
FACTS = ("id", "action", "status", "matched", "changed", "skipped", "failed")


def mend(database: Database) -> int:
    """Returns how many were ended."""
    rows = database.rows(MEND, {})
    for row in rows:
        events.emit("bulk.updated", **dict(zip(FACTS, row, strict=True)))
    return len(rows)
