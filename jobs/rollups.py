"""Fold the deltas that completing transactions wrote into one row a minute, and into totals.

Safe when two leaders do it: a delta is deleted by one of them, in the statement that counts it.
"""

from __future__ import annotations

from jobs.database import Database
from jobs.histograms import merged, packed

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
    RETURNING r.minute, r.queue, r.type, r.outcome, r.jobs, r.wait_seconds, r.run_seconds, r.timings
), folded AS (
    SELECT minute, queue, type, outcome, sum(jobs) AS jobs, sum(wait_seconds) AS wait_seconds,
        sum(run_seconds) AS run_seconds
    FROM gone GROUP BY minute, queue, type, outcome
), timed AS (
    {packed("gone", "minute", "queue", "type", "outcome")}
), written AS (
    INSERT INTO jobs_rollup
        (minute, queue, type, outcome, jobs, wait_seconds, run_seconds, timings, folded)
    SELECT minute, queue, type, outcome, jobs, wait_seconds, run_seconds, timings, true
    FROM folded LEFT JOIN timed USING (minute, queue, type, outcome)
), summed AS (
    SELECT queue, type, outcome, sum(jobs) AS jobs, sum(wait_seconds) AS wait_seconds,
        sum(run_seconds) AS run_seconds
    FROM gone GROUP BY queue, type, outcome
), all_timed AS (
    {packed("timed", "queue", "type", "outcome")}
), totalled AS (
    INSERT INTO jobs_total AS t (queue, type, outcome, jobs, wait_seconds, run_seconds, timings)
    SELECT queue, type, outcome, jobs, wait_seconds, run_seconds, timings
    FROM summed LEFT JOIN all_timed USING (queue, type, outcome)
    ORDER BY queue, type, outcome
    ON CONFLICT (queue, type, outcome) DO UPDATE SET
        jobs = t.jobs + excluded.jobs,
        wait_seconds = t.wait_seconds + excluded.wait_seconds,
        run_seconds = t.run_seconds + excluded.run_seconds,
        timings = {merged("t.timings", "excluded.timings")}
)
SELECT count(*) FROM gone
"""


def fold(database: Database, *, limit: int = BATCH) -> int:
    """Fold up to `limit` deltas of past minutes; returns how many, 0 when none are left."""
    return int(database.rows(FOLD, {"limit": limit})[0][0])
