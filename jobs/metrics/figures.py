"""The parts about jobs, queues, workers and events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from jobs import conf, version
from jobs.database import Database
from jobs.errors import TooBroad
from jobs.histograms import counts, cumulative, packed
from jobs.live import stream
from jobs.metrics.gathering import part
from jobs.publishing import TOTALS
from jobs.states import Outcome, State
from jobs.stats import CAP, stats

MOST_PAIRS = 500
"""Types and queues are names that people make up. The pairs that ended fewest jobs are one."""
MOST_QUEUES = 500
MOST_EVENTS = 100
OTHER = "(other)"

# One statement, so one moment: what is folded while it runs is counted once.
ENDED = f"""
WITH counted AS MATERIALIZED (
    SELECT queue, type, outcome, jobs, wait_seconds, run_seconds, timings FROM jobs_total
    UNION ALL
    SELECT queue, type, outcome, jobs, wait_seconds, run_seconds, timings
    FROM jobs_rollup WHERE NOT folded
), summed AS (
    SELECT queue, type, outcome, sum(jobs)::bigint AS jobs, sum(wait_seconds) AS wait_seconds,
        sum(run_seconds) AS run_seconds
    FROM counted GROUP BY queue, type, outcome
), timed AS (
    {packed("counted", "queue", "type", "outcome")}
)
SELECT queue, type, outcome, jobs, wait_seconds, run_seconds, timings
FROM summed LEFT JOIN timed USING (queue, type, outcome)
ORDER BY queue, type, outcome
"""

WORKERS = """
SELECT CASE WHEN w.beat_at <= clock_timestamp() - %(dead_after)s * interval '1 second'
        THEN 'stale' ELSE w.state END AS state,
    count(*), coalesce(sum(w.concurrency), 0), coalesce(sum(least(w.concurrency, held.jobs)), 0),
    coalesce(sum(held.jobs), 0)
FROM jobs_worker w CROSS JOIN LATERAL (
    SELECT count(*) AS jobs FROM (
        SELECT FROM jobs_job j
        WHERE j.status = 'processing' AND j.worker_id = w.id LIMIT %(most)s
    ) capped
) held
WHERE w.state IN ('running', 'draining')
GROUP BY 1
"""

# Of the one that is certainly the furthest off.
SKEW = """
SELECT w.clock_skew_seconds FROM jobs_worker w
WHERE w.state IN ('running', 'draining') AND w.clock_skew_seconds IS NOT NULL
    AND w.beat_at > clock_timestamp() - %(dead_after)s * interval '1 second'
ORDER BY abs(w.clock_skew_seconds) - coalesce(w.clock_skew_uncertainty_seconds, 0) DESC LIMIT 1
"""


@part("attempts")
def attempts(database: Database) -> Iterator[Metric]:
    """Counters and histograms of ended attempts: what the rollups hold."""
    rows = _bounded(database.rows(ENDED, {}))
    ended = CounterMetricFamily(
        "coppice_attempts",
        "Attempts that ended, by outcome. Succeeded ones are completed jobs.",
        labels=["queue", "type", "outcome"],
    )
    waits = HistogramMetricFamily(
        "coppice_wait_seconds",
        "From the moment a job was due to the start of its attempt.",
        labels=["queue", "type"],
    )
    runs = HistogramMetricFamily(
        "coppice_run_seconds", "From the start of an attempt to its end.", labels=["queue", "type"]
    )
    measured: dict[tuple[str, str], list[tuple[Any, ...]]] = {}
    for queue, type, outcome, jobs, *figures in rows:
        ended.add_metric([queue, type, outcome], jobs)
        # What was handed back never ran, or was stopped by a worker that left.
        if outcome != Outcome.HANDED_BACK:
            measured.setdefault((queue, type), []).append(tuple(figures))
    for pair, figures in measured.items():
        buckets = counts(each[2] for each in figures)
        for family, place in ((waits, 0), (runs, 1)):
            total = sum(float(each[place]) for each in figures)
            family.add_metric(list(pair), cumulative(buckets[place]), sum_value=total)
    yield from (ended, waits, runs)


def _bounded(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The same rows, those of the smallest pairs beyond the most taken together."""
    found = list(rows)
    sizes: dict[tuple[str, str], int] = {}
    for queue, type, _, jobs, *_ in found:
        sizes[queue, type] = sizes.get((queue, type), 0) + jobs
    if len(sizes) <= MOST_PAIRS:
        return found
    kept = set(sorted(sizes, key=lambda pair: (-sizes[pair], pair))[: MOST_PAIRS - 1])
    named = [row for row in found if (row[0], row[1]) in kept]
    others: dict[str, list[tuple[Any, ...]]] = {}
    for row in found:
        if (row[0], row[1]) not in kept:
            others.setdefault(row[2], []).append(row)
    for outcome, rest in others.items():
        sums = [sum(row[place] for row in rest) for place in (3, 4, 5)]
        timings = [code for row in rest for code in row[6] or ()]
        named.append((OTHER, OTHER, outcome, *sums, timings))
    return named


@part("queues")
def queues(database: Database) -> Iterator[Metric]:
    """What waits, and what is paused."""
    found = stats(database)
    if State.READY in found.at_least and not found.queues:
        raise TooBroad("took too long to count", field="queues")
    jobs = GaugeMetricFamily(
        "coppice_jobs",
        f"Jobs that are there, by state; of those that wait no more than {CAP} of a queue.",
        labels=["state"],
    )
    for state, count in {**found.states, "processing": found.processing}.items():
        jobs.add_metric([state], count)
    dead = GaugeMetricFamily("coppice_dead_letters", "Jobs in the dead-letter queue.", found.failed)
    depth = GaugeMetricFamily(
        "coppice_queue_depth", f"Jobs that are due; no more than {CAP}.", labels=["queue"]
    )
    age = GaugeMetricFamily(
        "coppice_queue_oldest_seconds",
        "For how long the oldest due job has been due.",
        labels=["queue"],
    )
    paused = GaugeMetricFamily(
        "coppice_queue_paused", "1: no worker claims from it.", labels=["queue"]
    )
    known = {queue.name: queue for queue in found.queues}
    for name in _names(database, known)[:MOST_QUEUES]:
        queue = known.get(name)
        depth.add_metric([name], queue.depth if queue else 0)
        age.add_metric([name], (queue.oldest_wait_seconds if queue else 0) or 0)
        paused.add_metric([name], int(queue.paused) if queue else 0)
    yield from (jobs, dead, depth, age, paused)


def _names(database: Database, known: Iterable[str]) -> list[str]:
    """The queues that hold something, and behind them those that ended something: at 0, not gone."""
    rows = database.rows(
        "SELECT DISTINCT queue FROM jobs_total ORDER BY queue LIMIT %(most)s", {"most": MOST_QUEUES}
    )
    return list(dict.fromkeys([*known, *(row[0] for row in rows)]))


@part("workers")
def workers(database: Database) -> Iterator[Metric]:
    """Who works, and how busy they are."""
    params = {"dead_after": conf.get().dead_after_seconds, "most": CAP}
    rows = {row[0]: row[1:] for row in database.rows(WORKERS, params)}
    count = GaugeMetricFamily(
        "coppice_workers",
        "Worker processes; stale: not heard of for too long.",
        labels=["state"],
    )
    for state in ("running", "draining", "stale"):
        count.add_metric([state], rows.get(state, (0,))[0])
    living = [row for state, row in rows.items() if state != "stale"]
    slots = GaugeMetricFamily(
        "coppice_slots", "Slots of living workers.", sum(int(row[1]) for row in living)
    )
    busy = GaugeMetricFamily(
        "coppice_slots_busy", "Slots that run a job.", sum(int(row[2]) for row in living)
    )
    held = GaugeMetricFamily(
        "coppice_jobs_held",
        "Jobs that workers have claimed: those that run, and those they start next.",
        sum(int(row[3]) for row in rows.values()),
    )
    skew = GaugeMetricFamily(
        "coppice_clock_skew_seconds",
        "How far the clock of the living worker that is the furthest off is ahead of the database's.",
    )
    for (seconds,) in database.rows(SKEW, {"dead_after": params["dead_after"]}):
        skew.add_metric([], seconds)
    yield from (count, slots, busy, held, skew)


@part("events")
def events(database: Database) -> Iterator[Metric]:  # noqa: ARG001
    """What live pages were not told. Without Redis nobody can say; processes send it later."""
    up = GaugeMetricFamily("coppice_redis_up", "1: Redis answers.")
    dropped = CounterMetricFamily(
        "coppice_events_dropped",
        "Events that were not sent singly: there were too many, or Redis was away.",
        labels=["event"],
    )
    answers = 0
    if stream.is_configured():
        try:
            totals: Any = stream.client().hgetall(conf.key(TOTALS))
        except stream.AWAY:
            totals = {}
        else:
            answers = 1
        for name, count in sorted(totals.items())[:MOST_EVENTS]:
            dropped.add_metric([name.decode(errors="replace")], int(count))
    up.add_metric([], answers)
    yield from (up, dropped)


@part("build")
def build(database: Database) -> Iterator[Metric]:  # noqa: ARG001
    info = GaugeMetricFamily("coppice_build_info", "The version that answers.", labels=["version"])
    info.add_metric([version.ours()], 1)
    yield info
