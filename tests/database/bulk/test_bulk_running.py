"""Bulk operations that are interrupted, refused, paused, or wait for each other."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from django.db import connection
from django.utils import timezone

from jobs import audit, bulk, lifecycle
from jobs.answers import JobCancelled, Snooze
from jobs.bulk import running
from jobs.errors import Conflict, NotFound
from jobs.filtering import Filters
from jobs.models import BulkOperation, Job, JobLog
from jobs.testing import run_due_jobs
from tests.database.bulk.operations import DEAD, Attempt, jobs_of, statuses, worked
from tests.factories import ago, make_job

pytestmark = pytest.mark.django_db


class TestFaults:
    def test_a_job_that_the_database_refuses_is_passed_over_alone(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        jobs = [make_job("dead", type="nobody", failed_at=ago(hours=50 - n)) for n in range(40)]
        with connection.cursor() as cursor:
            cursor.execute(
                f"ALTER TABLE jobs_job ADD CONSTRAINT cursed CHECK "
                f"(id <> '{jobs[17].id}'::uuid OR status = 'failed')"
            )
        operation = worked(bulk.create("retry", DEAD))
        assert (operation.status, operation.changed, operation.failed) == ("completed", 39, 1)
        [failure] = operation.failures
        assert failure["id"] == str(jobs[17].id)
        assert "cursed" in failure["error"]
        assert statuses(*jobs).count("failed") == 1

    def test_what_fails_for_every_job_ends_the_operation(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(running, "MOST_FAILURES", 3)
        for _ in range(10):
            make_job("dead")
        with connection.cursor() as cursor:
            cursor.execute(
                "ALTER TABLE jobs_job ADD CONSTRAINT no CHECK (type <> 'test' OR status = 'failed')"
            )
        operation = worked(bulk.create("retry", DEAD))
        assert (operation.status, operation.changed, operation.failed) == ("failed", 0, 2)
        assert "3 jobs in a row failed" in operation.error

    def test_filters_that_can_no_longer_be_read_end_the_operation(self) -> None:
        operation = bulk.create("retry", DEAD)
        BulkOperation.objects.update(filters={"colour": "red"})
        run_due_jobs()
        operation.refresh_from_db()
        assert (operation.status, operation.error) == ("failed", "colour: is not a filter")


class TestAttempts:
    def test_an_attempt_that_lost_its_lease_changes_nothing(self) -> None:
        job = make_job("dead", type="nobody")
        operation = bulk.create("retry", DEAD)
        stale, fresh = Attempt(operation), Attempt(operation)
        assert stale.work(operation) is None
        assert statuses(job) == ["failed"]
        assert bulk.get(operation.id).status == "pending"
        fresh.work(operation)
        assert statuses(job) == ["pending"]

    def test_it_yields_after_a_batch_and_the_next_attempt_goes_on(
        self, small_batches: None
    ) -> None:
        for _ in range(5):
            make_job("dead", type="nobody")
        operation = bulk.create("retry", DEAD)
        first = Attempt(operation)
        first.should_yield = True
        snoozes = [first.work(operation) for _ in range(2)]  # its turn, and one batch
        assert snoozes == [Snooze(0, quiet=True)] * 2
        assert bulk.get(operation.id).changed == 3
        assert Attempt(operation).work(operation) is None
        assert (bulk.get(operation.id).status, bulk.get(operation.id).changed) == ("completed", 5)

    def test_cancelling_its_job_aborts_it_after_the_batch(self, small_batches: None) -> None:
        for _ in range(5):
            make_job("dead", type="nobody")
        operation = bulk.create("retry", DEAD)
        attempt = Attempt(operation)
        attempt.should_yield = True
        attempt.work(operation)
        attempt.stop_reason = "cancel"
        with pytest.raises(JobCancelled):
            attempt.work(operation)
        operation = bulk.get(operation.id)
        assert (operation.status, operation.error) == ("aborted", "its job was cancelled")
        assert operation.changed == 3

    def test_a_deadlock_undoes_the_batch_and_it_is_tried_again(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for _ in range(4):
            make_job("dead", type="nobody")
        operation = bulk.create("retry", DEAD)
        grow = audit.grow
        raised: list[bool] = []

        def once(*given: Any) -> None:
            if not raised:
                raised.append(True)
                raise psycopg.errors.DeadlockDetected
            grow(*given)

        monkeypatch.setattr(audit, "grow", once)
        Attempt(operation).work(operation)
        operation = bulk.get(operation.id)
        assert (operation.status, operation.changed, operation.failed) == ("completed", 4, 0)
        assert JobLog.objects.filter(event="retried").count() == 4

    def test_a_database_that_is_away_ends_the_attempt_and_not_the_operation(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        make_job("dead", type="nobody")
        operation = bulk.create("retry", DEAD)

        def gone(*_: Any) -> None:
            raise psycopg.OperationalError("the connection is closed")

        with monkeypatch.context() as patch:
            patch.setattr(audit, "grow", gone)
            with pytest.raises(psycopg.OperationalError):
                Attempt(operation).work(operation)
        operation = bulk.get(operation.id)
        assert (operation.status, operation.changed, operation.failed) == ("running", 0, 0)
        Attempt(operation).work(operation)
        assert bulk.get(operation.id).changed == 1


class TestPausing:
    def test_a_paused_operation_changes_nothing_until_it_is_resumed(self) -> None:
        job = make_job("dead", type="nobody")
        operation = bulk.create("retry", DEAD)
        bulk.pause(operation.id, by="anna")
        assert worked(operation).status == "paused"
        assert statuses(job) == ["failed"]
        bulk.resume(operation.id, by="anna")
        assert worked(operation).status == "completed"
        assert statuses(job) == ["pending"]

    def test_a_pause_in_the_middle_holds_after_the_batch_and_goes_on_behind_it(
        self, small_batches: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for _ in range(7):
            make_job("dead", type="nobody")
        operation = bulk.create("retry", DEAD)
        batch = running.Run._batch

        def then_pause(self: Any, held: Any) -> Any:
            verdict = batch(self, held)
            BulkOperation.objects.filter(id=held.id).update(status="paused")
            return verdict

        with monkeypatch.context() as patch:
            patch.setattr(running.Run, "_batch", then_pause)
            assert worked(operation).changed == 3
        bulk.resume(operation.id)
        operation = worked(operation)
        assert (operation.status, operation.changed) == ("completed", 7)
        assert JobLog.objects.filter(event="retried").count() == 7

    def test_the_job_of_before_a_resume_leaves_the_operation_to_the_new_one(self) -> None:
        make_job("dead", type="nobody")
        operation = bulk.create("retry", DEAD)
        first = operation.job_id
        bulk.pause(operation.id)
        operation = bulk.resume(operation.id)
        assert operation.job_id != first
        operation = worked(operation)
        assert operation.changed == 1
        assert statuses(*Job.objects.filter(id__in=[first, operation.job_id])) == ["completed"] * 2

    def test_an_aborted_operation_stays_so(self) -> None:
        job = make_job("dead")
        operation = bulk.create("retry", DEAD)
        assert bulk.abort(operation.id, by="anna").finished_at is not None
        assert worked(operation).status == "aborted"
        assert statuses(job) == ["failed"]
        assert bulk.abort(operation.id).status == "aborted"
        for act in (bulk.pause, bulk.resume):
            with pytest.raises(Conflict, match="is aborted: it has ended"):
                act(operation.id)

    def test_a_completed_operation_cannot_be_aborted(self) -> None:
        operation = worked(bulk.create("retry", DEAD))
        with pytest.raises(Conflict):
            bulk.abort(operation.id)

    @pytest.mark.parametrize("bad", ["nonsense", "\x00", "0198c0de-0000-7000-8000-000000000000"])
    def test_what_does_not_exist_is_not_found(self, bad: str) -> None:
        for act in (bulk.get, bulk.pause, bulk.resume, bulk.abort):
            with pytest.raises(NotFound):
                act(bad)

    def test_an_operation_whose_job_was_cancelled_is_aborted(self) -> None:
        from jobs.database import DjangoDatabase

        gone, cancelled = bulk.create("retry", DEAD), bulk.create("retry", DEAD)
        paused = bulk.create("retry", DEAD)
        bulk.pause(paused.id)
        jobs_of(gone).delete()
        lifecycle.cancel(cancelled.job_id)
        lifecycle.cancel(paused.job_id)
        assert bulk.mend(DjangoDatabase()) == 2
        ends = [bulk.get(each.id) for each in (gone, cancelled, paused)]
        assert [(end.status, end.error) for end in ends] == [
            ("failed", "its job is gone"),
            ("aborted", "its job was cancelled"),
            ("paused", ""),
        ]
        assert worked(bulk.resume(paused.id)).status == "completed"


class TestTurns:
    def test_the_second_of_a_family_waits_for_the_first(self) -> None:
        first, second = bulk.create("retry", DEAD), bulk.create("purge", DEAD)
        BulkOperation.objects.filter(id=first.id).update(status="running")
        jobs_of(first).update(due_at=None)
        assert worked(second).status == "pending"
        assert bulk.as_json(second)["waits_for"] == str(first.id)
        bulk.abort(first.id)
        jobs_of(second).update(due_at=timezone.now())
        assert worked(second).status == "completed"

    def test_the_older_goes_first_also_when_the_younger_is_looked_at_first(self) -> None:
        first, second = bulk.create("retry", DEAD), bulk.create("retry", DEAD)
        held = jobs_of(first)
        held.update(due_at=None)
        assert worked(second).status == "pending"
        held.update(due_at=timezone.now())
        assert worked(first).status == "completed"

    @pytest.mark.parametrize(
        ("action", "filters", "waits"),
        [
            ("purge", Filters(), True),
            ("purge", Filters(type="resize"), True),
            ("purge", Filters(type="other"), False),
            ("purge", Filters(type="resize", queue="b"), False),
            ("cancel", Filters(), False),
        ],
    )
    def test_only_what_could_meet_the_same_jobs_waits(
        self, action: str, filters: Filters, waits: bool
    ) -> None:
        first = bulk.create("retry", Filters(type="resize", queue="a"))
        BulkOperation.objects.filter(id=first.id).update(status="running")
        second = bulk.create(action, filters)
        assert bulk.as_json(second)["waits_for"] == (str(first.id) if waits else None)

    def test_a_paused_operation_holds_up_nobody(self) -> None:
        first, second = bulk.create("retry", DEAD), bulk.create("retry", DEAD)
        bulk.pause(first.id)
        assert worked(second).status == "completed"
