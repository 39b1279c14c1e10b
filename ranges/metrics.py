"""What Prometheus reads about runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from jobs.database import Database
from jobs.metrics.gathering import part
from ranges.states import RunStatus

CAP = 10_000
MOST_RUNS = 200
"""Of those at work: the newest."""
MOST_JOBS = 100

STATUSES = f"""
SELECT wanted.status, counted.runs
FROM unnest(%(statuses)s::text[]) AS wanted (status) CROSS JOIN LATERAL (
    SELECT count(*) AS runs FROM (
        SELECT FROM ranges_rangerun r WHERE r.status = wanted.status LIMIT {CAP}
    ) capped
) counted
"""

# A run that has no nodes yet has all of its keys left; of text nobody can count them.
LEFT = """
SELECT r.name, sum(coalesce(n.keys, r.hi - r.lo, 0)), sum(coalesce(n.failures, 0))
FROM (
    SELECT id, name, lo, hi FROM ranges_rangerun
    WHERE status IN ('running', 'paused') ORDER BY id DESC LIMIT %(runs)s
) r CROSS JOIN LATERAL (
    SELECT sum(m.hi - m.cur) AS keys,
        (SELECT count(*) FROM ranges_rangefailure f
         WHERE f.run_id = r.id AND f.state = 'open') AS failures
    FROM ranges_rangenode m WHERE m.run_id = r.id
) n
GROUP BY r.name ORDER BY r.name LIMIT %(jobs)s
"""


@part("ranges")
def runs(database: Database) -> Iterator[Metric]:
    statuses = [status.value for status in RunStatus]
    count = GaugeMetricFamily(
        "coppice_range_runs", f"Range runs, by status; no more than {CAP}.", labels=["status"]
    )
    for status, amount in database.rows(STATUSES, {"statuses": statuses}):
        count.add_metric([status], amount)
    left = GaugeMetricFamily(
        "coppice_range_keys_left",
        "Keys that runs of a job which are running or paused have still to pass.",
        labels=["range_job"],
    )
    failures = GaugeMetricFamily(
        "coppice_range_open_failures", "Keys that failed in these runs.", labels=["range_job"]
    )
    for name, keys, failed in database.rows(LEFT, {"runs": MOST_RUNS, "jobs": MOST_JOBS}):
        left.add_metric([name], _float(keys))
        failures.add_metric([name], int(failed))
    yield from (count, left, failures)


def _float(number: Any) -> float:
    """A key may have more digits than a float has room for."""
    try:
        return float(number)
    except OverflowError:
        return float("inf")
