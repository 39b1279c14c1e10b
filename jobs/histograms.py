"""How many attempts waited, and ran, how long: counts by fixed bounds, packed into arrays.

A bucket counts what lasted at least the bound before and less than its own; the last one all that
took longer. Fixed bounds can be added up over minutes, queues and types, which percentiles cannot.

Attempts are counted by pairs of buckets, (how long it waited, how long it ran). Few pairs occur, so
a row holds an array of `count * 1024 + pair`, where `pair` is `wait bucket * 32 + run bucket`: one
aggregate in the completing transaction, where one for each bucket would cost as much as the rest of
a small batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

BOUNDS = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
    1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1_800.0, 7_200.0,
)  # fmt: skip
"""Seconds. What is stored was counted by these: they cannot be changed without it."""
BUCKETS = len(BOUNDS) + 1
PER_WAIT, PAIRS = 32, 1_024
assert BUCKETS <= PER_WAIT

_SECONDS = ",".join(f"{bound:g}" for bound in BOUNDS)
_INTERVALS = ",".join(f"{bound:g}s" for bound in BOUNDS)
_LENGTHS = f"'{{{_SECONDS}}}'::float8[]"
_WAITS = f"'{{{_INTERVALS}}}'::interval[]"


def rollup_of(ended: str, *, outcome: str, due_at: str) -> str:
    """The statement that counts what a completing transaction ended, from the rows of `ended`."""
    waited = f"greatest(started_at - {due_at}, interval '0')"
    return f"""
    INSERT INTO jobs_rollup (minute, queue, type, outcome, jobs, wait_seconds, run_seconds, timings)
    SELECT date_trunc('minute', now()), queue, type, outcome, sum(jobs),
        extract(epoch FROM sum(waited)), sum(ran), array_agg(jobs * {PAIRS} + pair)
    FROM (
        SELECT queue, type, {outcome} AS outcome, count(*) AS jobs, sum({waited}) AS waited,
            sum(run) AS ran, width_bucket({waited}, {_WAITS}) * {PER_WAIT}
                + width_bucket(run, {_LENGTHS}) AS pair
        FROM {ended} GROUP BY queue, type, 3, pair
    ) alike
    GROUP BY queue, type, outcome"""


def packed(source: str, *keys: str) -> str:
    """The query that adds up the arrays of many rows, for each combination of the keys."""
    names = ", ".join(keys)
    return f"""SELECT {names}, array_agg(jobs * {PAIRS} + pair) AS timings FROM (
        SELECT {names}, mod(code, {PAIRS}) AS pair, sum(code / {PAIRS})::bigint AS jobs
        FROM {source} CROSS JOIN LATERAL unnest(timings) AS code GROUP BY {names}, pair
    ) pairs GROUP BY {names}"""


def merged(one: str, other: str) -> str:
    """The expression that adds up two arrays, either of which may be NULL."""
    return f"""(SELECT array_agg(jobs * {PAIRS} + pair) FROM (
        SELECT mod(code, {PAIRS}) AS pair, sum(code / {PAIRS})::bigint AS jobs
        FROM unnest({one} || {other}) AS code GROUP BY pair
    ) pairs)"""


def counts(timings: Iterable[Sequence[int] | None]) -> tuple[list[int], list[int]]:
    """How many waited, and how many ran, how long: a count for each bucket."""
    waits, runs = [0] * BUCKETS, [0] * BUCKETS
    for codes in timings:
        for code in codes or ():
            jobs, pair = divmod(code, PAIRS)
            wait, run = divmod(pair, PER_WAIT)
            waits[wait] += jobs
            runs[run] += jobs
    return waits, runs


def pack(jobs: int, *, wait: int, run: int) -> int:
    """So many jobs of one pair of buckets."""
    return jobs * PAIRS + wait * PER_WAIT + run


def cumulative(buckets: Sequence[int]) -> list[tuple[str, float]]:
    """(bound, how many lasted less), as Prometheus writes a histogram; the last bound is +Inf."""
    found: list[tuple[str, float]] = []
    total = 0
    for bound, count in zip([*(f"{each:g}" for each in BOUNDS), "+Inf"], buckets, strict=True):
        total += count
        found.append((bound, total))
    return found


def percentile(counts: Sequence[int | None], share: float) -> float | None:
    """The seconds that `share` (0 to 1) did not exceed, by its place within a bucket.

    None: nothing was counted. What took longer than the last bound is told as that bound.
    """
    total = sum(count or 0 for count in counts)
    if not total:
        return None
    goal, seen, low = share * total, 0, 0.0
    for high, given in zip(BOUNDS, counts, strict=False):
        count = given or 0
        if count and seen + count >= goal:
            return low + (high - low) * max(0.0, goal - seen) / count
        seen += count
        low = high
    return BOUNDS[-1]
