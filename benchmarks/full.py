"""A table with years behind it, beside an empty one: claims, the drain, lists and statistics.

The finished jobs are rows of the job table alone, without their attempts and log lines; claims and
lists do not read those.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.draining import QUEUE, Load, drain
from benchmarks.figures import Figure, Goal, percentile
from benchmarks.looks import first_look_ms
from benchmarks.stage import Database, Scale, Stage
from jobs import lifecycle
from jobs.database import DjangoDatabase
from jobs.listing import Filters, page, queryset
from jobs.states import State, Status
from jobs.stats import stats

CHUNK = 500_000

# Ended within the last days, so that retention lets them be; a hundredth each cancelled and dead.
FINISHED = """
INSERT INTO jobs_job (id, type, payload, status, attempt_count, lease_epoch, scheduled_at, due_at,
    created_at, updated_at, started_at, completed_at, failed_at, cancelled_at, last_error,
    error_fingerprint)
SELECT uuidv7(interval '-6 days' + n / %s::float8 * interval '5 days'),
    'noop', jsonb_build_object('n', n), status, 1, 1, at, at, at, at, at,
    CASE WHEN status = 'completed' THEN at END, CASE WHEN status = 'failed' THEN at END,
    CASE WHEN status = 'cancelled' THEN at END,
    CASE WHEN status = 'failed' THEN 'ValueError: wrong' ELSE '' END,
    CASE WHEN status = 'failed' THEN 'fingerprint ' || n / 100 %% 50 ELSE '' END
FROM generate_series(%s::integer, %s::integer) AS n
CROSS JOIN LATERAL (SELECT
    now() - interval '6 days' + n / %s::float8 * interval '5 days' AS at,
    CASE n %% 100 WHEN 0 THEN 'failed' WHEN 1 THEN 'cancelled' ELSE 'completed' END AS status
) made
"""
# Due over the last hour, oldest first.
PENDING = """
INSERT INTO jobs_job (id, type, payload, scheduled_at, due_at)
SELECT uuidv7(), 'noop', jsonb_build_object('n', n), at, at
FROM generate_series(1, %s::integer) AS n
CROSS JOIN LATERAL (SELECT now() - interval '1 hour' * (1 - n / %s::float8) AS at) made
"""


@dataclass(frozen=True, kw_only=True)
class Size:
    finished: int
    pending: int
    drained: int
    looks: int


SIZES = {
    Scale.FULL: Size(finished=10_000_000, pending=1_000_000, drained=150_000, looks=100),
    Scale.QUICK: Size(finished=200_000, pending=50_000, drained=20_000, looks=30),
    Scale.SMOKE: Size(finished=2_000, pending=600, drained=200, looks=3),
}


def measure(stage: Stage) -> list[Figure]:
    size = SIZES[stage.scale]
    empty = _Found()
    with_history = _Found()
    for _ in range(stage.repeat):
        with stage.database() as database:
            _add_pending(database, size.drained * 2)
            _look(database, size, empty)
            _drain(database, size, empty)
    with stage.database() as database:
        _add_finished(database, size.finished, stage.say)
        _add_pending(database, size.pending)
        stage.say(f"{size.finished + size.pending:,} rows are there")
        for _ in range(stage.repeat):
            _look(database, size, with_history)
            _drain(database, size, with_history)
            _add_pending(database, size.drained)
    return [
        *_pair(
            "drain", "jobs/s", empty.rates, with_history.rates, Goal(at_least=0.9, of_ratio=True)
        ),
        *_pair("first look of 100", "ms", empty.claims, with_history.claims, None),
        *_pair("list, p95", "ms", empty.lists, with_history.lists, Goal(at_most=100)),
        *_pair("worst list, p95", "ms", empty.worst, with_history.worst, Goal(at_most=100)),
        *_pair("statistics, p95", "ms", empty.stats, with_history.stats, Goal(at_most=20)),
    ]


class _Found:
    def __init__(self) -> None:
        self.rates: list[float] = []
        self.claims: list[float] = []
        self.lists: list[float] = []
        self.worst: list[float] = []
        self.stats: list[float] = []


def _pair(
    name: str, unit: str, empty: list[float], full: list[float], goal: Goal | None
) -> list[Figure]:
    beside = f"{name}, empty table"
    return [
        Figure(name=beside, unit=unit, samples=empty),
        Figure(name=f"{name}, full table", unit=unit, samples=full, beside=beside, goal=goal),
    ]


def _add_finished(database: Database, count: int, say: Callable[[str], None]) -> None:
    for first in range(1, count + 1, CHUNK):
        last = min(count, first + CHUNK - 1)
        database.rows(FINISHED, count, first, last, count)
        say(f"{last:,} finished rows")


def _add_pending(database: Database, count: int) -> None:
    lifecycle.pause_queue(QUEUE, reason="benchmark")
    database.rows(PENDING, count, count)
    database.tidy()


def _drain(database: Database, size: Size, found: _Found) -> None:
    first = database.one(
        "SELECT id::text FROM jobs_job WHERE status = 'pending' ORDER BY jobs_job.id LIMIT 1"
    )
    load = Load(first_id=first, count=size.pending)
    found.rates.append(
        drain(database, load, processes=database.stage.processes, at_least=size.drained).per_second
    )


def _look(database: Database, size: Size, found: _Found) -> None:
    """Times of single statements: one claim, each list, the statistics."""
    lifecycle.resume_queue(QUEUE)
    found.claims.append(first_look_ms(database, "noop"))
    lifecycle.pause_queue(QUEUE, reason="benchmark")
    times = [_times(size.looks, show) for show in _lists()]
    found.lists.append(percentile([each for several in times for each in several], 95))
    found.worst.append(max(percentile(several, 95) for several in times))
    found.stats.append(percentile(_times(size.looks, lambda: stats(DjangoDatabase())), 95))


def _lists() -> list[Callable[[], object]]:
    filters = [
        Filters(),
        *(Filters(status=status) for status in Status),
        *(Filters(state=state) for state in State),
        Filters(type="noop", queue=QUEUE, priority=2),
        Filters(status=Status.COMPLETED, type="noop"),
    ]
    first_pages = [_page_of(each) for each in filters]
    middle = queryset(Filters(status=Status.COMPLETED))[1_000:1_001].first()
    if middle is not None:
        first_pages.append(_page_of(Filters(status=Status.COMPLETED), after=str(middle.id)))
    return first_pages


def _page_of(filters: Filters, after: str | None = None) -> Callable[[], object]:
    return lambda: page(filters, after=after)


def _times(count: int, work: Callable[[], object]) -> list[float]:
    times = []
    for _ in range(count):
        started = time.perf_counter()
        work()
        times.append((time.perf_counter() - started) * 1000)
    return times
