"""The numbers of the cards, and those that the health line is made of, at most a second old."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime

from jobs import skew
from jobs.claim import IS_PAUSED
from jobs.console.kept import kept
from jobs.database import DjangoDatabase
from jobs.doctor.workers import unknown_types
from jobs.limits import limited
from jobs.skew import ClockSkew

NAME = "numbers"
FRESH_SECONDS = 1.0
DUTIES_SECONDS = 5.0
SECONDS = 2.0
CAP = 10_000
LATE_SECONDS = 60.0

# Of the last sixty seconds: this minute, and as much of the last one as is missing to a whole one.
RATE = """
SELECT coalesce(sum(jobs * CASE WHEN minute = date_trunc('minute', now()) THEN 1.0::float8
    ELSE 1 - extract(second FROM now())::float8 / 60 END), 0)
FROM jobs_rollup
WHERE minute >= date_trunc('minute', now()) - interval '1 minute' AND outcome = 'succeeded'
"""

DEAD = """
SELECT (SELECT count(*) FROM (SELECT FROM jobs_job WHERE status = 'failed'
        AND failed_at > now() - interval '1 hour' ORDER BY failed_at LIMIT %(most)s) lately),
    (SELECT count(*) FROM (SELECT FROM jobs_job WHERE status = 'failed'
        AND failed_at > now() - interval '2 hours' AND failed_at <= now() - interval '1 hour'
        ORDER BY failed_at LIMIT %(most)s) before)
"""

PAUSED = f"""
SELECT q.name, q.changed_at, q.paused_until, q.reason, q.changed_by,
    extract(epoch FROM clock_timestamp() - q.changed_at)::float8
FROM jobs_queue q WHERE {IS_PAUSED} ORDER BY q.changed_at LIMIT 100
"""

# A few rows: one for each schedule.
OVERDUE = """
SELECT name, extract(epoch FROM clock_timestamp() - next_slot)::float8 FROM jobs_schedule
WHERE enabled AND next_slot < clock_timestamp() - %(late)s * interval '1 second'
ORDER BY next_slot LIMIT 20
"""


@dataclass(frozen=True, kw_only=True)
class Paused:
    name: str
    since: datetime
    reason: str
    by: str
    seconds: float
    until: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Numbers:
    completed_per_minute: float
    dead_lately: int
    dead_before: int
    """In the last hour, and in the one before; at most the cap."""
    dead_is_capped: bool
    paused: list[Paused]
    skew: ClockSkew
    """Of the host that answers."""


@dataclass(frozen=True, kw_only=True)
class Duties:
    unknown: list[str]
    """Due jobs that no live worker can run, in sentences."""
    overdue: list[tuple[str, float]]
    """Schedules whose slot has passed undecided, and for how many seconds."""


def numbers() -> Numbers:
    return kept(NAME, FRESH_SECONDS, _read)


def change(now: Numbers, usual: float | None) -> float | None:
    """Completed a minute now against a mean: 0.04 is 4 % more. None: nothing to compare."""
    return now.completed_per_minute / usual - 1 if usual else None


def duties() -> Duties:
    """What nobody does that should be done."""
    return kept("duties", DUTIES_SECONDS, _duties)


def _read() -> Numbers:
    database = DjangoDatabase()
    sent_at = time.time()
    with limited(database, seconds=SECONDS) as now:
        clock = skew.measured(sent_at=sent_at, theirs=now, heard_at=time.time())
        rate = database.rows(RATE, {})[0][0]
        lately, before = database.rows(DEAD, {"most": CAP + 1})[0]
        paused = [
            Paused(name=name, since=since, until=until, reason=reason, by=by, seconds=seconds)
            for name, since, until, reason, by, seconds in database.rows(PAUSED, {})
        ]
    return Numbers(
        completed_per_minute=round(float(rate), 1),
        dead_lately=min(lately, CAP),
        dead_before=min(before, CAP),
        dead_is_capped=lately > CAP,
        paused=paused,
        skew=clock,
    )


def _duties() -> Duties:
    database = DjangoDatabase()
    with limited(database, seconds=SECONDS):
        return Duties(
            unknown=[found.message for found in unknown_types(database)],
            overdue=[
                (name, seconds) for name, seconds in database.rows(OVERDUE, {"late": LATE_SECONDS})
            ],
        )
