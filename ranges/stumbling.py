"""What fails again and again for the same reason is not tried for ever.

Leaves have their own attempts; this is about what lies around them: a walk that cannot be asked any
more since a column is gone, say. A job has attempts to spare for that, so somebody must notice.
"""

from __future__ import annotations

from jobs.context import Context
from jobs.database import DjangoDatabase, cause, is_away

MOST = 5
WITHIN_SECONDS = 300.0

LATELY = """
SELECT count(*) FROM (
    SELECT outcome, error, finished_at FROM jobs_attempt WHERE job_id = %(job)s::uuid
    ORDER BY lease_epoch DESC LIMIT %(most)s
) a
WHERE a.outcome = 'failed' AND starts_with(a.error, %(name)s)
    AND a.finished_at > clock_timestamp() - %(within)s::float8 * interval '1 second'
"""


def keeps_failing(context: Context, error: BaseException) -> bool:
    """Whether this error has ended the last attempts of the job too, within minutes.

    That the database is away is no reason to stop: it will come back.
    """
    if is_away(cause(error)):
        return False
    before = DjangoDatabase().rows(
        LATELY,
        {
            "job": context.job_id,
            "name": type(error).__name__,
            "most": MOST - 1,
            "within": WITHIN_SECONDS,
        },
    )
    return bool(before[0][0] >= MOST - 1)
