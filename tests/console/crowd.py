"""Rows of every kind that the console lists: a few, or so many that a page which reads them all shows.

Made by the database, in one statement each.
"""

from __future__ import annotations

from typing import Any

from django.db import connection

from tests.console.run_scenery import make_run
from tests.factories import make_schedule, make_worker
from tests.security.rows import rows

GROUPS = 40
JOBS = """
INSERT INTO jobs_job (id, type, queue, payload, status, attempt_count, scheduled_at, due_at,
    next_retry_at, unmet_dependencies, started_at, completed_at, failed_at, cancelled_at, worker_id,
    last_error, error_fingerprint, schedule_id, schedule_slot, created_at)
SELECT (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '7'
        || lpad(to_hex(n %% 4096), 3, '0') || '8' || lpad(to_hex(n * 100 + place), 15, '0'))::uuid,
    'kind' || n %% 4, 'queue' || n %% 3, '{}', status, CASE WHEN status = 'pending' THEN 0 ELSE 1 END,
    at, CASE kind WHEN 'held' THEN NULL WHEN 'scheduled' THEN now() + interval '1 day'
        WHEN 'retrying' THEN now() + interval '1 hour' ELSE at END,
    CASE kind WHEN 'retrying' THEN now() + interval '1 hour' END,
    CASE kind WHEN 'blocked' THEN 1 ELSE 0 END,
    CASE WHEN status <> 'pending' THEN at END,
    CASE status WHEN 'completed' THEN at END, CASE status WHEN 'failed' THEN at END,
    CASE status WHEN 'cancelled' THEN at END,
    CASE WHEN status IN ('processing', 'completed') THEN %(worker)s::uuid END,
    CASE status WHEN 'failed' THEN 'ValueError: bad ' || n ELSE '' END,
    CASE status WHEN 'failed' THEN lpad(to_hex(n %% %(groups)s), 16, '0') ELSE '' END,
    CASE kind WHEN 'recurring' THEN %(schedule)s::uuid END, CASE kind WHEN 'recurring' THEN at END,
    at
FROM (
    SELECT kind, place, n, %(first)s * interval '1 ms' + now() - (%(count)s - n) * interval '1 s' AS at, CASE
        WHEN kind IN ('completed', 'recurring') THEN 'completed' WHEN kind = 'dead' THEN 'failed'
        WHEN kind IN ('processing', 'cancelled') THEN kind ELSE 'pending' END AS status
    FROM unnest(%(kinds)s::text[]) WITH ORDINALITY k (kind, place), generate_series(1, %(count)s) n
) made
"""
COMMON = ("ready", "scheduled", "recurring", "completed", "dead")
RARE = ("retrying", "blocked", "held", "cancelled")
EDGES = """
INSERT INTO jobs_jobdependency (child_id, parent_id, kind, state, settled)
SELECT id, %(parent)s::uuid, 'completed', 'satisfied', true FROM jobs_job
WHERE id <> %(parent)s::uuid AND status IN ('completed', 'failed') LIMIT %(count)s
ON CONFLICT DO NOTHING
"""
HISTORY = (
    """
    INSERT INTO jobs_attempt (job_id, lease_epoch, number, started_at, finished_at, outcome)
    SELECT %(job)s::uuid, %(first)s + n, n, now(), now(), 'failed' FROM generate_series(1, %(count)s) n
    """,
    """
    INSERT INTO jobs_joblog (job_id, event, message)
    SELECT %(job)s::uuid, 'log', 'line ' || n FROM generate_series(1, %(count)s) n
    """,
)
AUDIT = """
INSERT INTO jobs_auditentry (actor, action, scope, object_id, changed, reason, data)
SELECT 'person' || n %% 5, 'job.retry', 'x', '', 1, '', '{}' FROM generate_series(1, %(count)s) n
"""
BULK = """
INSERT INTO jobs_bulkoperation (id, action, filters, arguments, before, matched, matched_is_capped,
    reason, created_by, address, status, place, changed, skipped, skipped_reasons, failed, failures,
    error, created_at, worked_seconds, updated_at)
SELECT gen_random_uuid(), 'retry', '{"status": "failed"}', '{}', now(), 9, false, '', 'anna', '',
    'completed', '', 9, 0, '{}', 0, '[]', '', now(), 1, now()
FROM generate_series(1, %(count)s) n
"""
WEBHOOK = """
INSERT INTO jobs_webhook (id, name, url, secret, events, enabled, created_by)
VALUES (%(hook)s::uuid, 'hook', 'https://hooks.example.net/', 'x', '["alert.*"]', true, 'anna')
ON CONFLICT DO NOTHING
"""
DELIVERIES = """
INSERT INTO jobs_webhookdelivery (id, webhook_id, event, body, status, attempts, response, error, created_at)
SELECT gen_random_uuid(), %(hook)s::uuid, 'alert.dead_letters', '{}', 'delivered', 1, '', '', now()
FROM generate_series(1, %(count)s) n
"""
ROLLUPS = """
INSERT INTO jobs_rollup (minute, queue, type, outcome, jobs, wait_seconds, run_seconds, timings, folded)
SELECT date_trunc('minute', now()) - n * interval '1 minute', 'queue0', 'kind0', 'succeeded', 7, 1, 1,
    ARRAY[7 * 1024 + 33], n > 3
FROM generate_series(0, least(%(count)s, 500)) n
"""
TABLES = (
    "jobs_job", "jobs_jobdependency", "jobs_attempt", "jobs_joblog", "jobs_auditentry",
    "jobs_webhookdelivery",
)  # fmt: skip
"""Those that grow without an end: no page may read one whole."""
HOOK = "0199a1e8-02aa-7c10-b7f3-5d0c9e8a4b16"


def begin() -> dict[str, str]:
    """One of everything, by the model of the page, as addresses have it."""
    found = rows()
    found["jobs/webhook"] = HOOK
    return found


def fill(one: dict[str, str], count: int, *, first: int = 0) -> None:
    """So many more of each kind; of what people make by hand, some."""
    some = min(count, 60)
    names: dict[str, Any] = {
        "count": count, "groups": GROUPS, "worker": one["jobs/worker"], "job": one["jobs/job"],
        "parent": one["jobs/job"], "schedule": one["jobs/schedule"], "hook": HOOK,
    }  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(JOBS, {**names, "first": first, "kinds": list(COMMON)})
        rare: dict[str, Any] = {"kinds": list(RARE), "count": max(3, count // 10)}
        cursor.execute(JOBS, {**names, "first": first + 3, **rare})
        running: dict[str, Any] = {"kinds": ["processing"], "count": max(some, count // 20)}
        cursor.execute(JOBS, {**names, "first": first + 7, **running})
        cursor.execute(EDGES, {**names, "count": count})
        for statement in (*HISTORY, AUDIT, WEBHOOK, DELIVERIES, ROLLUPS):
            cursor.execute(statement, {**names, "first": first})
        cursor.execute(BULK, {**names, "count": some})
    for number in range(some):
        make_worker(name=f"worker {first}-{number}")
        make_schedule(name=f"schedule {first}-{number}")
        make_run(status="completed")
