"""How much was done and how long it took, by time: what the charts draw.

From the rollups of each minute. What is over does not change any more, so it is summed once for all
who look and kept by the cache; each look sums the last few minutes only. Percentiles come from merged
histograms, and a stretch in which nothing ended has none.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from jobs.console.kept import kept, recall, remember
from jobs.database import Database, DjangoDatabase
from jobs.histograms import counts, packed, percentile
from jobs.limits import limited

SECONDS = 3.0
LATE_SECONDS = 180
"""A stretch that ended so long ago is taken to be complete."""
LASTS_SECONDS = 3_600
"""For so long sums are believed: a transaction that was late is seen then."""
SHORTEST_SECONDS = 15
"""A stretch that has only begun says nothing yet."""
FRESH_SECONDS = 2.0
SHARE = 0.95

SUMS = f"""
WITH lately AS MATERIALIZED (
    SELECT floor(extract(epoch FROM minute) / %(step)s)::bigint * %(step)s AS start, outcome, jobs,
        timings
    FROM jobs_rollup
    WHERE minute >= to_timestamp(%(begin)s) AND outcome <> 'handed_back'
        AND (%(queue)s = '' OR queue = %(queue)s)
), summed AS (
    SELECT start, coalesce(sum(jobs) FILTER (WHERE outcome = 'succeeded'), 0) AS completed,
        coalesce(sum(jobs) FILTER (WHERE outcome IN ('failed', 'timed_out', 'lost')), 0) AS failed
    FROM lately GROUP BY start
), timed AS (
    {packed("lately", "start")}
)
SELECT start, completed, failed, timings FROM summed LEFT JOIN timed USING (start)
"""

FIRST = "SELECT extract(epoch FROM min(minute))::float8 FROM jobs_rollup"


@dataclass(frozen=True, kw_only=True)
class Span:
    """How far back, and in which steps."""

    name: str
    label: str
    seconds: int
    step: int


SPANS = {
    span.name: span
    for span in (
        Span(name="1h", label="1 h", seconds=3_600, step=60),
        Span(name="6h", label="6 h", seconds=21_600, step=300),
        Span(name="24h", label="24 h", seconds=86_400, step=900),
        Span(name="7d", label="7 d", seconds=604_800, step=7_200),
    )
}
USUAL = SPANS["1h"]


@dataclass(frozen=True, kw_only=True)
class Figures:
    """One value for each time, in its order; None where there is no data."""

    span: str
    step: int
    times: list[int]
    """When each stretch begins, epoch seconds."""
    completed: list[float | None]
    failed: list[float | None]
    """Attempts that failed, timed out or were lost. Both a minute."""
    wait: list[float | None]
    run: list[float | None]
    """Seconds that 95 % did not exceed."""

    @property
    def is_empty(self) -> bool:
        return not any(self.completed) and not any(self.failed)


def figures(span: Span = USUAL, *, queue: str = "") -> Figures:
    """Of everything, or of one queue. Raises TooBroad after 3 s."""
    name = f"figures:{span.name}:{queue}"
    return Figures(**kept(name, FRESH_SECONDS, lambda: vars(_read(span, queue))))


def before_now(found: Figures) -> float | None:
    """The mean of completed jobs a minute over the span; None: nothing is known."""
    known = [value for value in found.completed if value is not None]
    return sum(known) / len(known) if known else None


def _read(span: Span, queue: str) -> Figures:
    database = DjangoDatabase()
    with limited(database, seconds=SECONDS) as now:
        begin = int((now - span.seconds) // span.step + 1) * span.step
        times = list(range(begin, int(now) + 1, span.step))
        first = database.rows(FIRST, {})[0][0]
        sums = {} if first is None else _sums(database, span, queue, times, now)
    if now - times[-1] < min(SHORTEST_SECONDS, span.step):
        times.pop()
    # Before the first rollup nobody counted; behind it no row means that nothing ended.
    starts = now if first is None else first // span.step * span.step
    found = Figures(
        span=span.name, step=span.step, times=times, completed=[], failed=[], wait=[], run=[]
    )
    for start in times:
        completed, failed, wait, run = sums.get(start, (0, 0, None, None))
        is_known = start >= starts
        minutes = max(1.0, min(span.step, now - start)) / 60
        found.completed.append(round(completed / minutes, 2) if is_known else None)
        found.failed.append(round(failed / minutes, 2) if is_known else None)
        found.wait.append(wait)
        found.run.append(run)
    return found


def _sums(
    database: Database, span: Span, queue: str, times: list[int], now: float
) -> dict[int, tuple[int, int, float | None, float | None]]:
    """By stretch: completed, failed, wait and run. What is over comes from the cache."""
    name = f"sums:{span.step}:{queue}"
    kept_sums: dict[str, Any] = recall(name) or {}
    if not 0 <= time.time() - kept_sums.get("since", 0) < LASTS_SECONDS:
        kept_sums = {"since": time.time(), "until": 0, "sums": {}}
    begin = max(times[0], kept_sums["until"])
    sums = {start: found for start, found in kept_sums["sums"].items() if start >= times[0]}
    rows = database.rows(SUMS, {"step": span.step, "begin": begin, "queue": queue})
    for start, completed, failed, timings in rows:
        waits, runs = counts([timings])
        sums[int(start)] = (
            int(completed),
            int(failed),
            _rounded(percentile(waits, SHARE)),
            _rounded(percentile(runs, SHARE)),
        )
    until = int((now - LATE_SECONDS) // span.step) * span.step
    if until > begin:
        whole = {start: found for start, found in sums.items() if start < until}
        remember(name, {**kept_sums, "until": until, "sums": whole}, LASTS_SECONDS)
    return sums


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else float(f"{seconds:.4g}")
