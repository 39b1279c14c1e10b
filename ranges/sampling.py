"""The sums of a run about every ten seconds while it works: what rates are made of."""

from __future__ import annotations

from jobs.database import Database

SAMPLE_SECONDS = 10.0
SAMPLES_KEPT = 1_000

# Time that the run was not paused, up to this moment.
ACTIVE = """r.active_seconds + CASE WHEN r.status = 'running' AND r.resumed_at IS NOT NULL
    THEN greatest(extract(epoch FROM clock_timestamp() - r.resumed_at), 0) ELSE 0 END"""

# A run as it stands, in the columns of a sample. It reads the run's nodes, a few hundred rows.
STANDS = f"""
SELECT r.id AS run_id, coalesce(r.finished_at, clock_timestamp()) AS at,
    coalesce(sum(n.rows_ok), 0) AS rows_ok, coalesce(sum(n.rows_failed), 0) AS rows_failed,
    coalesce(sum(n.width_ok + n.width_skipped + n.width_failed), 0) AS width_done,
    coalesce(sum(n.leaves), 0) AS leaves, {ACTIVE} AS active_seconds,
    count(*) FILTER (WHERE n.state = 'running') AS lanes,
    (SELECT coalesce(jsonb_object_agg(b.bucket, b.leaves), '{{}}') FROM (
        SELECT each.key AS bucket, sum(each.value::bigint) AS leaves
        FROM ranges_rangenode m CROSS JOIN LATERAL jsonb_each_text(m.leaf_seconds) each
        WHERE m.run_id = r.id GROUP BY each.key) b) AS leaf_seconds
FROM ranges_rangerun r LEFT JOIN ranges_rangenode n ON n.run_id = r.id
WHERE r.id = %(run)s::uuid
GROUP BY r.id
"""

# Whichever lane comes first within the ten seconds takes the sample; two at once do no harm.
TAKE = f"""
INSERT INTO ranges_rangesample (run_id, at, rows_ok, rows_failed, width_done, leaves,
    active_seconds, lanes, leaf_seconds)
SELECT now.* FROM ({STANDS}) now
WHERE NOT EXISTS (
    SELECT FROM ranges_rangesample s
    WHERE s.run_id = %(run)s::uuid
      AND s.at > clock_timestamp() - %(apart)s::float8 * interval '1 second')
"""

# Every second one of the older ones goes: a long run has a coarser past.
THIN = """
DELETE FROM ranges_rangesample WHERE id IN (
    SELECT s.id FROM (
        SELECT id, row_number() OVER (ORDER BY at DESC) AS age, count(*) OVER () AS kept
        FROM ranges_rangesample WHERE run_id = %(run)s) s
    WHERE s.kept > %(most)s AND s.age > %(most)s / 4 AND s.age %% 2 = 0)
"""


def take_sample(database: Database, run_id: str, *, apart: float = SAMPLE_SECONDS * 0.8) -> bool:
    """Note the sums of a run, unless somebody did within `apart` seconds; whether it did."""
    if not database.run(TAKE, {"run": run_id, "apart": apart}):
        return False
    database.run(THIN, {"run": run_id, "most": SAMPLES_KEPT})
    return True
