"""Bulk operations: what they change, what they leave alone, and what may be asked of them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, cast

import psycopg
import pytest
from django.db import connection
from django.db.models import F
from django.utils import timezone

from jobs import bulk, events, lifecycle
from jobs.answers import JobCancelled, Snooze
from jobs.bulk import choosing, running
from jobs.errors import Conflict, InvalidInput, NotFound, TooBroad
from jobs.filtering import Filters
from jobs.ids import new_uuid
from jobs.listing import INTERNAL
from jobs.models import AuditEntry, BulkOperation, Job, JobLog
from jobs.states import State, Status
from jobs.testing import run_due_jobs
from tests.factories import ago, make_edge, make_job

pytestmark = pytest.mark.django_db

DEAD = Filters(status=Status.FAILED)


@pytest.fixture(autouse=True)
def _no_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "REST", 0.0)


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "BATCH", 3)


def worked(operation: BulkOperation) -> BulkOperation:
    """Have a worker do all that is due, and look again."""
    run_due_jobs()
    return bulk.get(operation.id)


def jobs_of(operation: BulkOperation) -> Any:
    """The job that works on it, if it is there."""
    assert operation.job_id is not None
    return Job.objects.filter(id=operation.job_id)


def statuses(*jobs: Job) -> list[str]:
    found = dict(Job.objects.values_list("id", "status"))
    return [found.get(job.id, "gone") for job in jobs]


class TestActions:
    def test_a_retry_brings_back_every_dead_letter_that_matches(self, small_batches: None) -> None:
        mail = [make_job("dead", queue="mail", type="nobody") for _ in range(8)]
        other = make_job("dead", queue="other")
        live = make_job(queue="mail", type="nobody")
        operation = bulk.create(
            "retry", Filters(queue="mail"), by="anna", reason="provider is back"
        )
        assert (operation.status, operation.matched) == ("pending", 8)
        operation = worked(operation)
        assert (operation.status, operation.changed, operation.skipped) == ("completed", 8, 0)
        assert operation.finished_at is not None
        assert statuses(*mail, other, live) == ["pending"] * 8 + ["failed", "pending"]
        for job in mail:
            line = JobLog.objects.get(job=job)
            assert (line.event, line.message) == ("retried", "by anna: provider is back")

    def test_a_purge_deletes_and_cancels_what_waited(self, small_batches: None) -> None:
        dead = [make_job("dead") for _ in range(7)]
        child = make_job()
        make_edge(child, dead[4])
        operation = worked(bulk.create("purge", DEAD, by="anna"))
        assert (operation.status, operation.changed) == ("completed", 7)
        assert statuses(*dead, child) == ["gone"] * 7 + ["cancelled"]

    def test_a_cancel_reaches_pending_and_running_jobs(self, small_batches: None) -> None:
        pending = [make_job("scheduled") for _ in range(5)]
        processing = [make_job("processing") for _ in range(5)]
        done = make_job("completed")
        operation = worked(bulk.create("cancel", Filters(), by="anna"))
        assert (operation.status, operation.changed) == ("completed", 10)
        assert statuses(*pending, done) == ["cancelled"] * 5 + ["completed"]
        asked = Job.objects.filter(id__in=[job.id for job in processing])
        assert asked.filter(cancel_requested_at__isnull=False).count() == 5

    def test_run_now_makes_due_what_is_not_and_blocked_jobs_are_skipped(self) -> None:
        later = [make_job("scheduled", type="nobody"), make_job("held", type="nobody")]
        blocked = make_job("scheduled", type="nobody")
        make_edge(blocked, make_job("processing"))
        due = make_job(type="nobody")
        operation = worked(bulk.create("run_now", Filters(), by="anna"))
        assert (operation.changed, operation.skipped) == (2, 2)
        assert operation.skipped_reasons == {
            "not waiting for its time: blocked": 1,
            "already due": 1,
        }
        ready = set(Job.objects.ready().values_list("id", flat=True))
        assert ready == {later[0].id, later[1].id, due.id}

    def test_a_new_priority_is_given_to_those_that_have_another(self) -> None:
        jobs = [make_job(priority=p, type="nobody") for p in (1, 2, 3)]
        arguments = {"priority": 1}
        operation = worked(
            bulk.create("change_priority", Filters(), arguments=arguments, by="anna")
        )
        assert (operation.changed, operation.skipped_reasons) == (2, {"nothing to change": 1})
        assert set(Job.objects.filter(type="nobody").values_list("priority", flat=True)) == {1}
        line = JobLog.objects.get(job=jobs[2])
        assert line.message == "by anna: priority 3 to 1"

    def test_jobs_are_moved_to_another_queue(self) -> None:
        job, other = make_job(queue="a", type="nobody"), make_job(queue="c", type="nobody")
        worked(bulk.create("move_queue", Filters(queue="a"), arguments={"queue": "b"}))
        job.refresh_from_db()
        other.refresh_from_db()
        assert (job.queue, other.queue) == ("b", "c")


class TestWhatIsLeftAlone:
    def test_a_job_that_dies_after_the_operation_was_made_is_not_retried_by_it(self) -> None:
        old = make_job("dead", type="nobody")
        operation = bulk.create("retry", DEAD)
        young = make_job("dead", failed_at=timezone.now() + timedelta(seconds=1))
        assert worked(operation).changed == 1
        assert statuses(old, young) == ["pending", "failed"]

    def test_a_job_that_dies_again_meanwhile_is_met_once(
        self, small_batches: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        jobs = [make_job("dead", type="nobody") for _ in range(7)]
        operation = bulk.create("retry", DEAD)
        step = running.Run._step

        def die_again(self: Any) -> Any:
            verdict = step(self)
            Job.objects.filter(type="nobody", status="pending").update(
                status="failed", failed_at=timezone.now()
            )
            return verdict

        monkeypatch.setattr(running.Run, "_step", die_again)
        operation = worked(operation)
        assert (operation.status, operation.changed) == ("completed", 7)
        assert JobLog.objects.filter(event="retried").count() == len(jobs)

    def test_a_live_job_that_was_made_later_is_not_cancelled(self) -> None:
        old = make_job("scheduled")
        operation = bulk.create("cancel", Filters())
        young = make_job("scheduled", created_at=timezone.now() + timedelta(seconds=1))
        assert worked(operation).changed == 1
        assert statuses(old, young) == ["cancelled", "pending"]

    @pytest.mark.parametrize("action", ["retry", "purge"])
    def test_what_coppice_made_for_itself_is_not_touched(self, action: str) -> None:
        run = make_job("dead", type="ranges.run", metadata=INTERNAL)
        assert worked(bulk.create(action, DEAD)).changed == 0
        assert statuses(run) == ["failed"]

    def test_a_bulk_cancel_does_not_cancel_its_own_job(self) -> None:
        operation = worked(bulk.create("cancel", Filters()))
        assert (operation.status, operation.changed) == ("completed", 0)
        assert jobs_of(operation).get().status == Status.COMPLETED

    def test_a_job_that_changes_before_its_batch_is_skipped_with_a_reason(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first, second = make_job("dead", type="nobody"), make_job("dead", type="nobody")
        operation = bulk.create("retry", DEAD)
        still = choosing.Walk.still

        def meanwhile(self: Any, ids: Any) -> Any:
            lifecycle.retry(first.id)
            return still(self, ids)

        monkeypatch.setattr(choosing.Walk, "still", meanwhile)
        operation = worked(operation)
        assert (operation.changed, operation.skipped_reasons) == (1, {"no longer matches": 1})
        assert statuses(first, second) == ["pending", "pending"]

    def test_a_unique_key_that_is_taken_skips_that_job(self) -> None:
        make_job(unique_key="a", type="nobody")
        make_job("dead", unique_key="a", type="nobody")
        make_job("dead", unique_key="b", type="nobody")
        operation = worked(bulk.create("retry", DEAD))
        assert (operation.changed, operation.skipped) == (1, 1)
        assert operation.skipped_reasons == {"another live job has the unique key <text>": 1}

    def test_the_cap_is_the_most_that_changes(self, small_batches: None) -> None:
        jobs = [make_job("dead", type="nobody", failed_at=ago(hours=9 - n)) for n in range(8)]
        operation = worked(bulk.create("retry", DEAD, cap=5))
        assert (operation.status, operation.changed) == ("completed", 5)
        assert statuses(*jobs) == ["pending"] * 5 + ["failed"] * 3


class TestWalk:
    def test_jobs_that_died_at_the_same_moment_are_all_met_once(self, small_batches: None) -> None:
        moment = ago(hours=1)
        for _ in range(11):
            make_job("dead", failed_at=moment, type="nobody")
        assert worked(bulk.create("retry", DEAD)).changed == 11
        assert JobLog.objects.filter(event="retried").count() == 11

    @pytest.mark.parametrize("action", ["retry", "cancel"])
    def test_where_one_look_takes_too_long_it_goes_on_in_stretches(
        self, action: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(choosing, "STRETCH", 4)
        monkeypatch.setattr(running, "BATCH", 3)

        def too_slow(*_: Any, **__: Any) -> Any:
            raise TooBroad("too slow", field="filter")

        monkeypatch.setattr(choosing, "limited", too_slow)
        traits = ["dead"] if action == "retry" else ["scheduled", "processing"]
        for n in range(30):
            make_job(traits[n % len(traits)], queue="rare" if n in (0, 7, 8, 9, 29) else "usual")
        operation = worked(bulk.create(action, Filters(queue="rare")))
        assert (operation.status, operation.changed) == ("completed", 5)

    def test_a_walk_over_groups_and_types_goes_through_their_index(self) -> None:
        action = bulk.ACTIONS["retry"]
        filters = Filters(type="resize", error_fingerprint="0123456789abcdef")
        walk = choosing.Walk(action=action, filters=filters, before=timezone.now())
        place = choosing.Place(id=make_job().id, died=ago(hours=1))
        [pool] = choosing.pools_of(action, filters, walk.before)
        behind = choosing._ordered(action, choosing._between(pool, action, place, None))[:500]
        sql, params = behind.query.sql_with_params()
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL enable_seqscan = off")
            cursor.execute(f"EXPLAIN {sql}", params)
            plan = "\n".join(row[0] for row in cursor.fetchall())
        assert "job_dead_group" in plan
        assert "Sort" not in plan


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


class Attempt:
    """One attempt of an operation's job, as its handler sees it."""

    def __init__(self, operation: BulkOperation) -> None:
        jobs_of(operation).update(
            status="processing", worker_id=new_uuid(), lease_epoch=F("lease_epoch") + 1
        )
        self.lease_epoch = jobs_of(operation).get().lease_epoch
        self.job_id = str(operation.job_id)
        self.stop_reason = ""
        self.should_yield = False

    def check_cancelled(self) -> None:
        if self.stop_reason:
            raise JobCancelled

    def progress(self, done: int, total: int) -> None:
        pass

    def work(self, operation: BulkOperation) -> Any:
        return running.Run(str(operation.id), cast("Any", self)).work()


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
        audit_grow, raised = running.audit.grow, []

        def once(*given: Any) -> None:
            if not raised:
                raised.append(True)
                raise psycopg.errors.DeadlockDetected
            audit_grow(*given)

        monkeypatch.setattr(running.audit, "grow", once)
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
            patch.setattr(running.audit, "grow", gone)
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


class TestInput:
    @pytest.mark.parametrize(
        ("action", "filters", "options", "field"),
        [
            ("explode", Filters(), {}, "action"),
            (None, Filters(), {}, "action"),
            ("retry", Filters(status=Status.PENDING), {}, "status"),
            ("retry", Filters(state=State.READY), {}, "state"),
            ("purge", Filters(status=Status.COMPLETED), {}, "status"),
            ("cancel", Filters(status=Status.FAILED), {}, "status"),
            ("cancel", Filters(state=State.CANCELLING), {}, "state"),
            ("run_now", Filters(status=Status.PROCESSING), {}, "status"),
            ("run_now", Filters(state=State.BLOCKED), {}, "state"),
            ("retry", Filters(completed_after=timezone.now()), {}, "completed_after"),
            ("cancel", Filters(failed_before=timezone.now()), {}, "failed_before"),
            ("retry", Filters(internal=True), {}, "internal"),
            ("retry", Filters(type="\x00"), {}, "type"),
            ("change_priority", Filters(), {}, "arguments.priority"),
            ("change_priority", Filters(), {"arguments": {"priority": 9}}, "arguments.priority"),
            ("move_queue", Filters(), {"arguments": {"queue": "a b"}}, "arguments.queue"),
            ("move_queue", Filters(), {"arguments": {"queue": "a", "x": 1}}, "arguments.x"),
            ("retry", Filters(), {"arguments": {"priority": 1}}, "arguments.priority"),
            ("retry", Filters(), {"arguments": [1]}, "arguments"),
            ("retry", Filters(), {"cap": 0}, "cap"),
            ("retry", Filters(), {"cap": True}, "cap"),
            ("retry", Filters(), {"cap": 2**63}, "cap"),
        ],
    )
    def test_what_cannot_be_done_is_refused_and_nothing_is_stored(
        self, action: Any, filters: Filters, options: dict[str, Any], field: str
    ) -> None:
        with pytest.raises(InvalidInput) as refused:
            bulk.create(action, filters, **options)
        assert refused.value.field == field
        assert not BulkOperation.objects.exists()
        assert not Job.objects.exists()

    def test_purging_all_dead_letters_is_a_right_of_its_own(self) -> None:
        assert bulk.permission_of("purge", DEAD) == "jobs.purge_all_dead"
        assert bulk.permission_of("purge", Filters(internal=False)) == "jobs.purge_all_dead"
        assert bulk.permission_of("purge", Filters(queue="mail")) == "jobs.purge_job"
        assert bulk.permission_of("retry", DEAD) == "jobs.retry_job"


class TestPreview:
    def test_it_counts_and_shows_the_ends_and_a_sample(self) -> None:
        jobs = [make_job("dead", queue="mail", failed_at=ago(hours=n)) for n in range(15)]
        make_job("dead", queue="other")
        found = bulk.preview("purge", Filters(queue="mail"))
        assert (found.count, found.is_capped, found.in_words) == (15, False, "queue mail")
        assert (found.oldest, found.newest) == (jobs[-1].failed_at, jobs[0].failed_at)
        assert [job.id for job in found.sample] == [job.id for job in jobs[:10]]

    def test_live_jobs_of_both_statuses_are_counted_together(self) -> None:
        jobs = [make_job("scheduled"), make_job("processing"), make_job("scheduled")]
        make_job("scheduled", metadata=INTERNAL)
        found = bulk.preview("cancel", Filters())
        assert (found.count, found.in_words) == (3, "all jobs that are pending or processing")
        assert [job.id for job in found.sample] == [job.id for job in reversed(jobs)]
        assert found.oldest == jobs[0].created_at

    def test_above_the_cap_it_is_a_least_number(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("jobs.bulk.previewing.CAP", 3)
        for _ in range(4):
            make_job("dead")
        found = bulk.preview("retry", DEAD)
        assert (found.count, found.is_capped) == (3, True)
        operation = bulk.create("retry", DEAD)
        assert (operation.matched, operation.matched_is_capped) == (3, True)

    def test_nothing_is_a_preview_too(self) -> None:
        found = bulk.preview("retry", Filters())
        assert (found.count, found.oldest, found.newest, found.sample) == (0, None, None, [])
        assert found.in_words == "all dead letters"

    def test_what_takes_too_long_is_too_broad_and_may_be_started_all_the_same(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        make_job("dead", type="nobody")
        monkeypatch.setattr("jobs.bulk.previewing.SECONDS", 0.0)
        with pytest.raises(TooBroad):
            bulk.preview("retry", DEAD)
        operation = bulk.create("retry", DEAD)
        assert (operation.matched, operation.matched_is_capped) == (0, True)
        assert worked(operation).changed == 1


class TestTelling:
    @pytest.fixture
    def told(self) -> Iterator[list[events.Event]]:
        heard: list[events.Event] = []
        stop = events.on("bulk.updated", heard.append)
        yield heard
        stop()

    @pytest.mark.django_db(transaction=True)
    def test_each_change_of_status_is_an_event_and_progress_is_throttled(
        self,
        told: list[events.Event],
        small_batches: None,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(running, "TELL_SECONDS", 1_000.0)
        for _ in range(20):
            make_job("dead", type="nobody")
        worked(bulk.create("retry", DEAD, by="anna"))
        facts = [event.facts for event in told]
        assert [fact["status"] for fact in facts] == ["pending", "running", "running", "completed"]
        assert facts[-1]["changed"] == facts[-1]["matched"] == 20

    def test_the_audit_has_one_entry_whose_count_grew(self, small_batches: None) -> None:
        for _ in range(8):
            make_job("dead", queue="mail", type="nobody")
        operation = bulk.create("retry", Filters(queue="mail"), by="anna", reason="why")
        worked(operation)
        [entry] = AuditEntry.objects.all()
        assert (entry.action, entry.actor, entry.changed) == ("bulk.retry", "anna", 8)
        assert (entry.scope, entry.object_id) == ("queue mail", str(operation.id))
        assert (entry.reason, entry.data) == ("why", {"cap": None, "matched": 8})

    def test_pausing_resuming_and_aborting_are_audited_once_each(self) -> None:
        operation = bulk.create("retry", DEAD, by="anna")
        for act in (bulk.pause, bulk.pause, bulk.resume, bulk.resume, bulk.abort, bulk.abort):
            act(operation.id, by="bert")
        entries = AuditEntry.objects.filter(actor="bert").order_by("id")
        assert [e.action for e in entries] == ["bulk.pause", "bulk.resume", "bulk.abort"]
        assert {e.scope for e in entries} == {"bulk retry: status failed"}

    def test_it_says_all_as_json(self) -> None:
        for _ in range(2):
            make_job("dead", type="nobody")
        operation = worked(bulk.create("retry", DEAD, by="anna"))
        found = bulk.as_json(operation)
        assert found["filters"] == {"status": "failed"}
        assert (found["in_words"], found["status"]) == ("status failed", "completed")
        assert (found["changed"], found["matched"], found["seconds_left"]) == (2, 2, None)
        assert found["per_second"] > 0
        assert found["job_id"] == str(operation.job_id)

    def test_its_job_is_internal_and_urgent_and_every_worker_serves_its_queue(self) -> None:
        from worker.options import _queues

        job = jobs_of(bulk.create("retry", DEAD)).get()
        assert (job.metadata, job.priority, job.queue) == (INTERNAL, 1, "coppice")
        assert _queues("mail") == ("mail", "coppice")
