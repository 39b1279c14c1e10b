"""The same way of draining a queue for all benchmarks that do.

The jobs are enqueued while their queue is paused, the tables are tidied, and the workers start and
wait. Then the queue is resumed, which wakes them all, so that no start-up is measured. The time
goes from the first handler's start to the last completion stored, by the database's clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.stage import Database, Worker, wait_until
from jobs import enqueue_many, lifecycle

QUEUE = "default"
STALL_SECONDS = 240.0
LOOK_SECONDS = 0.05


@dataclass(frozen=True, kw_only=True)
class Load:
    """Jobs that wait in a paused queue."""

    first_id: str
    count: int


@dataclass(frozen=True, kw_only=True)
class Drained:
    jobs: int
    seconds: float

    @property
    def per_second(self) -> float:
        return self.jobs / self.seconds


def numbered(count: int, **more: Any) -> Iterator[dict[str, Any]]:
    """Payloads with a number each, and what else all have."""
    return ({"n": n, **more} for n in range(count))


def fill(database: Database, type: str, payloads: Iterable[dict[str, Any]]) -> Load:
    """Enqueue a job per payload while the queue is paused."""
    lifecycle.pause_queue(QUEUE, reason="benchmark")
    ids = enqueue_many(type, payloads)
    database.tidy()
    return Load(first_id=ids[0], count=len(ids))


def drain(
    database: Database,
    load: Load,
    *,
    processes: int,
    concurrency: int = 16,
    at_least: int | None = None,
    log_level: str = "WARNING",
    records: Path | None = None,
    watch: Callable[[Worker], None] | None = None,
) -> Drained:
    """Let new workers complete the load, or `at_least` so many of it, and stop them.

    `watch` is called about twenty times a second meanwhile.
    """
    with database.workers(
        processes=processes, concurrency=concurrency, log_level=log_level, records=records
    ) as worker:
        look = partial(watch, worker) if watch is not None else None
        since = let_go(database, load, at_least=at_least, watch=look)
    return drained(database, load, since)


def let_go(
    database: Database,
    load: Load,
    *,
    at_least: int | None = None,
    watch: Callable[[], None] | None = None,
) -> datetime:
    """Resume the queue and wait for the completions; returns when that was.

    Raises TimeoutError when nothing moves.
    """
    wanted = load.count if at_least is None else at_least
    before = completed(database)
    since: datetime = database.one("SELECT clock_timestamp()")
    lifecycle.resume_queue(QUEUE)
    seen, seen_at = 0, time.monotonic()
    while (done := completed(database) - before) < wanted:
        if done > seen:
            seen, seen_at = done, time.monotonic()
        elif time.monotonic() - seen_at > STALL_SECONDS:
            raise TimeoutError(f"only {done:,} of {wanted:,} jobs were completed")
        if watch is not None:
            watch()
        time.sleep(LOOK_SECONDS)
    return since


def wait_until_all_ended(database: Database, worker: Worker, seconds: float) -> None:
    """Raises TimeoutError, with what the worker said, if some job is still live then."""
    live = "SELECT count(*) FROM jobs_job WHERE status IN ('pending', 'processing')"
    try:
        wait_until(lambda: not database.one(live), "all jobs have ended", seconds, every=0.1)
    except TimeoutError as error:
        left = database.rows("SELECT status, lost_count, count(*) FROM jobs_job GROUP BY 1, 2")
        raise TimeoutError(f"{error}: {left}\n{worker.log.read_text()[-3_000:]}") from None


def completed(database: Database) -> int:
    """Successes so far. From the rollups: they are few, and looking does not disturb the workers."""
    return int(
        database.one("SELECT coalesce(sum(jobs), 0) FROM jobs_rollup WHERE outcome = 'succeeded'")
    )


def drained(database: Database, load: Load, since: datetime) -> Drained:
    """How long those of a load took that were completed since a moment.

    Others may have been completed earlier: a drain that was stopped half-way hands jobs back.
    Raises if any ended in another way.
    """
    jobs, seconds, others = database.rows(
        "SELECT count(*) FILTER (WHERE completed_at > %s),"
        " extract(epoch FROM max(completed_at)"
        "  - min(started_at) FILTER (WHERE completed_at > %s))::float8,"
        " count(*) FILTER (WHERE status NOT IN ('completed', 'pending'))"
        " FROM jobs_job WHERE id >= %s::uuid",
        since,
        since,
        load.first_id,
    )[0]
    if others:
        raise RuntimeError(f"{others:,} jobs were neither completed nor left alone")
    return Drained(jobs=jobs, seconds=seconds)
