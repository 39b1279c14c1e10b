"""Fold the deltas that completing transactions wrote into one row a minute, and into totals.

Safe when two leaders do it: a delta is deleted by one of them, in the statement that counts it.
"""

from __future__ import annotations

from jobs.database import Database
from jobs.histograms import added, summed

BATCH = 20_000

# A minute is folded once it has been over for a minute. A transaction that took longer than that
# writes its delta late, and the minute gets a second folded row: readers always sum.
FOLD = f"""
WITH picked AS MATERIALIZED (
    SELECT id FROM jobs_rollup
    WHERE NOT folded AND minute < date_trunc('minute', now()) - interval '1 minute'
    ORDER BY minute LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM jobs_rollup r USING picked WHERE r.id = picked.id AND NOT r.folded
    RETURNING r.minute, r.queue, r.type, r.outcome, r.jobs, r.wait_seconds, r.run_seconds,
        r.wait_counts, r.run_counts
), written AS (
    INSERT INTO jobs_rollup
        (minute, queue, type, outcome, jobs, wait_seconds, run_seconds, wait_counts, run_counts,
        folded)
    SELECT minute, queue, type, outcome, sum(jobs), sum(wait_seconds), sum(run_seconds),
        {summed("wait_counts")}, {summed("run_counts")}, true
    FROM gone GROUP BY minute, queue, type, outcome
), totalled AS (
    INSERT INTO jobs_total AS t
        (queue, type, outcome, jobs, wait_seconds, run_seconds, wait_counts, run_counts)
    SELECT queue, type, outcome, sum(jobs), sum(wait_seconds), sum(run_seconds),
        {summed("wait_counts")}, {summed("run_counts")}
    FROM gone GROUP BY queue, type, outcome ORDER BY queue, type, outcome
    ON CONFLICT (queue, type, outcome) DO UPDATE SET
        jobs = t.jobs + excluded.jobs,
        wait_seconds = t.wait_seconds + excluded.wait_seconds,
        run_seconds = t.run_seconds + excluded.run_seconds,
        wait_counts = {added("t.wait_counts", "excluded.wait_counts")},
        run_counts = {added("t.run_counts", "excluded.run_counts")}
)
SELECT count(*) FROM gone
"""


def fold(database: Database, *, limit: int = BATCH) -> int:
    """Fold up to `limit` deltas of past minutes; returns how many, 0 when none are left."""
    return int(database.rows(FOLD, {"limit": limit})[0][0])
