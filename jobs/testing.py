"""Test code that enqueues: run the due jobs here and now, or assert what was enqueued.

    with inline():                       # jobs run where they are enqueued
        register(request)

    register(request)
    assert_enqueued("send_email", to="user@example.com")
    assert run_due_jobs() == {"succeeded": 1}

Everything goes through the same claim, execution and completion as in a worker, in the test's own
thread and database transaction, so it works inside `TestCase` and with pytest-django's `db`. The
pytest fixture `jobs` (`jobs.pytest_plugin`) offers the same functions.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from asgiref.sync import async_to_sync
from django.db import connections, transaction
from psycopg.pq import TransactionStatus

from jobs import conf, edges, enqueueing, execution, registry, schedules
from jobs.claim import Lane, claim, queues_with_work
from jobs.claimed import Claimed
from jobs.complete import complete
from jobs.context import Context, Line
from jobs.database import DjangoDatabase
from jobs.endings import Ending, Success
from jobs.ids import new_id
from jobs.models import Job, JobLog
from jobs.states import Outcome

MAKE_DUE = """
UPDATE jobs_job SET due_at = statement_timestamp()
WHERE status = 'pending' AND unmet_dependencies = 0 AND due_at > statement_timestamp()
    AND next_retry_at IS NOT NULL
"""


def run_due_jobs(
    *,
    queues: Sequence[str] | None = None,
    limit: int = 10_000,
    retries: bool = False,
    ticks: bool = False,
) -> dict[str, int]:
    """Run what is due, and what becomes due by that; returns how many attempts ended how.

    Jobs that were scheduled for later stay. With `retries`, jobs that wait for another attempt or a
    snooze run at once, until they end. With `ticks`, due schedules make their jobs first. Raises
    AssertionError when more than `limit` attempts run: a job that never ends.
    """
    database = DjangoDatabase()
    counts: Counter[str] = Counter()
    if ticks:
        schedules.tick(database)
    while True:
        edges.settle_leftovers(database, 10_000, age=0)
        if retries:
            database.run(MAKE_DUE, {})
        job = _claim(database, queues)
        if job is None:
            return dict(counts)
        counts[_run(database, job)] += 1
        if counts.total() > limit:
            raise AssertionError(f"more than {limit:,} attempts ran: {dict(counts)}")


@contextmanager
def inline(*, retries: bool = False) -> Iterator[None]:
    """Within this block each enqueue runs what is due before it returns."""
    running = False

    def run() -> None:
        nonlocal running
        if not running:  # a handler that enqueues is served by the loop that runs it
            running = True
            try:
                run_due_jobs(retries=retries)
            finally:
                running = False

    before, enqueueing.after_enqueue = enqueueing.after_enqueue, run
    try:
        yield
    finally:
        enqueueing.after_enqueue = before


def enqueued(type: str | None = None, **payload: Any) -> list[Job]:
    """The live jobs of a type whose payload holds these values, oldest first."""
    found = Job.objects.live().order_by("id")
    if type is not None:
        found = found.filter(type=type)
    return list(found.filter(payload__contains=payload) if payload else found)


def assert_enqueued(type: str, *, count: int | None = None, **payload: Any) -> Job:
    """Assert that such a job is live (`count`: exactly so many); returns the oldest."""
    found = enqueued(type, **payload)
    if found and (count is None or len(found) == count):
        return found[0]
    wanted = f"{type} with {payload}" if payload else type
    expected = "a live job" if count is None else f"{count} live jobs"
    there = "\n".join(f"  {job.type} {job.payload}" for job in enqueued()) or "  none"
    raise AssertionError(
        f"expected {expected} of {wanted}, found {len(found)}; live jobs are:\n{there}"
    )


def assert_not_enqueued(type: str, **payload: Any) -> None:
    found = enqueued(type, **payload)
    if found:
        raise AssertionError(f"{len(found)} live jobs of {type}, the first with {found[0].payload}")


class _Desk:
    """Takes what a handler says to its tables, once it has ended: an async one could not wait."""

    def __init__(self) -> None:
        self._said: list[Callable[[], object]] = []

    def log(self, line: Line) -> None:
        self._said.append(
            lambda: JobLog.objects.create(
                job_id=line.job_id,
                event="log",
                attempt=line.attempt,
                level=line.level,
                message=line.message,
                data=None if line.data is None else json.loads(line.data),
            )
        )

    def progress(self, job: Claimed, done: int, total: int | None) -> None:
        rows = Job.objects.filter(id=job.id, lease_epoch=job.lease_epoch)
        self._said.append(lambda: rows.update(progress_done=done, progress_total=total))

    def write(self) -> None:
        for say in self._said:
            say()

    def should_yield(self, job: Claimed) -> bool:  # noqa: ARG002
        return False


def _claim(database: DjangoDatabase, queues: Sequence[str] | None) -> Claimed | None:
    settings = conf.get()
    names = queues_with_work(database) if queues is None else queues
    lanes = [
        Lane(queue, type, priority)
        for queue in names
        for type in registry.types()
        for priority in (1, 2, 3)
    ]
    jobs = claim(
        database,
        worker_id=new_id(),
        lanes=lanes,
        limit=1,
        aging_minutes=settings.aging_minutes,
        aging_step=settings.aging_step,
    )
    return jobs[0] if jobs else None


@contextmanager
def _mended(alias: str) -> Iterator[None]:
    """What breaks the test's own transaction takes back what the handler wrote, and no more. In a
    worker, where a plain handler has no transaction around it, it would break nothing.
    """
    connection = connections[alias]
    if not connection.in_atomic_block:
        yield
        return
    savepoint = transaction.savepoint_create(using=alias)
    yield
    is_aborted = connection.connection.pgconn.transaction_status == TransactionStatus.INERROR
    if is_aborted or connection.needs_rollback:
        connection.needs_rollback = False
        transaction.savepoint_rollback(savepoint, using=alias)
    else:
        transaction.savepoint_commit(savepoint, using=alias)


def _run(database: DjangoDatabase, job: Claimed) -> str:
    job.received = time.monotonic()
    handler = registry.get(job.type)
    desk = _Desk()
    context = Context(job, desk, timeout=execution.timeout_of(handler))
    worker_id = str(Job.objects.values_list("worker_id", flat=True).get(id=job.id))
    written = None
    if handler.atomic:
        ending, written = execution.run_atomic(handler, job, context, worker_id)
    else:
        with _mended(database.alias):
            if handler.is_async:
                ending = async_to_sync(execution.run_async)(handler, job, context)
            else:
                ending = execution.run_sync(handler, job, context)
    desk.write()
    if written is None:
        written = complete(
            database,
            worker_id=worker_id,
            successes=[ending] if isinstance(ending, Success) else [],
            endings=[ending] if isinstance(ending, Ending) else [],
        )
    edges.settle(database, written.to_settle)
    return str(ending.outcome if isinstance(ending, Ending) else Outcome.SUCCEEDED)
