"""Duties of the leading worker that are behind."""

from __future__ import annotations

from jobs.database import Database
from jobs.doctor.findings import Finding, Level, age, many

CAP = 1_000
LATE_SECONDS = 60.0

UNSETTLED = """
SELECT count(*), extract(epoch FROM clock_timestamp() - min(late.updated_at))::float8 FROM (
    SELECT c.updated_at FROM jobs_jobdependency d JOIN jobs_job c ON c.id = d.child_id
    WHERE NOT d.settled
        AND c.updated_at < clock_timestamp() - %(late)s * interval '1 second'
    LIMIT %(most)s
) late
"""

OVERDUE = """
SELECT s.name, extract(epoch FROM clock_timestamp() - s.next_slot)::float8, s.last_error
FROM jobs_schedule s
WHERE s.enabled AND s.next_slot IS NOT NULL
    AND s.next_slot < clock_timestamp() - %(late)s * interval '1 second'
ORDER BY s.next_slot LIMIT %(most)s
"""


def unsettled_edges(database: Database) -> list[Finding]:
    """Dependencies whose parents do not know of them yet: left by a process that died."""
    count, seconds = database.rows(UNSETTLED, {"late": LATE_SECONDS, "most": CAP + 1})[0]
    if not count:
        return []
    return [
        Finding(
            level=Level.ERROR,
            message=f"{many(count, 'dependency', most=CAP).replace('dependencys', 'dependencies')}"
            f" not settled for up to {age(seconds)}",
            advice="The leading worker settles them within seconds: is a worker alive?",
        )
    ]


def overdue_schedules(database: Database) -> list[Finding]:
    """Schedules whose slot has passed without being decided about."""
    rows = database.rows(OVERDUE, {"late": LATE_SECONDS, "most": 20})
    return [
        Finding(
            level=Level.ERROR,
            message=f"schedule {name} is overdue by {age(seconds)}"
            + (f": {error}" if error else ""),
            advice="Any live worker fires schedules each second: is one alive?",
        )
        for name, seconds, error in rows
    ]
