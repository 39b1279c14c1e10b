"""The job table as PostgreSQL stores it: dead rows, indexes, and how a claim finds its way."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from django.apps import apps
from django.db.models import Model, UniqueConstraint

from jobs.claim import CLAIM, CLAIM_SESSION, NO_ID, START_OF_TIME
from jobs.database import Database
from jobs.doctor.findings import Finding, Level, age

DEAD_ROWS = 100_000
DEAD_SHARE = 0.2
SMALL_BYTES = 8 * 1024 * 1024
BUSY = frozenset({"jobs_job", "jobs_attempt", "jobs_joblog", "jobs_jobdependency", "jobs_rollup"})
"""Written by every job: an index more is a cost for all of them."""

BLOAT = """
SELECT s.relname, s.n_live_tup, s.n_dead_tup,
    extract(epoch FROM clock_timestamp() - greatest(s.last_autovacuum, s.last_vacuum))::float8,
    current_setting('autovacuum') = 'on' AND NOT coalesce(
        'autovacuum_enabled=false' = ANY(c.reloptions), false)
FROM pg_stat_user_tables s JOIN pg_class c ON c.oid = s.relid
WHERE s.relid = ANY(SELECT to_regclass(name) FROM unnest(%(tables)s::text[]) AS t (name))
ORDER BY s.relname
"""

INDEXES = """
SELECT t.relname, i.relname, x.indisvalid, x.indisprimary, coalesce(s.idx_scan, 0)
FROM pg_index x
JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_class t ON t.oid = x.indrelid
LEFT JOIN pg_stat_user_indexes s ON s.indexrelid = x.indexrelid
WHERE x.indrelid = ANY(SELECT to_regclass(name) FROM unnest(%(tables)s::text[]) AS t (name))
ORDER BY t.relname, i.relname
"""


def bloat(database: Database, *, dead_rows: int = DEAD_ROWS) -> list[Finding]:
    """Dead rows that vacuum has not removed: each claim and each list walks past them."""
    findings = []
    for table, live, dead, since, vacuums in database.rows(BLOAT, {"tables": _tables()}):
        if not vacuums:
            findings.append(
                Finding(
                    level=Level.ERROR,
                    message=f"autovacuum is off for {table}",
                    advice="Switch it on: without it every claim becomes slower.",
                )
            )
        if dead >= dead_rows and dead > live * DEAD_SHARE:
            last = "never" if since is None else f"{age(since)} ago"
            findings.append(
                Finding(
                    level=Level.WARNING,
                    message=f"{table} has {dead:,} dead rows beside {live:,} live ones; "
                    f"last vacuum: {last}",
                    advice="Look for old transactions, then VACUUM the table.",
                )
            )
    return findings


def indexes(database: Database) -> list[Finding]:
    """The indexes that the models declare, against those that are there."""
    found: dict[str, dict[str, tuple[bool, bool, int]]] = {}
    for table, index, valid, primary, uses in database.rows(INDEXES, {"tables": _tables()}):
        found.setdefault(table, {})[index] = (valid, primary, uses)
    findings = []
    for table, wanted in _declared().items():
        there = found.get(table, {})
        findings += [
            Finding(
                level=Level.ERROR,
                message=f"index {name} of {table} is missing",
                advice="Run manage.py migrate; if it says there is nothing to do, create the "
                "index as manage.py sqlmigrate jobs 0001 shows it, with CONCURRENTLY.",
            )
            for name in sorted(wanted - there.keys())
        ]
        for name, (valid, primary, uses) in there.items():
            if not valid:
                findings.append(
                    Finding(
                        level=Level.ERROR,
                        message=f"index {name} of {table} is invalid: its build was interrupted",
                        advice=f"REINDEX INDEX CONCURRENTLY {name}.",
                    )
                )
            elif table in BUSY and name not in wanted and not primary:
                used = f"used {uses:,} times" if uses else "never used"
                findings.append(
                    Finding(
                        level=Level.WARNING,
                        message=f"index {name} of {table} is not one of ours ({used})",
                        advice="Each index on this table slows every job. If nothing needs it, "
                        f"DROP INDEX CONCURRENTLY {name}.",
                    )
                )
    return findings


def claim_plan(database: Database, *, small_bytes: int = SMALL_BYTES) -> list[Finding]:
    """Whether claims go through their index, under the settings that workers use.

    While the table is small any way is as good, and the planner takes whichever it likes.
    """
    if database.rows("SELECT pg_relation_size('jobs_job')", {})[0][0] < small_bytes:
        return []
    answer: Any = "[]"
    try:
        with database.transaction():
            for statement in CLAIM_SESSION:
                database.run(statement.replace("SET ", "SET LOCAL ", 1), {})
            answer = database.rows(f"EXPLAIN (FORMAT JSON) {CLAIM}", _claim_params())[0][0]
            raise _Undo
    except _Undo:
        pass
    plan = json.loads(answer) if isinstance(answer, str) else answer
    scans = [
        node
        for node in _nodes(plan[0]["Plan"])
        if node.get("Relation Name") == "jobs_job" and node["Node Type"] != "ModifyTable"
    ]
    bad = [
        f"{node['Node Type']} {node.get('Index Name', '')}".strip()
        for node in scans
        if node.get("Index Name") not in ("job_ready", "jobs_job_pkey")
    ]
    through = any(node.get("Index Name") == "job_ready" for node in scans)
    if through and not bad:
        return []
    return [
        Finding(
            level=Level.ERROR,
            message="claims do not go through the index job_ready"
            + (f" but by {', '.join(bad)}" if bad else ""),
            advice="See the check of the indexes; then ANALYZE jobs_job.",
        )
    ]


class _Undo(Exception):
    """Takes back the settings of the transaction; nothing went wrong."""


def _claim_params() -> dict[str, Any]:
    return {
        "queues": ["default"],
        "types": ["any"],
        "priorities": [2],
        "mark_dues": [START_OF_TIME],
        "mark_ids": [NO_ID],
        "limit": 10,
        "worker": NO_ID,
        "aging_seconds": 600.0,
        "aging_step": 0.5,
    }


def _nodes(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield plan
    for below in plan.get("Plans", []):
        yield from _nodes(below)


def _models() -> list[type[Model]]:
    return list(apps.get_app_config("jobs").get_models())


def _tables() -> list[str]:
    return [model._meta.db_table for model in _models()]  # noqa: SLF001 - its public name


def _declared() -> dict[str, set[str]]:
    """The named indexes of each table; keys and unique fields have names that Django chooses."""
    declared = {}
    for model in _models():
        meta = model._meta  # noqa: SLF001 - its public name
        names = {index.name for index in meta.indexes}
        names |= {c.name for c in meta.constraints if isinstance(c, UniqueConstraint)}
        declared[meta.db_table] = names
    return declared
