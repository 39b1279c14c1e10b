"""Lists and statistics over REST on a table of millions, beside one of a thousand.

Requests go through Django and REST framework in this process, with a token, as a server would hand
them over: what is measured is the time in the server, without a network.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from rest_framework.test import APIClient

from benchmarks.figures import Figure, Goal, percentile
from benchmarks.stage import Database, Scale, Stage
from jobs import listing, tokens
from jobs.filtering import Filters, id_at
from jobs.states import Status

JOBS = "/api/v1/jobs"
DAYS = 6
"""All are made within the last days, so that retention lets them be."""
BLOCK = 10_000
TYPES = [f"type_{n}" for n in range(20)]
QUEUES = ["default", "mail", "media", "reports"]

COPY = """
COPY jobs_job (id, type, queue, payload, status, priority, attempt_count, max_attempts, lease_epoch,
    scheduled_at, due_at, created_at, updated_at, started_at, completed_at, failed_at, cancelled_at,
    worker_id, last_error, error_fingerprint, metadata)
FROM STDIN
"""
# Of a thousand jobs; the rest is completed.
SHARES = {Status.PENDING: 60, Status.FAILED: 20, Status.CANCELLED: 20}
PROCESSING = 200


@dataclass(frozen=True, kw_only=True)
class Size:
    jobs: int
    beside: int
    looks: int


SIZES = {
    Scale.FULL: Size(jobs=5_000_000, beside=1_000, looks=50),
    Scale.QUICK: Size(jobs=200_000, beside=1_000, looks=20),
    Scale.SMOKE: Size(jobs=3_000, beside=300, looks=2),
}


def measure(stage: Stage) -> list[Figure]:
    size = SIZES[stage.scale]
    few = _measured(stage, size.beside, size)
    many = _measured(stage, size.jobs, size)
    figures = []
    for name, samples in many.items():
        beside = f"{name}, p95, {size.beside:,} jobs"
        goal = Goal(at_most=20 if name == "statistics" else 100)
        figures += [
            Figure(name=beside, unit="ms", samples=few[name]),
            Figure(
                name=f"{name}, p95, {size.jobs:,} jobs",
                unit="ms",
                samples=samples,
                beside=beside,
                goal=goal,
            ),
        ]
    return figures


def _measured(stage: Stage, count: int, size: Size) -> dict[str, list[float]]:
    with stage.database() as database:
        fill(stage, database, count)
        database.tidy()
        client = _client()
        pages = _pages(count)
        for path in pages.values():
            client.get(path)  # what a process does once
        found: dict[str, list[float]] = {name: [] for name in pages}
        for _ in range(stage.repeat):
            for name, path in pages.items():
                found[name].append(percentile(_times(client, path, size.looks), 95))
    return found


def _pages(count: int) -> dict[str, str]:
    deep = _deep(Filters(internal=False), count)
    deep_completed = _deep(Filters(status=Status.COMPLETED, internal=False), count)
    hour = _text(datetime.now(tz=UTC) - timedelta(days=DAYS / 2))
    until = _text(datetime.now(tz=UTC) - timedelta(days=DAYS / 2 - 1 / 24))
    return {
        "first page": f"{JOBS}?limit=50",
        **{f"{status} jobs": f"{JOBS}?limit=50&status={status}" for status in Status},
        "of a type and queue": f"{JOBS}?limit=50&type=type_3&queue=mail&status=completed",
        "an hour of days ago": f"{JOBS}?limit=50&created_after={hour}&created_before={until}",
        "page 200": f"{JOBS}?limit=50&page={min(200, count // 50)}",
        "deep behind a cursor": f"{JOBS}?limit=50&cursor={deep}",
        "deep among the completed": f"{JOBS}?limit=50&status=completed&cursor={deep_completed}",
        "dead letters": f"{JOBS}/dlq?limit=50",
        "statistics": f"{JOBS}/stats",
    }


def _deep(filters: Filters, count: int) -> str:
    """The cursor of a page nine tenths down the list."""
    from jobs.api.pagination import write_cursor

    moment = datetime.now(tz=UTC) - timedelta(days=DAYS * 0.9)
    (job,) = listing.queryset(filters).filter(id__lt=id_at(moment))[:1]
    assert count
    return write_cursor("n", str(job.id))


def _times(client: Any, path: str, looks: int) -> list[float]:
    times = []
    for _ in range(looks):
        started = time.perf_counter()
        response = client.get(path)
        times.append((time.perf_counter() - started) * 1000)
        assert response.status_code == 200, response.content
    return times


def _client() -> Any:
    user = User.objects.create_superuser("benchmark")
    _, key = tokens.create(user, "benchmark")
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Token {key}")
    return client


def fill(stage: Stage, database: Database, count: int) -> None:
    now = datetime.now(tz=UTC)
    with database.connection.cursor() as cursor, cursor.copy(COPY) as copy:
        for first in range(0, count, BLOCK):
            copy.write("".join(_lines(first, min(first + BLOCK, count), count, now)))
            if first % 500_000 == 0 and first:
                stage.say(f"{first:,} jobs")


def _lines(first: int, last: int, count: int, now: datetime) -> Iterator[str]:
    """Rows for COPY, the oldest first; ids begin with their time, as the product makes them."""
    none = r"\N"
    worker = str(id_at(now))
    for n in range(first, last):
        at = now - timedelta(days=DAYS) * (1 - n / count)
        moment = at.isoformat()
        id = f"{int(at.timestamp() * 1000):012x}7{n % 4096:03x}8{n:015x}"
        status = _status(n, count)
        ended = [moment if status is each else none for each in ENDS]
        error = "ValueError: no such order" if status is Status.FAILED else ""
        yield "\t".join(
            (
                id,
                TYPES[n % 20],
                QUEUES[n // 20 % 4],
                f'{{"order": {n}, "note": "as every day"}}',
                status,
                str(1 + n % 3),
                "1",
                str(3 + n % 5),
                "1",
                moment,
                moment,
                moment,
                moment,
                none if status is Status.PENDING else moment,
                *ended,
                worker if status is Status.PROCESSING else none,
                error,
                f"fingerprint {n % 50}" if error else "",
                "{}\n",
            )
        )


ENDS = (Status.COMPLETED, Status.FAILED, Status.CANCELLED)


def _status(n: int, count: int) -> Status:
    if n >= count - min(PROCESSING, count // 10):
        return Status.PROCESSING
    place = n * 7 % 1_000
    for status, share in SHARES.items():
        if place < share:
            return status
        place -= share
    return Status.COMPLETED


def _text(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"
