"""Workers that died, jobs that they left, and jobs that no worker can run."""

from __future__ import annotations

from jobs import conf
from jobs.database import Database
from jobs.doctor.database import clock_finding
from jobs.doctor.findings import Finding, Level, age, many
from jobs.skew import ClockSkew

CAP = 10_000
SHOWN = 5
MOST_HOSTS = 1_000

# The last look of one supervisor at another is by beats; here a person asks, and the database's
# clock is good enough.
SILENT = """
SELECT w.name, extract(epoch FROM clock_timestamp() - w.beat_at)::float8,
    EXISTS (SELECT FROM jobs_worker o
        WHERE o.state IN ('running', 'draining')
            AND o.beat_at > clock_timestamp() - %(dead_after)s * interval '1 second')
FROM jobs_worker w
WHERE w.state IN ('running', 'draining')
    AND w.beat_at <= clock_timestamp() - %(dead_after)s * interval '1 second'
ORDER BY w.beat_at LIMIT %(most)s
"""

STUCK = """
SELECT j.id::text, j.type, coalesce(w.name, j.worker_id::text), coalesce(w.state, 'gone'),
    extract(epoch FROM clock_timestamp() - j.updated_at)::float8
FROM jobs_job j LEFT JOIN jobs_worker w ON w.id = j.worker_id
WHERE j.status = 'processing' AND (w.id IS NULL OR w.state IN ('stopped', 'dead')
    OR w.beat_at <= clock_timestamp() - %(dead_after)s * interval '1 second')
LIMIT %(most)s
"""

# The worst of each host: all processes of a worker have the same clock.
CLOCKS = """
SELECT DISTINCT ON (w.host) w.host, w.clock_skew_seconds,
    coalesce(w.clock_skew_uncertainty_seconds, 0)
FROM jobs_worker w
WHERE w.state IN ('running', 'draining') AND w.clock_skew_seconds IS NOT NULL
    AND w.beat_at > clock_timestamp() - %(dead_after)s * interval '1 second'
ORDER BY w.host, abs(w.clock_skew_seconds) - coalesce(w.clock_skew_uncertainty_seconds, 0) DESC
LIMIT %(most)s
"""

# From one type of the claim index to the next, within each queue: a descent for each.
UNKNOWN = """
WITH RECURSIVE kind AS (
    (SELECT queue, type FROM jobs_job
     WHERE status = 'pending' AND unmet_dependencies = 0 AND due_at IS NOT NULL
     ORDER BY queue, type LIMIT 1)
    UNION ALL
    SELECT following.queue, following.type FROM kind CROSS JOIN LATERAL (
        SELECT j.queue, j.type FROM jobs_job j
        WHERE j.status = 'pending' AND j.unmet_dependencies = 0 AND j.due_at IS NOT NULL
            AND (j.queue, j.type) > (kind.queue, kind.type)
        ORDER BY j.queue, j.type LIMIT 1
    ) following
), live AS MATERIALIZED (
    SELECT w.types, w.queues FROM jobs_worker w
    WHERE w.state = 'running'
        AND w.beat_at > clock_timestamp() - %(dead_after)s * interval '1 second'
)
SELECT kind.type, kind.queue, (SELECT count(*) FROM live),
    EXISTS (SELECT FROM live WHERE jsonb_exists(live.types, kind.type)),
    (SELECT count(*) FROM (
        SELECT FROM (VALUES (1), (2), (3)) AS p (priority) CROSS JOIN LATERAL (
            SELECT FROM jobs_job j
            WHERE j.queue = kind.queue AND j.type = kind.type AND j.priority = p.priority
                AND j.status = 'pending' AND j.unmet_dependencies = 0
                AND j.due_at <= statement_timestamp()
            ORDER BY j.due_at, j.id LIMIT %(most)s
        ) due LIMIT %(most)s
    ) capped)
FROM kind
WHERE NOT EXISTS (
    SELECT FROM live WHERE jsonb_exists(live.types, kind.type)
        AND (live.queues = '[]'::jsonb OR jsonb_exists(live.queues, kind.queue)))
ORDER BY kind.type, kind.queue
"""


def dead_workers(database: Database) -> list[Finding]:
    """Workers that say they run, but whose beat is too old."""
    settings = conf.get()
    rows = database.rows(SILENT, {"dead_after": settings.dead_after_seconds, "most": 100})
    findings = []
    for name, seconds, somebody_lives in rows:
        advice = (
            "A live worker takes its jobs back within seconds; look again."
            if somebody_lives
            else "No worker is alive to take its jobs back: start one (manage.py runworker)."
        )
        findings.append(
            Finding(
                level=Level.WARNING if somebody_lives else Level.ERROR,
                message=f"worker {name} has not been heard of for {age(seconds)}",
                advice=advice,
            )
        )
    return findings


def stuck_jobs(database: Database) -> list[Finding]:
    """Jobs that run by their status, on a worker that is gone."""
    rows = database.rows(STUCK, {"dead_after": conf.get().dead_after_seconds, "most": CAP + 1})
    if not rows:
        return []
    shown = ", ".join(
        f"{type} {id} (worker {worker}: {state})" for id, type, worker, state, _ in rows[:SHOWN]
    )
    return [
        Finding(
            level=Level.ERROR,
            message=f"{many(len(rows), 'job', most=CAP)} processing on workers that are gone: "
            + shown
            + (", ..." if len(rows) > SHOWN else ""),
            advice="Any live worker takes them back within seconds. If it does not, read its log.",
        )
    ]


def unknown_types(database: Database) -> list[Finding]:
    """Pending jobs that no live worker can run: it knows no such type, or not in that queue."""
    rows = database.rows(UNKNOWN, {"dead_after": conf.get().dead_after_seconds, "most": CAP + 1})
    findings = []
    for type, queue, live, is_known, due in rows:
        if not due:  # nothing is late yet
            continue
        waiting = many(due, "due job", most=CAP)
        if not live:
            message, advice = "no worker is alive", "Start a worker: manage.py runworker."
        elif not is_known:
            message = f"no live worker knows the type {type}"
            advice = "Deploy a worker whose apps have the handler, or cancel these jobs."
        else:
            message = f"no live worker that knows {type} serves the queue {queue}"
            advice = f"Start a worker with --queues {queue}, or move these jobs."
        findings.append(
            Finding(
                level=Level.ERROR,
                message=f"{waiting} of {type} in queue {queue}: {message}",
                advice=advice,
            )
        )
    return findings


def clocks(database: Database) -> list[Finding]:
    """Hosts of workers whose clocks differ from the database's."""
    rows = database.rows(CLOCKS, {"dead_after": conf.get().dead_after_seconds, "most": MOST_HOSTS})
    found = {
        host: ClockSkew(seconds=seconds, uncertainty_seconds=uncertainty)
        for host, seconds, uncertainty in rows
    }
    return [
        clock_finding(f"the workers' host {host}", skew)
        for host, skew in found.items()
        if skew.is_telling
    ]
