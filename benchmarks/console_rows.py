"""What stands beside the jobs of a big installation: everything else that the console has pages for.

Made by the database itself where it can, so that it takes seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.utils import timezone

from benchmarks.stage import Database
from ranges.axes import IntAxis
from ranges.cells import Cells
from ranges.models import RangeFailure, RangeNode, RangeRun
from ranges.states import CELL_PROCESSED, CELL_SKIPPED

KEYS = 10**9


@dataclass(frozen=True, kw_only=True)
class Beside:
    """How many rows there are at least, or are made."""

    dead: int
    workers: int
    schedules: int
    bulk: int
    audit: int
    deliveries: int
    runs: int
    nodes: int
    minutes: int
    dependents: int
    lines: int


def _id(at: str, n: str, mark: str) -> str:
    """An id that begins with its time, as the product makes them; no other row has it."""
    return f"""(lpad(to_hex((extract(epoch FROM {at}) * 1000)::bigint), 12, '0') || '7'
        || lpad(to_hex({n} % 4096), 3, '0') || '{mark}' || lpad(to_hex({n}), 15, '0'))::uuid"""


DEAD = "SELECT count(*) FROM jobs_job WHERE status = 'failed'"
# Most in a few of 200 groups, some in each: 20 types with 10 kinds of errors.
BURY = f"""
INSERT INTO jobs_job (id, type, queue, payload, status, attempt_count, lease_epoch, scheduled_at,
    due_at, created_at, updated_at, started_at, failed_at, last_error, error_fingerprint)
SELECT {_id("at", "n", "9")}, 'type_' || g %% 20, 'mail', '{{"order": 7}}', 'failed', 3, 3, at, at,
    at, at, at, at, 'ValueError: no such order ' || n, 'fingerprint ' || g / 20
FROM (
    SELECT n, now() - n * interval '6 days' / %s AS at,
        floor(200 * power((n::bigint * 7919 %% 100003) / 100003.0, 3))::int AS g
    FROM generate_series(1, %s) n
) made
""".replace("% 4096", "%% 4096")

WORKERS = f"""
INSERT INTO jobs_worker (id, name, host, pid, queues, types, concurrency, version, state, beat_at,
    started_at, stopped_at)
SELECT {_id("now() - n * interval '1 s'", "n", "8")}, 'app-' || n / 8 || ':' || 400 + n, 'app-' || n / 8,
    400 + n, '[]', (SELECT jsonb_agg('type_' || t) FROM generate_series(0, 19) t), 16, '2026.11.3',
    CASE WHEN n <= %s THEN 'running' ELSE 'stopped' END, now(), now() - interval '7 hours',
    CASE WHEN n > %s THEN now() - n * interval '1 minute' END
FROM generate_series(1, %s) n
""".replace("% 4096", "%% 4096")
BUSY = """
WITH job AS (
    SELECT id, row_number() OVER () AS n FROM jobs_job WHERE status = 'processing'
), worker AS (
    SELECT id, row_number() OVER () AS n FROM jobs_worker WHERE state = 'running'
)
UPDATE jobs_job j SET worker_id = worker.id
FROM job JOIN worker ON worker.n = job.n %% %s + 1 WHERE j.id = job.id
"""

SCHEDULES = """
INSERT INTO jobs_schedule (id, name, type, queue, payload, metadata, priority, max_attempts,
    on_parent_failure, recur_interval, interval_seconds, cron, time_zone, anchor_at, misfire,
    allow_overlap, enabled, last_slot, next_slot)
SELECT gen_random_uuid(), 'schedule ' || lpad(n::text, 5, '0'), 'type_' || n %% 20, 'default', '{}',
    '{}', 2, 3, 'wait', CASE WHEN n %% 2 = 0 THEN 'every_5_minutes' ELSE '' END,
    CASE WHEN n %% 2 = 0 THEN 300 END, CASE WHEN n %% 2 = 0 THEN '' ELSE '30 8 * * 1-5' END,
    'Europe/Berlin', now() - interval '6 days', 'once', false, true,
    now() - interval '5 minutes', now() + interval '1 day'
FROM generate_series(1, %s) n
"""
SLOTS = f"""
INSERT INTO jobs_job (id, type, queue, payload, status, attempt_count, lease_epoch, scheduled_at,
    due_at, created_at, updated_at, started_at, completed_at, schedule_id, schedule_slot)
SELECT {_id("at", "(s.n * 100 + slot)", "a")}, s.type, 'default', '{{}}', 'completed', 1, 1, at, at, at,
    at, at, at, s.id, at
FROM (SELECT id, type, row_number() OVER (ORDER BY name) AS n FROM jobs_schedule) s
CROSS JOIN generate_series(1, 25) slot
CROSS JOIN LATERAL (SELECT now() - slot * interval '5 minutes' AS at) timed
"""

BULK = f"""
INSERT INTO jobs_bulkoperation (id, action, filters, arguments, before, matched, matched_is_capped,
    reason, created_by, address, status, place, changed, skipped, skipped_reasons, failed, failures,
    error, created_at, started_at, worked_seconds, updated_at, finished_at)
SELECT {_id("at", "n", "b")}, 'retry', jsonb_build_object('type', 'type_' || n %% 20, 'status', 'failed'),
    '{{}}', at, 1039, false, 'after the outage', 'boss', '', 'completed', '', 1000, 39,
    '{{"no longer dead": 39}}', 0, '[]', '', at, at, 12, at, at
FROM generate_series(1, %s) n CROSS JOIN LATERAL (SELECT now() - n * interval '10 minutes' AS at) timed
""".replace("% 4096", "%% 4096")
AUDIT = """
INSERT INTO jobs_auditentry (at, actor, action, scope, object_id, changed, reason, data)
SELECT now() - (%s - n) * interval '1 minute', 'person-' || n %% 40,
    (ARRAY['job.retry', 'job.cancel', 'bulk.retry', 'queue.pause', 'job.purge'])[1 + n %% 5],
    'type type_' || n %% 20, '', n %% 500, '', '{}'
FROM generate_series(1, %s) n
"""

WEBHOOKS = """
INSERT INTO jobs_webhook (id, name, url, secret, events, enabled, created_by)
SELECT gen_random_uuid(), 'hook ' || n, 'https://hooks.example.net/' || n, 'secret', '["alert.*"]', true,
    'boss'
FROM generate_series(1, 20) n
"""
DELIVERIES = f"""
INSERT INTO jobs_webhookdelivery (id, webhook_id, event, body, status, attempts, response_code, response,
    error, created_at)
SELECT {_id("at", "n", "c")}, (SELECT id FROM jobs_webhook ORDER BY name LIMIT 1), 'alert.dead_letters',
    '{{"event": "alert.dead_letters"}}', 'delivered', 1, 204, '', '', at
FROM generate_series(1, %s) n CROSS JOIN LATERAL (SELECT now() - n * interval '1 minute' AS at) timed
""".replace("% 4096", "%% 4096")

RUNS = f"""
INSERT INTO ranges_rangerun (id, name, code_version, status, params, metadata, start_options, axis, lo, hi,
    priority, queue, concurrency, leaf, max_attempts, atomic, probing, planned, created_at, started_at,
    finished_at, active_seconds, rows_estimate)
SELECT {_id("at", "n", "d")}, 'shop.Backfill' || n %% 10, '', 'completed', '{{}}', '{{}}', '{{}}',
    '{{"type": "int"}}', 0, {KEYS}, 2, 'default', 8, '{{"max_size": 1000}}', 3, true, 'none', true, at, at,
    at + interval '9 minutes', 540, {KEYS}
FROM generate_series(1, %s) n CROSS JOIN LATERAL (SELECT now() - n * interval '20 minutes' AS at) timed
""".replace("% 4096", "%% 4096")
PIECES = f"""
INSERT INTO ranges_rangenode (run_id, kind, state, depth, lo, hi, cur, resv, rows_ok, width_ok, leaves,
    busy_seconds, cells)
SELECT r.id, 'strand', 'done', 3, k * {KEYS // 8}, (k + 1) * {KEYS // 8}, (k + 1) * {KEYS // 8},
    (k + 1) * {KEYS // 8}, {KEYS // 8}, {KEYS // 8}, 400, 60, decode(repeat('01', 128), 'hex')
FROM ranges_rangerun r CROSS JOIN generate_series(0, 7) k
"""

# Twenty kinds of jobs in each minute, some of which fail now and then.
MINUTES = """
INSERT INTO jobs_rollup (minute, queue, type, outcome, jobs, wait_seconds, run_seconds, timings, folded)
SELECT date_trunc('minute', now()) - m * interval '1 minute', (ARRAY['default', 'mail', 'media', 'reports'])[1 + t %% 4],
    'type_' || t, CASE WHEN (m + t) %% 17 = 0 THEN 'failed' ELSE 'succeeded' END, 60 + t, 6, 30,
    ARRAY[(50 + t) * 1024 + 6 * 32 + 7, 10 * 1024 + 8 * 32 + 9], m > 3
FROM generate_series(0, %s) m CROSS JOIN generate_series(0, 19) t
"""

PARENT = """
WITH parent AS (SELECT id FROM jobs_job WHERE status = 'completed' ORDER BY id LIMIT 1)
INSERT INTO jobs_jobdependency (child_id, parent_id, kind, state, settled)
SELECT child.id, parent.id, 'completed', 'satisfied', true
FROM parent CROSS JOIN LATERAL (
    SELECT id FROM jobs_job WHERE status = 'completed' AND id > parent.id ORDER BY id LIMIT %s
) child
"""
HISTORY = (
    """
    INSERT INTO jobs_attempt (job_id, lease_epoch, number, started_at, finished_at, outcome, error, traceback)
    SELECT job.id, n, n, now(), now(), 'failed', 'ValueError: no such order', repeat('  File "a.py", line 7' || chr(10), 40)
    FROM (SELECT id FROM jobs_job WHERE status = 'failed' ORDER BY failed_at DESC, id DESC LIMIT 1) job
    CROSS JOIN generate_series(1, 30) n
    """,
    """
    INSERT INTO jobs_joblog (job_id, event, attempt, message)
    SELECT job.id, 'log', 1 + n %% 30, 'line ' || n
    FROM (SELECT id FROM jobs_job WHERE status = 'failed' ORDER BY failed_at DESC, id DESC LIMIT 1) job
    CROSS JOIN generate_series(1, %s) n
    """,
)


# The newest jobs have two lines each; one in a thousand went wrong.
LINES = """
INSERT INTO jobs_joblog (job_id, at, event, level, attempt, message)
SELECT job.id, now() - (%s - job.n) * interval '10 milliseconds',
    CASE WHEN k = 0 THEN 'started' WHEN job.n %% 1000 = 0 THEN 'retry_scheduled' ELSE 'completed' END,
    CASE WHEN k = 1 AND job.n %% 1000 = 0 THEN 'warning' ELSE 'info' END, 1,
    CASE WHEN k = 1 AND job.n %% 1000 = 0 THEN 'ValueError: no such order' ELSE '' END
FROM (
    SELECT id, row_number() OVER (ORDER BY id) AS n
    FROM (SELECT id FROM jobs_job WHERE status = 'completed' ORDER BY id DESC LIMIT %s) newest
) job CROSS JOIN generate_series(0, 1) k
ORDER BY job.n, k
"""


def fill_beside(database: Database, beside: Beside) -> None:
    """After the jobs are there."""
    missing = beside.dead - database.one(DEAD)
    if missing > 0:
        database.rows(BURY, missing, missing)
    database.rows(WORKERS, beside.workers, beside.workers, 2 * beside.workers)
    database.rows(BUSY, beside.workers)
    database.rows(SCHEDULES, beside.schedules)
    database.rows(SLOTS)
    database.rows(BULK, beside.bulk)
    database.rows(AUDIT, beside.audit, beside.audit)
    database.rows(WEBHOOKS)
    database.rows(DELIVERIES, beside.deliveries)
    database.rows(RUNS, beside.runs)
    database.rows(PIECES)
    database.rows(MINUTES, beside.minutes)
    database.rows(PARENT, beside.dependents)
    database.rows(LINES, beside.lines // 2, beside.lines // 2)
    database.rows(HISTORY[0])
    database.rows(HISTORY[1], beside.dependents)
    _one_big_run(beside.nodes)


def _one_big_run(count: int) -> None:
    """Half done by lanes that have split it again and again; some of it pruned, some failed."""
    run = RangeRun.objects.create(
        name="shop.BackfillTotals", axis={"type": "int"}, lo=0, hi=KEYS, status="running", planned=True,
        started_at=timezone.now(), resumed_at=timezone.now(), concurrency=64, leaf={"max_size": 1_000},
        rows_estimate=KEYS,
    )  # fmt: skip
    cells = Cells(IntAxis(), 0, KEYS)
    RangeNode.objects.bulk_create(
        (_piece(run, cells, number, count) for number in range(count)), batch_size=1_000
    )
    RangeFailure.objects.bulk_create(
        RangeFailure(
            run=run, key=str(number * 1_009), attempts=3, error="ValueError: negative total"
        )
        for number in range(count // 10)
    )


def _piece(run: RangeRun, cells: Cells, number: int, count: int) -> RangeNode:
    lo, hi = KEYS * number // count, KEYS * (number + 1) // count
    is_done = number % 3 < 2
    cur = hi if is_done else lo
    is_skipped = number % 5 == 0
    marks = cells.blank(lo, hi)
    if is_done:
        cells.mark(marks, lo, lo, hi, CELL_SKIPPED if is_skipped else CELL_PROCESSED)
    width: dict[str, Any] = {"width_skipped" if is_skipped else "width_ok": cur - lo}
    return RangeNode(
        run=run, kind="strand", state="done" if is_done else "pending", depth=12, lo=lo, hi=hi, cur=cur,
        resv=cur, leaves=20 if is_done else 0, busy_seconds=4.0, cells=bytes(marks), **width,
    )  # fmt: skip
