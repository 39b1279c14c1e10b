"""Rows that grow with use and are of no use after a while: one list of all tables that have them.

Jobs themselves are `retention.py`'s. Each step deletes a bounded number of the oldest rows, waits for
nobody's lock, and bears being done by two leaders at once.
"""

from __future__ import annotations

from collections.abc import Callable

from jobs import retention
from jobs.conf import Settings
from jobs.database import Database
from jobs.retention import ROWS_AT_ONCE
from jobs.security import tries

BULK_DAYS = 30.0
"""Also for deliveries of webhooks."""

# Ids ascend with time and no index has the time, so the oldest are looked at, and those of them that
# are old enough go.
AUDIT = """
DELETE FROM jobs_auditentry WHERE id IN (
    SELECT oldest.id
    FROM (SELECT id, at FROM jobs_auditentry ORDER BY id LIMIT %(limit)s) oldest
    WHERE oldest.at < now() - %(days)s * interval '1 day'
)
"""
BULK = """
DELETE FROM jobs_bulkoperation WHERE id IN (
    SELECT id FROM jobs_bulkoperation
    WHERE finished_at < now() - %(days)s * interval '1 day'
    ORDER BY id LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
"""
DELIVERIES = """
DELETE FROM jobs_webhookdelivery WHERE id IN (
    SELECT oldest.id
    FROM (SELECT id, created_at FROM jobs_webhookdelivery ORDER BY id LIMIT %(limit)s) oldest
    WHERE oldest.created_at < now() - %(days)s * interval '1 day'
)
"""


def prune_audit(database: Database, settings: Settings) -> int:
    if settings.audit_days <= 0:
        return 0
    return database.run(AUDIT, {"days": settings.audit_days, "limit": ROWS_AT_ONCE})


def prune_bulk(database: Database, _: Settings) -> int:
    return database.run(BULK, {"days": BULK_DAYS, "limit": ROWS_AT_ONCE})


def prune_deliveries(database: Database, _: Settings) -> int:
    return database.run(DELIVERIES, {"days": BULK_DAYS, "limit": ROWS_AT_ONCE})


def prune_idempotency_keys(database: Database, _: Settings) -> int:
    return retention.prune_keys(database)


def prune_login_failures(database: Database, _: Settings) -> int:
    return tries.prune(database)


PRUNABLE: dict[str, Callable[[Database, Settings], int]] = {
    "workers": retention.prune_workers,
    "rollups": retention.prune_rollups,
    "audit": prune_audit,
    "bulk_operations": prune_bulk,
    "webhook_deliveries": prune_deliveries,
    "idempotency_keys": prune_idempotency_keys,
    "login_failures": prune_login_failures,
}
"""By the name of what goes. Each deletes at most `ROWS_AT_ONCE` rows and returns how many."""


def prune(database: Database, settings: Settings) -> dict[str, int]:
    """One step of each."""
    return {name: step(database, settings) for name, step in PRUNABLE.items()}
