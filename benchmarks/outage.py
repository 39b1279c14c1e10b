"""PostgreSQL goes away under four working processes, and comes back.

Beside the seconds until work goes on are those of a bare client that tries ten times a second; both
count from the moment at which the server is started again.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import psycopg

from benchmarks import records
from benchmarks.draining import QUEUE, fill, numbered, wait_until_all_ended
from benchmarks.figures import Figure, Goal
from benchmarks.stage import Scale, Stage, wait_until
from jobs import lifecycle

OUTAGE_SECONDS = {Scale.FULL: 30.0, Scale.QUICK: 8.0, Scale.SMOKE: 1.0}
COUNTS = {Scale.FULL: 12_000, Scale.QUICK: 6_000, Scale.SMOKE: 300}
PROCESSES = {Scale.FULL: 4, Scale.QUICK: 4, Scale.SMOKE: 2}
SLOTS = 8
SECONDS = 0.05
STOP_AT = 0.3
"""The part of the jobs that has started when the server goes."""
END_SECONDS = 120.0


def measure(stage: Stage) -> list[Figure]:
    found = _outage(stage, COUNTS[stage.scale], OUTAGE_SECONDS[stage.scale])
    bare = "a bare client has its answer after"
    return [
        Figure(name="away for", unit="s", samples=[found["away"]]),
        Figure(name="lost", unit="jobs", samples=[found["lost"]], goal=Goal(at_most=0)),
        Figure(
            name="started more than once",
            unit="jobs",
            samples=[found["again"]],
            goal=Goal(at_most=0),
        ),
        Figure(name="attempts beyond one", unit="attempts", samples=[found["attempts"]]),
        Figure(name=bare, unit="s", samples=[found["bare"]]),
        Figure(name="the next job starts after", unit="s", samples=[found["next"]], beside=bare),
        Figure(name="log lines of the workers", unit="lines", samples=[found["lines"]]),
    ]


def _outage(stage: Stage, count: int, seconds: float) -> dict[str, float]:
    path = stage.file("outage")
    with stage.database() as database:
        fill(database, "watched_sleep", numbered(count, seconds=SECONDS))
        with database.workers(
            processes=PROCESSES[stage.scale], concurrency=SLOTS, records=path
        ) as worker:
            lifecycle.resume_queue(QUEUE)
            wait_until(
                lambda: len(records.read(path).starts) >= STOP_AT * count, "many have started", 60
            )
            database.close()
            gone_at = time.monotonic()
            stage.server.stop()
            with ThreadPoolExecutor(1) as pool:
                answer = pool.submit(_answered_at, database.url)
                time.sleep(seconds)
                back_at = time.monotonic()
                stage.server.start()
                answered_at = answer.result()
            wait_until_all_ended(database, worker, END_SECONDS)
        completed, attempts = database.rows(
            "SELECT (SELECT count(completed_at) FROM jobs_job), (SELECT count(*) FROM jobs_attempt)"
        )[0]
        lines = len(worker.log.read_text().splitlines())
    starts = records.read(path).starts
    later = [at for times in starts.values() for at in times if at > back_at]
    return {
        "away": back_at - gone_at,
        "lost": count - completed,
        "again": sum(len(times) > 1 for times in starts.values()),
        "attempts": attempts - count,
        "bare": answered_at - back_at,
        "next": min(later, default=back_at) - back_at,
        "lines": lines,
    }


def _answered_at(url: str) -> float:
    while True:
        try:
            with psycopg.connect(url) as connection:
                connection.execute("SELECT 1")
                return time.monotonic()
        except psycopg.OperationalError:
            time.sleep(0.1)
