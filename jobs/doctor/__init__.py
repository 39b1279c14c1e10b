"""Look for what keeps jobs from running well, and say what to do about it.

`examine` runs every check; each is a small function that reads a bounded amount and changes
nothing. One that cannot be run is itself a finding and stops no other.
"""

from __future__ import annotations

from collections.abc import Callable

from jobs.database import Database
from jobs.doctor import database as server
from jobs.doctor import storage, work, workers
from jobs.doctor.findings import Check, Finding, Level

type Examination = Callable[[Database], list[Finding]]

CHECKS: dict[str, Examination] = {
    "dead workers": workers.dead_workers,
    "stuck jobs": workers.stuck_jobs,
    "unknown types": workers.unknown_types,
    "unsettled edges": work.unsettled_edges,
    "overdue schedules": work.overdue_schedules,
    "clock": server.clock,
    "worker clocks": workers.clocks,
    "old transactions": server.old_transactions,
    "bloat": storage.bloat,
    "indexes": storage.indexes,
    "claim plan": storage.claim_plan,
}

__all__ = ["CHECKS", "Check", "Finding", "Level", "examine"]


def examine(database: Database) -> list[Check]:
    """Every check with what it found."""
    return [Check(name=name, findings=_examine(check, database)) for name, check in CHECKS.items()]


def _examine(check: Examination, database: Database) -> list[Finding]:
    try:
        with database.transaction():  # an error leaves the connection usable
            return check(database)
    except Exception as error:  # noqa: BLE001 - say an account that may not read a view
        return [
            Finding(
                level=Level.WARNING,
                message=f"could not be checked: {type(error).__name__}: {error}".strip(),
                advice="Give the account the right to read this, or check it by hand.",
            )
        ]
