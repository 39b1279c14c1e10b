"""How many jobs there are, by status, state and queue, without ever counting many of them.

Counts are exact up to `CAP`. Above it a status is estimated from what PostgreSQL keeps about its
partial index, and a state or a queue's depth is "at least": each answer says which.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jobs.claim import IS_PAUSED
from jobs.database import Database
from jobs.errors import TooBroad
from jobs.limits import limited
from jobs.states import State, Status

CAP = 10_000
SECONDS = 2.0
LANES = 1_000
"""The most (queue, type, priority) that are looked into."""

INDEXES = {
    Status.PENDING: "job_pending",
    Status.PROCESSING: "job_processing",
    Status.COMPLETED: "job_completed",
    Status.FAILED: "job_dead",
    Status.CANCELLED: "job_cancelled",
}

COUNT = "SELECT " + ", ".join(
    f"(SELECT count(*) FROM (SELECT FROM jobs_job WHERE status = '{status}'"
    f"{' AND attempt_count >= 0' if status is Status.PENDING else ''} LIMIT %(most)s) c)"
    for status in INDEXES
)

# Kept by vacuum and analyze; -1 where neither has run yet.
ESTIMATE = """
SELECT i.name, c.reltuples::bigint
FROM unnest(%(indexes)s::text[]) AS i (name) JOIN pg_class c ON c.oid = to_regclass(i.name)
"""

# The jobs that wait for something else than a time: few, and all in one small index.
WAITING = """
SELECT count(*), count(*) FILTER (WHERE unmet_dependencies > 0),
    count(*) FILTER (WHERE unmet_dependencies = 0 AND due_at IS NULL),
    count(*) FILTER (WHERE unmet_dependencies = 0 AND due_at > statement_timestamp())
FROM (
    SELECT unmet_dependencies, due_at FROM jobs_job
    WHERE status = 'pending'
        AND (unmet_dependencies > 0 OR due_at IS NULL OR next_retry_at IS NOT NULL)
    LIMIT %(most)s
) waiting
"""

# Steps from lane to lane of the claim index, one descent each, and counts the due entries and the
# later ones of each queue as far as the cap. The order asked for is the index's own: without it
# the planner may walk all pending jobs instead.
QUEUES = f"""
WITH RECURSIVE step AS (
    (SELECT queue, type, priority, 1 AS n FROM jobs_job
     WHERE status = 'pending' AND unmet_dependencies = 0 AND due_at IS NOT NULL
     ORDER BY queue, type, priority LIMIT 1)
    UNION ALL
    SELECT following.*, step.n + 1 FROM step CROSS JOIN LATERAL (
        SELECT j.queue, j.type, j.priority FROM jobs_job j
        WHERE j.status = 'pending' AND j.unmet_dependencies = 0 AND j.due_at IS NOT NULL
            AND (j.queue, j.type, j.priority) > (step.queue, step.type, step.priority)
        ORDER BY j.queue, j.type, j.priority LIMIT 1
    ) following
    WHERE step.n < %(lanes)s
), lane AS MATERIALIZED (
    SELECT queue, type, priority FROM step
), queue AS (
    SELECT queue AS name FROM lane UNION SELECT q.name FROM jobs_queue q WHERE {IS_PAUSED}
)
SELECT queue.name, due.n, later.n,
    (SELECT extract(epoch FROM statement_timestamp() - min(head.due_at))::float8
     FROM lane l CROSS JOIN LATERAL (
         SELECT j.due_at FROM jobs_job j
         WHERE j.queue = l.queue AND j.type = l.type AND j.priority = l.priority
             AND j.status = 'pending' AND j.unmet_dependencies = 0 AND j.due_at <= statement_timestamp()
         ORDER BY j.due_at LIMIT 1
     ) head
     WHERE l.queue = queue.name),
    coalesce((SELECT {IS_PAUSED} FROM jobs_queue q WHERE q.name = queue.name), false)
FROM queue
CROSS JOIN LATERAL (SELECT count(*) AS n FROM (
    SELECT FROM lane l CROSS JOIN LATERAL (
        SELECT FROM jobs_job j
        WHERE j.queue = l.queue AND j.type = l.type AND j.priority = l.priority
            AND j.status = 'pending' AND j.unmet_dependencies = 0 AND j.due_at <= statement_timestamp()
        ORDER BY j.due_at, j.id LIMIT %(most)s
    ) entry WHERE l.queue = queue.name LIMIT %(most)s
) capped) due
CROSS JOIN LATERAL (SELECT count(*) AS n FROM (
    SELECT FROM lane l CROSS JOIN LATERAL (
        SELECT FROM jobs_job j
        WHERE j.queue = l.queue AND j.type = l.type AND j.priority = l.priority
            AND j.status = 'pending' AND j.unmet_dependencies = 0 AND j.due_at > statement_timestamp()
        ORDER BY j.due_at, j.id LIMIT %(most)s
    ) entry WHERE l.queue = queue.name LIMIT %(most)s
) capped) later
ORDER BY queue.name
"""


@dataclass(frozen=True, kw_only=True)
class QueueStats:
    name: str
    depth: int
    """Jobs that are due; at most the cap."""
    is_capped: bool
    oldest_wait_seconds: float | None
    paused: bool


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Rows present. `failed` and `dlq` are the same jobs: a failed job is a dead letter."""

    pending: int
    processing: int
    completed: int
    failed: int
    cancelled: int
    dlq: int
    total: int
    estimated: list[str]
    """Those of the above that are not exact."""


@dataclass(frozen=True, kw_only=True)
class Stats(Counts):
    states: dict[str, int]
    """The kinds of pending."""
    at_least: list[str]
    """The states that may be more than said."""
    queues: list[QueueStats]


def stats(database: Database, *, cap: int = CAP) -> Stats:
    """Bounded work, whatever the table holds; when even that is slow, estimates alone."""
    found = counts(database, cap=cap)
    states, at_least, queues = _pending(database, cap)
    return Stats(**vars(found), states=states, at_least=at_least, queues=queues)


def counts(database: Database, *, cap: int = CAP) -> Counts:
    """The statuses alone: the cheaper half."""
    found, estimated = _statuses(database, cap)
    if Status.FAILED.value in estimated:
        estimated.append("dlq")
    if estimated:
        estimated.append("total")
    return Counts(
        pending=found[Status.PENDING],
        processing=found[Status.PROCESSING],
        completed=found[Status.COMPLETED],
        failed=found[Status.FAILED],
        cancelled=found[Status.CANCELLED],
        dlq=found[Status.FAILED],
        total=sum(found.values()),
        estimated=estimated,
    )


def _statuses(database: Database, cap: int) -> tuple[dict[Status, int], list[str]]:
    counted: Sequence[int]
    try:
        with limited(database, seconds=SECONDS):
            counted = database.rows(COUNT, {"most": cap + 1})[0]
    except TooBroad:  # an index full of dead entries, say
        counted = [cap + 1] * len(INDEXES)
    counts = dict(zip(INDEXES, counted, strict=True))
    estimated = [status.value for status, count in counts.items() if count > cap]
    if estimated:
        rows = database.rows(ESTIMATE, {"indexes": list(INDEXES.values())})
        known = {str(row[0]): int(row[1]) for row in rows}
        for status in estimated:
            index = INDEXES[Status(status)]
            counts[Status(status)] = max(known.get(index, -1), cap + 1)
    return counts, estimated


def _pending(database: Database, cap: int) -> tuple[dict[str, int], list[str], list[QueueStats]]:
    try:
        with limited(database, seconds=SECONDS):
            waiting, blocked, held, retrying = database.rows(WAITING, {"most": cap + 1})[0]
            rows = database.rows(QUEUES, {"most": cap + 1, "lanes": LANES})
    except TooBroad:
        names = [State.READY, State.SCHEDULED, State.RETRYING, State.BLOCKED, State.HELD]
        return {name.value: 0 for name in names}, [name.value for name in names], []
    queues = [
        QueueStats(
            name=name,
            depth=min(due, cap),
            is_capped=due > cap,
            oldest_wait_seconds=oldest,
            paused=paused,
        )
        for name, due, _, oldest, paused in rows
    ]
    ready = sum(queue.depth for queue in queues)
    later = sum(min(row[2], cap) for row in rows)
    states = {
        State.READY.value: ready,
        State.SCHEDULED.value: max(0, later - retrying),
        State.RETRYING.value: retrying,
        State.BLOCKED.value: blocked,
        State.HELD.value: held,
    }
    at_least = []
    if any(queue.is_capped for queue in queues):
        at_least.append(State.READY.value)
    if waiting > cap or any(row[2] > cap for row in rows):
        at_least.append(State.SCHEDULED.value)
    if waiting > cap:
        at_least += [State.RETRYING.value, State.BLOCKED.value, State.HELD.value]
    return states, at_least, queues
