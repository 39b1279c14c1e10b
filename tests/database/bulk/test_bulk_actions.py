"""What bulk operations change, and what they leave alone."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from jobs import bulk, lifecycle
from jobs.bulk import choosing, running
from jobs.errors import TooBroad
from jobs.filtering import Filters
from jobs.listing import INTERNAL
from jobs.models import Job, JobLog
from jobs.states import Status
from tests.database.bulk.operations import DEAD, jobs_of, statuses, worked
from tests.factories import ago, make_edge, make_job

pytestmark = pytest.mark.django_db


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

    def test_what_is_skipped_is_passed_and_counted_once(self, small_batches: None) -> None:
        for n in range(10):
            make_job(priority=1 if n % 4 else 2, type="nobody")
        operation = worked(bulk.create("change_priority", Filters(), arguments={"priority": 1}))
        assert (operation.status, operation.changed, operation.skipped) == ("completed", 3, 7)

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
