"""The statements of the busy loop read a bounded number of rows, whatever lies around them.

A worker prepares its statements and runs generic plans, so these are what is explained here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import psycopg
import pytest
from django.db import connection

from jobs.claim import CLAIM, CLAIM_SESSION, NEXT_DUE, NO_ID, QUEUES_WITH_WORK, START_OF_TIME
from jobs.complete import COMPLETE, COMPLETE_SESSION, END
from jobs.database import direct_conninfo
from jobs.ids import new_id
from tests.plans import nodes, rows_read, scans

IN_FRONT = 100_000
LIMIT = 50

FILL = """
INSERT INTO jobs_job (id, type, queue, payload, status, due_at, completed_at, worker_id,
    started_at, unmet_dependencies, max_attempts, lease_epoch)
SELECT lpad(to_hex(%(first)s + n), 32, '0')::uuid, %(type)s, %(queue)s, '{}', %(status)s,
    now() + %(later)s * interval '1 hour' + n * interval '1 ms',
    CASE WHEN %(status)s = 'completed' THEN now() END,
    CASE WHEN %(status)s = 'processing' THEN %(worker)s::uuid END, now(), %(unmet)s, 3, 1
FROM generate_series(1, %(count)s) n
"""

Plan = Mapping[str, Any]


@pytest.fixture(scope="module")
def worker_id() -> str:
    return new_id()


@pytest.fixture(scope="module", params=["without statistics", "with statistics"])
def crowded(
    request: pytest.FixtureRequest, worker_id: str, django_db_setup: None, django_db_blocker: Any
) -> Iterator[None]:
    """2,000 due jobs and 500 of this worker behind 100,000 of each other kind.

    Statistics that nobody has gathered yet, or that have gone stale, must not change the plan.
    """
    kinds: list[dict[str, Any]] = [
        {"later": 1},
        {"queue": "other", "later": -3},
        {"type": "unknown", "later": -3},
        {"status": "completed", "later": -3},
        {"unmet": 1, "later": -3, "count": IN_FRONT // 4},
        {"status": "processing", "worker": new_id(), "later": -3, "count": IN_FRONT // 4},
        {"status": "processing", "worker": worker_id, "later": -3, "count": 500},
        {"later": -1, "count": 2_000},
    ]
    usual: dict[str, Any] = {
        "type": "known",
        "queue": "default",
        "status": "pending",
        "unmet": 0,
        "worker": None,
        "count": IN_FRONT,
    }
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        cursor.execute("TRUNCATE jobs_job")
        for number, kind in enumerate(kinds):
            cursor.execute(FILL, {**usual, **kind, "first": number * IN_FRONT})
        if request.param == "with statistics":
            cursor.execute("VACUUM ANALYZE jobs_job")
        yield
        cursor.execute("TRUNCATE jobs_job")
    connection.close()


@pytest.fixture
def session() -> Iterator[psycopg.Connection[Any]]:
    """A connection that forgets what it did."""
    with psycopg.connect(direct_conninfo()) as connection:
        yield connection
        connection.rollback()


def explain(
    session: psycopg.Connection[Any], sql: str, params: Mapping[str, Any], settings: Any
) -> Plan:
    """Run a statement as a worker does and return its plan; what it wrote is rolled back."""
    for statement in settings:
        session.execute(statement)
    names: list[str] = []

    def numbered(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in names:
            names.append(name)
        return f"${names.index(name) + 1}"

    text = re.sub(r"%\((\w+)\)s", numbered, sql)
    session.execute(f"PREPARE explained AS {text}".encode())
    cursor = psycopg.ClientCursor(session)
    given = ", ".join(cursor.mogrify("%s", [params[name]]) for name in names)
    call = f"EXECUTE explained({given})" if names else "EXECUTE explained"
    row = session.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {call}".encode()).fetchone()
    assert row is not None
    session.execute("DEALLOCATE explained")
    found = row[0] if isinstance(row[0], list) else json.loads(row[0])
    plan: Plan = found[0]["Plan"]
    return plan


def buffers(plan: Plan) -> int:
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


def lanes(types: int = 8) -> dict[str, Any]:
    """The lanes of a worker that knows this many types, three priorities each."""
    names = ["known", *(f"other {n}" for n in range(types - 1))]
    pairs = [(name, priority) for name in names for priority in (1, 2, 3)]
    return {
        "queues": ["default"] * len(pairs),
        "types": [name for name, _ in pairs],
        "priorities": [priority for _, priority in pairs],
    }


def claim_params(worker_id: str, **changed: Any) -> dict[str, Any]:
    given = lanes()
    count = len(given["queues"])
    return {
        **given,
        "mark_dues": [START_OF_TIME] * count,
        "mark_ids": [NO_ID] * count,
        "limit": LIMIT,
        "worker": worker_id,
        "aging_seconds": 600.0,
        "aging_step": 0.5,
        **changed,
    }


@pytest.mark.django_db
@pytest.mark.usefixtures("crowded")
class TestPlans:
    def test_a_claim_reads_what_it_takes_and_one_look_per_lane(
        self, session: psycopg.Connection[Any], worker_id: str
    ) -> None:
        plan = explain(session, CLAIM, claim_params(worker_id), CLAIM_SESSION)

        # Peeked at once, locked once, updated once.
        assert rows_read(plan) <= 4 * LIMIT
        assert buffers(plan) < 60 * LIMIT
        assert not [scan for scan in scans(plan) if scan.startswith("Seq Scan jobs_job")]
        assert "Index Only Scan job_ready" in scans(plan) or "Index Scan job_ready" in scans(plan)

    def test_a_claim_of_lanes_without_due_work_reads_next_to_nothing(
        self, session: psycopg.Connection[Any], worker_id: str
    ) -> None:
        params = claim_params(worker_id)
        params["queues"] = ["nowhere"] * len(params["queues"])

        plan = explain(session, CLAIM, params, CLAIM_SESSION)

        assert rows_read(plan) == 0
        assert buffers(plan) < 20 * len(params["queues"])

    def test_jobs_that_are_not_due_yet_cost_a_claim_nothing(
        self, session: psycopg.Connection[Any], worker_id: str
    ) -> None:
        session.execute("DELETE FROM jobs_job WHERE type = 'known' AND due_at < now()")

        plan = explain(session, CLAIM, claim_params(worker_id), CLAIM_SESSION)

        assert rows_read(plan) <= 8

    def test_the_time_of_the_next_job_is_one_look_per_lane(
        self, session: psycopg.Connection[Any]
    ) -> None:
        plan = explain(session, NEXT_DUE, lanes(), CLAIM_SESSION)

        assert rows_read(plan) <= len(lanes()["queues"])
        assert buffers(plan) < 10 * len(lanes()["queues"])

    def test_the_queues_with_work_are_one_descent_each(
        self, session: psycopg.Connection[Any]
    ) -> None:
        plan = explain(session, QUEUES_WITH_WORK, {}, CLAIM_SESSION)

        assert rows_read(plan) <= 10
        assert buffers(plan) < 60

    def test_a_batch_is_completed_row_by_row_in_the_order_of_ids(
        self, session: psycopg.Connection[Any], worker_id: str
    ) -> None:
        ids = self._held(session, worker_id)
        params = {
            "ids": ids,
            "epochs": [1] * len(ids),
            "waits": [0.0] * len(ids),
            "runs": [0.1] * len(ids),
            "results": [None] * len(ids),
            "worker": worker_id,
        }

        plan = explain(session, COMPLETE, params, COMPLETE_SESSION)

        [update] = [
            node
            for node in nodes(plan)
            if node["Node Type"] == "ModifyTable" and node.get("Relation Name") == "jobs_job"
        ]
        [join] = update["Plans"]
        # Nested, so that rows are locked in the order of the sorted input.
        assert join["Node Type"] == "Nested Loop"
        assert "Index Scan jobs_job_pkey" in scans(join)
        assert any(node["Node Type"] == "Sort" for node in nodes(join["Plans"][0]))
        assert rows_read(plan) <= 2 * len(ids)  # each read once and written once
        assert buffers(plan) < 80 * len(ids)

    def test_ends_of_other_kinds_read_their_own_rows_only(
        self, session: psycopg.Connection[Any], worker_id: str
    ) -> None:
        ids = self._held(session, worker_id)
        endings = [
            {
                "id": id,
                "lease_epoch": 1,
                "status": "pending",
                "outcome": "failed",
                "event": "retry_scheduled",
                "spent": True,
                "delay": 5.0,
                "held": False,
                "hold_reason": "",
                "wait": 0.0,
                "run": 0.1,
                "error": "bad",
                "traceback": "",
                "fingerprint": "",
                "result": None,
                "waits": 0,
                "snoozes": 0,
                "losses": 0,
                "level": "warning",
            }
            for id in ids
        ]
        params = {"endings": json.dumps(endings), "worker": worker_id}

        plan = explain(session, END, params, COMPLETE_SESSION)

        assert rows_read(plan) <= 3 * len(ids)  # locked, read and written
        assert not [scan for scan in scans(plan) if scan.startswith("Seq Scan jobs_job")]

    def _held(self, session: psycopg.Connection[Any], worker_id: str) -> list[str]:
        rows = session.execute(
            "SELECT id::text FROM jobs_job WHERE worker_id = %s AND status = 'processing' "
            "ORDER BY random() LIMIT 100",
            [worker_id],
        ).fetchall()
        return [row[0] for row in rows]
