"""Each check finds what it is for, and a healthy system has no finding."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.core.management import call_command
from django.db import connection

from jobs import doctor
from jobs.database import DjangoDatabase, direct_conninfo
from jobs.doctor import Finding, Level, storage, work, workers
from jobs.doctor import database as server
from jobs.models import JobDependency
from tests.factories import ago, make_edge, make_job, make_schedule, make_worker

pytestmark = pytest.mark.django_db


def only(findings: list[Finding]) -> Finding:
    (finding,) = findings
    return finding


def test_a_healthy_system_has_no_finding() -> None:
    worker = make_worker()
    make_job(due_at=ago(seconds=5))
    make_job("processing", worker_id=worker.id)
    make_job("dead")
    make_schedule(next_slot=ago(minutes=-1))
    checks = doctor.examine(DjangoDatabase())
    assert [check.name for check in checks] == list(doctor.CHECKS)
    assert [finding for check in checks for finding in check.findings] == []


class TestWorkers:
    def test_a_worker_without_a_beat_is_found(self) -> None:
        make_worker(name="web-1:7", beat_at=ago(minutes=5))
        make_worker(name="old", beat_at=ago(minutes=5), state="dead")
        finding = only(workers.dead_workers(DjangoDatabase()))
        assert finding.level is Level.ERROR
        assert "web-1:7 has not been heard of for 5 min" in finding.message
        make_worker()
        assert only(workers.dead_workers(DjangoDatabase())).level is Level.WARNING

    def test_jobs_on_workers_that_are_gone_are_found(self) -> None:
        alive, dead = make_worker(), make_worker(state="dead")
        make_job("processing", worker_id=alive.id)
        orphan = make_job("processing")
        left = make_job("processing", worker_id=dead.id)
        finding = only(workers.stuck_jobs(DjangoDatabase()))
        assert finding.message.startswith("2 jobs")
        assert str(orphan.id) in finding.message
        assert str(left.id) in finding.message

    def test_clocks_of_workers_that_are_off_are_found_once_for_each_host(self) -> None:
        make_worker(host="a", clock_skew_seconds=-30.0, clock_skew_uncertainty_seconds=0.1)
        make_worker(host="a", clock_skew_seconds=-31.0, clock_skew_uncertainty_seconds=0.1)
        make_worker(host="b", clock_skew_seconds=1.0, clock_skew_uncertainty_seconds=0.1)
        make_worker(host="c", clock_skew_seconds=3.0, clock_skew_uncertainty_seconds=2.0)
        make_worker(host="d", clock_skew_seconds=60.0, beat_at=ago(minutes=3))
        make_worker(host="e", clock_skew_seconds=60.0, state="stopped")
        make_worker(host="f")
        finding = only(workers.clocks(DjangoDatabase()))
        assert finding.message == "the clock of the workers' host a is 31 s behind the database's"

    def test_due_jobs_that_nobody_can_run_are_found_by_type(self) -> None:
        make_worker(types=["a"], queues=["mail"])
        for _ in range(3):
            make_job(type="b", due_at=ago(minutes=1))
        make_job(type="a", due_at=ago(minutes=1))
        make_job(type="a", queue="mail", due_at=ago(minutes=1))
        make_job("scheduled", type="c")
        found = workers.unknown_types(DjangoDatabase())
        assert [finding.message for finding in found] == [
            "1 due job of a in queue default: no live worker that knows a serves the queue default",
            "3 due jobs of b in queue default: no live worker knows the type b",
        ]


class TestWork:
    def test_edges_that_nobody_settled_are_found(self) -> None:
        child = make_job(updated_at=ago(minutes=5))
        make_edge(child, make_job())
        JobDependency.objects.update(settled=False)
        finding = only(work.unsettled_edges(DjangoDatabase()))
        assert finding.message == "1 dependency not settled for up to 5 min"

    def test_overdue_schedules_are_found(self) -> None:
        make_schedule(name="nightly", next_slot=ago(hours=2), last_error="bad payload")
        make_schedule(next_slot=ago(hours=2), enabled=False)
        finding = only(work.overdue_schedules(DjangoDatabase()))
        assert finding.message == "schedule nightly is overdue by 2 h: bad payload"


class TestServer:
    def test_a_clock_that_differs_is_found(self, monkeypatch: pytest.MonkeyPatch) -> None:
        real = time.time
        monkeypatch.setattr(time, "time", lambda: real() + 600)
        finding = only(server.clock(DjangoDatabase()))
        assert finding.message == "the clock of this host is 10 min ahead of the database's"

    def test_an_old_transaction_is_found_with_who_holds_it(self) -> None:
        with psycopg.connect(direct_conninfo(), application_name="report") as other:
            other.execute("SELECT 1")
            found = server.old_transactions(DjangoDatabase(), old_seconds=0.0)
            pid = other.info.backend_pid
        assert [f for f in found if f"session {pid} (report" in f.message]
        assert server.old_transactions(DjangoDatabase()) == []


class TestStorage:
    @pytest.fixture
    def sql(self) -> Iterator[Any]:
        with connection.cursor() as cursor:
            yield cursor

    def test_a_missing_index_is_found(self, sql: Any) -> None:
        sql.execute("DROP INDEX job_ready")
        assert [f.message for f in storage.indexes(DjangoDatabase())] == [
            "index job_ready of jobs_job is missing"
        ]
        finding = only(storage.claim_plan(DjangoDatabase(), small_bytes=0))
        assert "claims do not go through the index job_ready" in finding.message

    def test_an_index_that_is_not_ours_is_found(self, sql: Any) -> None:
        sql.execute("CREATE INDEX by_hand ON jobs_job (created_at)")
        finding = only(storage.indexes(DjangoDatabase()))
        assert finding.level is Level.WARNING
        assert finding.message == "index by_hand of jobs_job is not one of ours (never used)"

    def test_an_invalid_index_is_found(self, sql: Any) -> None:
        sql.execute(
            "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'job_dead'::regclass"
        )
        assert "job_dead of jobs_job is invalid" in only(storage.indexes(DjangoDatabase())).message

    def test_autovacuum_that_is_off_is_found(self, sql: Any) -> None:
        sql.execute("ALTER TABLE jobs_job SET (autovacuum_enabled = false)")
        found = storage.bloat(DjangoDatabase())
        assert [f.message for f in found] == ["autovacuum is off for jobs_job"]


@pytest.mark.django_db(transaction=True)
def test_dead_rows_are_found() -> None:
    for _ in range(20):
        make_job()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE jobs_job SET priority = 1")
        cursor.execute("SELECT pg_stat_force_next_flush()")
        cursor.execute("SELECT 1")
    found = storage.bloat(DjangoDatabase(), dead_rows=20)
    assert any("jobs_job has" in finding.message for finding in found)


def test_a_check_that_fails_is_a_finding_and_stops_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(database: Any) -> list[Finding]:
        database.rows("SELECT nonsense", {})
        return []

    monkeypatch.setitem(doctor.CHECKS, "dead workers", broken)
    checks = doctor.examine(DjangoDatabase())
    assert "could not be checked" in only(checks[0].findings).message
    assert [check.findings for check in checks[1:]] == [[]] * (len(checks) - 1)


def test_the_command_exits_with_1_on_a_finding() -> None:
    make_worker(name="[bold]w[/bold]", beat_at=ago(minutes=5))
    out = io.StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("jobs", "doctor", stdout=out)
    assert ended.value.code == 1
    assert "[bold]w[/bold] has not been heard of" in out.getvalue()
    out = io.StringIO()
    with pytest.raises(SystemExit):
        call_command("jobs", "doctor", "--json", stdout=out)
    assert json.loads(out.getvalue())["findings"] == 1
