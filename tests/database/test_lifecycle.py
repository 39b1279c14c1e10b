"""What people may do to jobs, one at a time and many at once."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from jobs import events, lifecycle, queues, registry
from jobs.database import DjangoDatabase
from jobs.errors import Conflict, InvalidInput, NotFound
from jobs.lifecycle import CancelResult
from jobs.lifecycle.pausing import end_pauses
from jobs.models import Attempt, AuditEntry, Job, JobDependency, JobLog, Queue
from jobs.states import ALLOWED, ARROWS, Status
from tests.factories import ago, make_edge, make_history, make_job, make_queue

pytestmark = pytest.mark.django_db


@pytest.fixture
def told() -> Iterator[list[events.Event]]:
    """Every event that reaches listeners during the test."""
    heard: list[events.Event] = []
    stop = events.on("*", heard.append)
    yield heard
    stop()


def logs(job: Job) -> list[JobLog]:
    return list(JobLog.objects.filter(job=job).order_by("id"))


STATUSES = ["held", "scheduled", "retrying", "processing", "completed", "dead", "cancelled"]


class TestCancel:
    @pytest.mark.parametrize("trait", ["held", "scheduled", "retrying"])
    def test_a_pending_job_is_cancelled_at_once(self, trait: str) -> None:
        job = make_job(trait)
        assert lifecycle.cancel(job.id, by="anna", reason="not needed") is CancelResult.CANCELLED
        job.refresh_from_db()
        assert job.status == Status.CANCELLED
        assert job.cancelled_at is not None
        assert job.next_retry_at is None
        (line,) = logs(job)
        assert (line.event, line.from_status, line.to_status) == (
            "cancelled",
            "pending",
            "cancelled",
        )
        assert line.message == "by anna: not needed"
        assert line.data == {"by": "anna"}

    def test_a_running_job_is_asked_once_and_asking_again_does_no_harm(self) -> None:
        job = make_job("processing")
        assert lifecycle.cancel(str(job.id)) is CancelResult.REQUESTED
        job.refresh_from_db()
        first = job.cancel_requested_at
        assert job.status == Status.PROCESSING
        assert lifecycle.cancel(job.id) is CancelResult.REQUESTED
        job.refresh_from_db()
        assert job.cancel_requested_at == first
        assert [line.event for line in logs(job)] == ["cancel_requested"]

    @pytest.mark.parametrize("trait", ["completed", "dead", "cancelled"])
    def test_an_ended_job_cannot_be_cancelled(self, trait: str) -> None:
        job = make_job(trait)
        with pytest.raises(Conflict, match="only pending and processing"):
            lifecycle.cancel(job.id)
        assert logs(job) == []

    @pytest.mark.parametrize("bad", [uuid.uuid4(), "nonsense", "\x00", ""])
    def test_what_does_not_exist_is_not_found(self, bad: object) -> None:
        with pytest.raises(NotFound):
            lifecycle.cancel(bad)

    def test_the_jobs_it_made_are_cancelled_with_it_and_theirs(self) -> None:
        parent = make_job(unmet_dependencies=0)
        child = make_job(parent=parent, child_key="a")
        ended = make_job("completed", parent=parent, child_key="b")
        running = make_job("processing", parent=parent, child_key="c")
        grandchild = make_job(parent=ended, child_key="a")
        stranger = make_job()
        for made in (child, running):
            make_edge(parent, made, kind="ended")
        lifecycle.cancel(parent.id, by="anna")
        for each in (parent, child, ended, running, grandchild, stranger):
            each.refresh_from_db()
        assert parent.status == child.status == grandchild.status == Status.CANCELLED
        assert ended.status == Status.COMPLETED
        assert running.status == Status.PROCESSING
        assert running.cancel_requested_at is not None
        assert stranger.status == Status.PENDING
        assert logs(child)[0].message == "by anna: the job that made it was cancelled"

    def test_dependents_that_ask_for_it_are_cancelled_and_what_those_made(self) -> None:
        parent = make_job()
        cancelled = make_job(on_parent_failure="cancel")
        waiting = make_job(on_parent_failure="wait")
        runs = make_job(on_parent_failure="run")
        made = make_job(parent=cancelled, child_key="a")
        for child in (cancelled, waiting, runs):
            make_edge(child, parent)
        lifecycle.cancel(parent.id)
        for each in (cancelled, waiting, runs, made):
            each.refresh_from_db()
        assert cancelled.status == made.status == Status.CANCELLED
        assert (waiting.status, waiting.unmet_dependencies) == (Status.PENDING, 1)
        assert (runs.status, runs.unmet_dependencies) == (Status.PENDING, 0)

    def test_of_many_those_that_can_be_are_cancelled_and_the_others_named(self) -> None:
        pending, running, done = make_job(), make_job("processing"), make_job("completed")
        nobody = uuid.uuid4()
        changed = lifecycle.cancel_many([pending.id, running.id, done.id, nobody, "x", pending.id])
        assert changed.done == (str(pending.id), str(running.id))
        assert changed.requested == (str(running.id),)
        assert {(s.job_id, s.reason) for s in changed.skipped} == {
            (str(done.id), "already completed"),
            (str(nobody), "no such job"),
            ("x", "no such job"),
        }
        assert changed.sentence("cancelled") == (
            "2 cancelled (1 still running: asked to stop), "
            "3 skipped (already completed; no such job)"
        )


class TestRetry:
    def test_attempts_start_again_and_history_stays(self) -> None:
        job = make_job("dead", lost_count=2, lease_epoch=3)
        make_history(job, attempts=3, error="ValueError: bad")
        lifecycle.retry(job.id, by="anna")
        job.refresh_from_db()
        assert (job.status, job.attempt_count, job.lost_count) == (Status.PENDING, 0, 0)
        assert job.lease_epoch == 3
        assert (job.next_retry_at, job.failed_at) == (None, None)
        assert job.due_at is not None
        assert job.due_at <= timezone.now()
        assert Attempt.objects.filter(job=job).count() == 3
        assert logs(job)[-1].event == "retried"
        assert (logs(job)[-1].from_status, logs(job)[-1].to_status) == ("failed", "pending")

    @pytest.mark.parametrize("trait", [t for t in STATUSES if t != "dead"])
    def test_only_dead_letters_are_retried(self, trait: str) -> None:
        job = make_job(trait)
        with pytest.raises(Conflict, match="only dead letters can be retried"):
            lifecycle.retry(job.id)
        assert logs(job) == []

    def test_a_unique_key_in_use_is_a_conflict_and_changes_nothing(self) -> None:
        job = make_job("dead", unique_key="a")
        make_job(unique_key="a")
        with pytest.raises(Conflict, match="unique key 'a'"):
            lifecycle.retry(job.id)
        job.refresh_from_db()
        assert job.status == Status.FAILED
        assert logs(job) == []

    def test_one_conflict_never_stops_the_others(self) -> None:
        first, second = make_job("dead", unique_key="a"), make_job("dead", unique_key="a")
        taken, free = make_job("dead", unique_key="b"), make_job("dead")
        make_job("processing", unique_key="b")
        alive = make_job()
        changed = lifecycle.retry_many([first.id, second.id, taken.id, free.id, alive.id])
        assert changed.done == (str(first.id), str(free.id))
        assert {s.job_id for s in changed.skipped} == {
            str(second.id),
            str(taken.id),
            str(alive.id),
        }
        assert Job.objects.filter(id=second.id, status=Status.FAILED).exists()


class TestPurge:
    def test_the_job_goes_with_everything_of_it(self) -> None:
        job, other = make_job("dead"), make_job("dead")
        parent = make_job("completed")
        make_edge(job, parent, state="satisfied")
        make_history(job, attempts=2, error="x")
        make_history(other)
        lifecycle.purge(job.id, by="anna")
        assert not Job.objects.filter(id=job.id).exists()
        assert not Attempt.objects.filter(job_id=job.id).exists()
        assert not JobLog.objects.filter(job_id=job.id).exists()
        assert not JobDependency.objects.exists()
        assert Attempt.objects.filter(job_id=other.id).exists()

    @pytest.mark.parametrize("trait", [t for t in STATUSES if t != "dead"])
    def test_only_dead_letters_are_purged(self, trait: str) -> None:
        job = make_job(trait)
        with pytest.raises(Conflict, match="only dead letters can be purged"):
            lifecycle.purge(job.id)
        assert Job.objects.filter(id=job.id).exists()

    def test_those_that_wait_for_it_are_cancelled_with_a_reason(self) -> None:
        dead, child, grandchild = make_job("dead"), make_job(), make_job()
        made = make_job(parent=child, child_key="a")
        make_edge(child, dead)
        make_edge(grandchild, child)
        lifecycle.purge(dead.id)
        for each in (child, made, grandchild):
            each.refresh_from_db()
        assert child.status == made.status == Status.CANCELLED
        assert "was purged" in child.last_error
        assert grandchild.status == Status.PENDING

    def test_many(self) -> None:
        dead, alive = make_job("dead"), make_job()
        changed = lifecycle.purge_many([dead.id, alive.id])
        assert changed.done == (str(dead.id),)
        assert changed.sentence("purged") == "1 purged, 1 skipped (no longer dead: pending)"

    def test_emptying_takes_those_dead_before_the_call_in_batches(self, settings: Any) -> None:
        settings.COPPICE_RETENTION_BATCH = 2
        for _ in range(5):
            make_job("dead", failed_at=ago(hours=1))
        later = make_job("dead", failed_at=timezone.now() + timedelta(minutes=1))
        alive = make_job()
        assert lifecycle.empty_dead_letters() == 5
        assert set(Job.objects.values_list("id", flat=True)) == {later.id, alive.id}
        assert lifecycle.empty_dead_letters(before=ago(hours=2)) == 0


class TestRunNow:
    @pytest.mark.parametrize("trait", ["scheduled", "retrying", "held"])
    def test_a_waiting_job_is_due_at_once(self, trait: str) -> None:
        job = make_job(trait)
        attempts = job.attempt_count
        lifecycle.run_now(job.id, by="anna")
        job.refresh_from_db()
        assert Job.objects.ready().filter(id=job.id).exists()
        assert (job.attempt_count, job.next_retry_at, job.hold_reason) == (attempts, None, "")
        assert logs(job)[0].event == "run_now"

    def test_a_job_that_is_due_already_keeps_its_age(self) -> None:
        due = ago(hours=1)
        job = make_job(scheduled_at=due, due_at=due)
        lifecycle.run_now(job.id)
        job.refresh_from_db()
        assert job.due_at == due

    def test_a_blocked_job_says_what_it_waits_for(self) -> None:
        job = make_job()
        make_edge(job, make_job())
        with pytest.raises(Conflict, match="is blocked: it waits for another job"):
            lifecycle.run_now(job.id)

    @pytest.mark.parametrize("trait", ["processing", "completed", "dead", "cancelled"])
    def test_only_pending_jobs(self, trait: str) -> None:
        with pytest.raises(Conflict):
            lifecycle.run_now(make_job(trait).id)


class TestRelease:
    def test_a_held_job_becomes_due(self) -> None:
        job = make_job("held")
        lifecycle.release(job.id, by="anna")
        job.refresh_from_db()
        assert Job.objects.ready().filter(id=job.id).exists()
        assert job.hold_reason == ""
        assert logs(job)[0].event == "released"

    def test_a_held_job_keeps_a_time_that_is_still_to_come(self) -> None:
        later = timezone.now() + timedelta(hours=1)
        job = make_job("held", scheduled_at=later)
        lifecycle.release(job.id)
        job.refresh_from_db()
        assert job.due_at == later

    def test_what_is_not_held_is_refused(self) -> None:
        with pytest.raises(Conflict, match="only held jobs"):
            lifecycle.release(make_job().id)


class TestChange:
    def test_only_what_differs_is_changed_and_named(self) -> None:
        job = make_job("scheduled")
        later = timezone.now() + timedelta(days=1)
        assert lifecycle.change(job.id, priority=2, queue="mail", scheduled_at=later) == (
            "queue",
            "scheduled_at",
        )
        job.refresh_from_db()
        assert (job.priority, job.queue, job.scheduled_at, job.due_at) == (
            2,
            "mail",
            later,
            later,
        )
        assert lifecycle.change(job.id, queue="mail") == ()
        assert len(logs(job)) == 1

    def test_a_held_job_stays_held_and_a_retry_is_not_brought_forward(self) -> None:
        now = timezone.now()
        held, retrying = make_job("held"), make_job("retrying")
        lifecycle.change(held.id, scheduled_at=now)
        lifecycle.change(retrying.id, scheduled_at=now)
        for each in (held, retrying):
            each.refresh_from_db()
        assert held.due_at is None
        assert retrying.due_at == retrying.next_retry_at

    @pytest.mark.parametrize(
        ("field", "bad"),
        [
            ("priority", 0),
            ("priority", True),
            ("queue", ""),
            ("queue", "a\x00"),
            ("scheduled_at", timezone.now().replace(tzinfo=None)),
            ("scheduled_at", "tomorrow"),
        ],
    )
    def test_bad_values_are_refused_by_name(self, field: str, bad: Any) -> None:
        job = make_job()
        with pytest.raises(InvalidInput) as refused:
            lifecycle.change(job.id, **{field: bad})
        assert refused.value.field == field

    @pytest.mark.parametrize("trait", ["processing", "completed", "dead", "cancelled"])
    def test_only_pending_jobs(self, trait: str) -> None:
        with pytest.raises(Conflict, match="only pending"):
            lifecycle.change(make_job(trait).id, priority=1)


class TestEditPayload:
    def test_a_dead_letter_gets_another_payload(self) -> None:
        job = make_job("dead")
        lifecycle.edit_payload(job.id, {"n": 2}, by="anna")
        job.refresh_from_db()
        assert (job.payload, job.status) == ({"n": 2}, Status.FAILED)
        (line,) = logs(job)
        assert (line.event, line.message) == ("payload_edited", "by anna")

    def test_it_must_please_the_handlers_serializer(self) -> None:
        from rest_framework import serializers

        class Payload(serializers.Serializer[Any]):
            n = serializers.IntegerField()

        registry.handler("lifecycle.checked", payload=Payload)(lambda payload: None)
        job = make_job("dead", type="lifecycle.checked")
        try:
            with pytest.raises(InvalidInput) as refused:
                lifecycle.edit_payload(job.id, {"n": "many"})
        finally:
            registry.remove("lifecycle.checked")
        assert refused.value.field == "payload.n"

    @pytest.mark.parametrize("bad", [{"a": "\x00"}, {"a": float("nan")}, {"a": object()}])
    def test_what_cannot_be_stored_is_refused(self, bad: Any) -> None:
        with pytest.raises(InvalidInput):
            lifecycle.edit_payload(make_job("dead").id, bad)

    def test_only_dead_letters(self) -> None:
        with pytest.raises(Conflict, match="dead letter"):
            lifecycle.edit_payload(make_job().id, {})


class TestAddDependency:
    def test_a_pending_job_waits_for_more(self) -> None:
        job, parent = make_job(), make_job()
        assert lifecycle.add_dependency(job.id, [parent.id], by="anna") == 1
        job.refresh_from_db()
        assert job.unmet_dependencies == 1
        assert logs(job)[0].event == "dependency_added"

    def test_circles_and_strangers_are_refused(self) -> None:
        job, parent = make_job(), make_job()
        lifecycle.add_dependency(job.id, parent.id)
        refused: list[object] = [job.id, uuid.uuid4(), "x", []]
        for bad in refused:
            with pytest.raises(InvalidInput):
                lifecycle.add_dependency(parent.id, bad)

    def test_a_running_job_cannot_be_made_to_wait(self) -> None:
        with pytest.raises(Conflict):
            lifecycle.add_dependency(make_job("processing").id, [make_job().id])


class TestQueues:
    def test_pausing_and_resuming_say_whether_they_changed_anything(self) -> None:
        assert lifecycle.pause_queue("mail", reason="provider down", by="anna") is True
        assert lifecycle.pause_queue("mail", reason="again", by="bob") is False
        queue = Queue.objects.get(name="mail")
        assert (queue.paused, queue.reason, queue.changed_by) == (True, "provider down", "anna")
        assert lifecycle.resume_queue("mail", by="bob") is True
        assert lifecycle.resume_queue("mail") is False
        assert lifecycle.resume_queue("never-seen") is False
        queue.refresh_from_db()
        assert (queue.paused, queue.reason, queue.changed_by) == (False, "", "bob")

    def test_a_bad_name_is_refused(self) -> None:
        with pytest.raises(InvalidInput):
            lifecycle.pause_queue("a b")

    def test_a_pause_with_an_end_is_over_without_anybody_writing_it(self) -> None:
        assert lifecycle.pause_queue("mail", until=ago(hours=-1), reason="x", by="anna")
        assert not lifecycle.pause_queue("mail", reason="again", by="bob")
        assert not lifecycle.pause_queue("mail", until=Queue.objects.get().paused_until)
        later = ago(hours=-2)
        assert lifecycle.pause_queue("mail", until=later, reason="again", by="bob")
        queue = Queue.objects.get()
        assert (queue.paused_until, queue.reason, queue.changed_by) == (later, "x", "anna")
        Queue.objects.update(paused_until=ago(seconds=1))
        [facts] = queues.facts(DjangoDatabase(), ["mail"])
        assert (facts.paused, facts.paused_until, facts.reason) == (False, None, "")
        assert not lifecycle.resume_queue("mail", by="bob")
        assert lifecycle.pause_queue("mail", reason="once more", by="bob")
        queue.refresh_from_db()
        assert (queue.paused_until, queue.reason, queue.changed_by) == (None, "once more", "bob")
        assert [entry.data for entry in AuditEntry.objects.order_by("-id")[:2]] == [
            {}, {"until": later.isoformat()}
        ]  # fmt: skip

    def test_the_end_of_a_pause_is_written_down_and_told_once(
        self, told: list[events.Event]
    ) -> None:
        end = ago(seconds=5)
        make_queue(name="over", paused=True, paused_until=end, reason="x", changed_by="anna")
        make_queue(name="to come", paused=True, paused_until=ago(hours=-1))
        make_queue(name="for ever", paused=True)
        assert end_pauses(DjangoDatabase()) == ["over"]
        assert end_pauses(DjangoDatabase()) == []
        queue = Queue.objects.get(name="over")
        assert (queue.paused, queue.paused_until, queue.reason) == (False, None, "")
        assert queue.changed_at == end
        [event] = told
        assert (event.name, event.queue) == ("queue.resumed", "over")
        assert Queue.objects.filter(paused=True).count() == 2

    @pytest.mark.parametrize("until", [0, "noon", True, "2020-01-01T00:00:00Z"])
    def test_an_end_that_is_none_or_has_passed_is_refused(self, until: Any) -> None:
        with pytest.raises(InvalidInput) as caught:
            lifecycle.pause_queue("mail", until=until)
        assert caught.value.field == "until"
        assert not Queue.objects.exists()


class TestTelling:
    def test_events_come_after_the_commit_and_not_after_a_rollback(
        self, told: list[events.Event], django_capture_on_commit_callbacks: Any
    ) -> None:
        job, dead = make_job(), make_job("dead")
        with django_capture_on_commit_callbacks(execute=True):
            lifecycle.cancel(job.id, by="anna")
            lifecycle.retry(dead.id, by="anna")
            lifecycle.pause_queue("mail", reason="x", by="anna")
            assert told == []
        assert [(e.name, e.job_id) for e in told] == [
            ("job.cancelled", str(job.id)),
            ("job.retried", str(dead.id)),
            ("queue.paused", None),
        ]
        assert told[0].facts["by"] == "anna"

    def test_each_change_of_status_follows_an_arrow_of_the_table(self) -> None:
        job, dead = make_job(), make_job("dead")
        lifecycle.cancel(job.id)
        lifecycle.retry(dead.id)
        known = {arrow.event for arrow in ARROWS}
        for line in JobLog.objects.exclude(from_status="").filter(event__in=known):
            assert (line.from_status, line.to_status) in ALLOWED
