"""How many attempts waited, or ran, how long: counts by fixed bounds, kept as arrays in rollups.

Bucket n counts what lasted at least bound n-1 and less than bound n; the last one all that took
longer. Fixed bounds can be added up over minutes, queues and types, which percentiles cannot.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

BOUNDS = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
    1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1_800.0, 7_200.0,
)  # fmt: skip
"""Seconds. Rows that are stored were counted by these: they cannot be changed without them."""
BUCKETS = len(BOUNDS) + 1

_SECONDS = ",".join(f"{bound:g}" for bound in BOUNDS)
_INTERVALS = ",".join(f"{bound:g}s" for bound in BOUNDS)
_LENGTHS = f"'{{{_SECONDS}}}'::float8[]"
_WAITS = f"'{{{_INTERVALS}}}'::interval[]"


def _counts(column: str) -> str:
    each = (
        f"coalesce(sum(jobs) FILTER (WHERE {column} = {bucket}), 0)" for bucket in range(BUCKETS)
    )
    return f"ARRAY[{', '.join(each)}]::bigint[]"


def rollup_of(ended: str, *, outcome: str, due_at: str) -> str:
    """The statement that counts what a completing transaction ended, from the rows of `ended`.

    Jobs of a batch are much alike, so few groups are left by the inner query, and only these go
    through an aggregate for each bucket.
    """
    waited = f"greatest(started_at - {due_at}, interval '0')"
    return f"""
    INSERT INTO jobs_rollup (minute, queue, type, outcome, jobs, wait_seconds, run_seconds,
        wait_counts, run_counts)
    SELECT date_trunc('minute', now()), queue, type, outcome, sum(jobs),
        extract(epoch FROM sum(waited)), sum(ran), {_counts("wait_bucket")}, {_counts("run_bucket")}
    FROM (
        SELECT queue, type, {outcome} AS outcome, count(*) AS jobs, sum({waited}) AS waited,
            sum(run) AS ran, width_bucket({waited}, {_WAITS}) AS wait_bucket,
            width_bucket(run, {_LENGTHS}) AS run_bucket
        FROM {ended} GROUP BY queue, type, 3, wait_bucket, run_bucket
    ) alike
    GROUP BY queue, type, outcome"""


def summed(column: str) -> str:
    """The sum of such arrays over a group; rows without one count as nothing."""
    each = (f"coalesce(sum({column}[{bucket}]), 0)" for bucket in range(1, BUCKETS + 1))
    return f"ARRAY[{', '.join(each)}]::bigint[]"


def added(one: str, other: str) -> str:
    """The sum of two arrays, either of which may be NULL."""
    each = (
        f"coalesce({one}[{bucket}], 0) + coalesce({other}[{bucket}], 0)"
        for bucket in range(1, BUCKETS + 1)
    )
    return f"ARRAY[{', '.join(each)}]::bigint[]"


def cumulative(counts: Sequence[int]) -> list[tuple[str, int]]:
    """(bound, how many lasted less), as Prometheus writes a histogram; the last bound is +Inf."""
    found: list[tuple[str, int]] = []
    total = 0
    for bound, count in zip([*(f"{each:g}" for each in BOUNDS), "+Inf"], counts, strict=True):
        total += count
        found.append((bound, total))
    return found


def add(totals: Iterable[Sequence[int]]) -> list[int]:
    """The sum of several, bucket by bucket."""
    found = [0] * BUCKETS
    for counts in totals:
        for bucket, count in enumerate(counts):
            found[bucket] += count
    return found
