"""The server: its clock, and who holds old snapshots that keep dead rows alive."""

from __future__ import annotations

import time

from jobs import skew
from jobs.database import Database
from jobs.doctor.findings import Finding, Level, age

OLD_SECONDS = 300.0
OLD_XIDS = 1_000_000

NOW = "SELECT extract(epoch FROM clock_timestamp())::float8"

SESSIONS = """
SELECT a.pid, coalesce(a.usename, ''), coalesce(a.application_name, ''), coalesce(a.state, ''),
    extract(epoch FROM clock_timestamp() - a.xact_start)::float8
FROM pg_stat_activity a
WHERE a.xact_start < clock_timestamp() - %(old)s * interval '1 second'
    AND a.pid <> pg_backend_pid() AND a.backend_type <> 'autovacuum worker'
    AND a.datname = current_database()
ORDER BY a.xact_start LIMIT 10
"""

PREPARED = """
SELECT p.gid, p.owner, extract(epoch FROM clock_timestamp() - p.prepared)::float8
FROM pg_prepared_xacts p
WHERE p.prepared < clock_timestamp() - %(old)s * interval '1 second'
ORDER BY p.prepared LIMIT 10
"""

SLOTS = """
SELECT s.slot_name, s.active, greatest(age(s.xmin), age(s.catalog_xmin))
FROM pg_replication_slots s
WHERE greatest(age(s.xmin), age(s.catalog_xmin)) > %(xids)s
ORDER BY 3 DESC LIMIT 10
"""


def clock(database: Database) -> list[Finding]:
    """This host's clock against the database's. Jobs go by the database's alone."""
    sent_at = time.time()
    theirs = float(database.rows(NOW, {})[0][0])
    found = skew.measured(sent_at=sent_at, theirs=theirs, heard_at=time.time())
    return [clock_finding("this host", found)] if found.is_telling else []


def clock_finding(whose: str, found: skew.ClockSkew) -> Finding:
    return Finding(
        level=Level.WARNING,
        message=f"the clock of {whose} is {age(abs(found.seconds))} {found.side} the database's",
        advice="Jobs go by the database's clock. Logs, the times of events and what your code "
        "computes do not: synchronise both with NTP.",
    )


def old_transactions(database: Database, old_seconds: float = OLD_SECONDS) -> list[Finding]:
    """What keeps vacuum from removing dead rows, so that claims become slower and slower."""
    findings = [
        Finding(
            level=Level.WARNING,
            message=f"session {pid} ({application or 'no name'}, user {user}, {state}) "
            f"has a transaction open for {age(seconds)}",
            advice="Dead rows since then cannot be removed. End it: "
            f"SELECT pg_terminate_backend({pid}). Consider idle_in_transaction_session_timeout.",
        )
        for pid, user, application, state, seconds in database.rows(SESSIONS, {"old": old_seconds})
    ]
    findings += [
        Finding(
            level=Level.WARNING,
            message=f"prepared transaction {gid!r} of {owner} is {age(seconds)} old",
            advice=f"COMMIT PREPARED or ROLLBACK PREPARED {gid!r}: nobody else will.",
        )
        for gid, owner, seconds in database.rows(PREPARED, {"old": old_seconds})
    ]
    findings += [
        Finding(
            level=Level.WARNING,
            message=f"replication slot {name} ({'active' if active else 'inactive'}) "
            f"is {behind:,} transactions behind",
            advice="Bring its replica back, or drop the slot: pg_drop_replication_slot.",
        )
        for name, active, behind in database.rows(SLOTS, {"xids": OLD_XIDS})
    ]
    return findings
