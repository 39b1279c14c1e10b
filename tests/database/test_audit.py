"""Every action of a person leaves one entry in the audit, in the action's own transaction."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from jobs import audit, lifecycle, schedules
from jobs.errors import Conflict
from jobs.handlers import send_email  # noqa: F401  the type is registered
from jobs.lifecycle.rows import CHUNK
from jobs.listing import INTERNAL
from jobs.models import AuditEntry, Job
from jobs.testing import run_due_jobs
from ranges.axes import IntRange
from ranges.declaring import RangeJob
from ranges.leaf_range import LeafRange
from ranges.models import RangeFailure
from ranges.retrying import RetryPolicy
from ranges.sizing import Leaf
from tests.factories import ago, make_job

pytestmark = pytest.mark.django_db

MAIL = {"to": ["someone@example.org"], "subject": "s", "text": "hidden words"}


def only() -> AuditEntry:
    entry = AuditEntry.objects.get()
    assert entry.actor == "anna"
    return entry


ON_ONE: dict[str, tuple[str, Callable[[Job], object]]] = {
    "job.cancel": ("scheduled", lambda job: lifecycle.cancel(job.id, by="anna", reason="so")),
    "job.retry": ("dead", lambda job: lifecycle.retry(job.id, by="anna", reason="so")),
    "job.purge": ("dead", lambda job: lifecycle.purge(job.id, by="anna", reason="so")),
    "job.run_now": ("held", lambda job: lifecycle.run_now(job.id, by="anna", reason="so")),
    "job.release": ("held", lambda job: lifecycle.release(job.id, by="anna", reason="so")),
    "job.change": (
        "scheduled",
        lambda job: lifecycle.change(job.id, priority=1, by="anna", reason="so"),
    ),
    "job.edit_payload": (
        "dead",
        lambda job: lifecycle.edit_payload(job.id, {"n": 2}, by="anna", reason="so"),
    ),
}


class TestJobs:
    @pytest.mark.parametrize("action", ON_ONE)
    def test_an_action_on_one_job_names_the_job(self, action: str) -> None:
        trait, act = ON_ONE[action]
        job = make_job(trait)
        act(job)
        entry = only()
        assert (entry.action, entry.object_id, entry.changed) == (action, str(job.id), 1)
        assert (entry.scope, entry.reason) == (f"job {job.id} (test)", "so")
        assert timezone.now() - entry.at < timedelta(minutes=1)

    @pytest.mark.parametrize("action", ON_ONE)
    def test_what_is_refused_leaves_nothing(self, action: str) -> None:
        job = make_job("completed")
        with pytest.raises(Conflict):
            ON_ONE[action][1](job)
        assert not AuditEntry.objects.exists()

    @pytest.mark.parametrize("action", ON_ONE)
    def test_what_the_program_does_leaves_nothing(
        self, action: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        record, known = audit.record, []

        def unnamed(*given: Any, **facts: Any) -> object:
            known.append(facts)
            return record(*given, **{**facts, "actor": ""})

        monkeypatch.setattr(audit, "record", unnamed)
        trait, act = ON_ONE[action]
        act(make_job(trait))
        assert len(known) == 1
        assert not AuditEntry.objects.exists()

    def test_an_entry_goes_with_its_action_when_that_is_rolled_back(self) -> None:
        job = make_job("dead")
        with transaction.atomic():
            lifecycle.retry(job.id, by="anna")
            assert AuditEntry.objects.count() == 1
            transaction.set_rollback(True)
        assert not AuditEntry.objects.exists()

    def test_a_change_tells_before_and_after(self) -> None:
        job = make_job("scheduled", priority=3, queue="a")
        lifecycle.change(job.id, priority=1, queue="a", by="anna")
        assert only().data == {"before": {"priority": 3}, "after": {"priority": 1}}

    def test_a_new_payload_is_told_by_the_names_of_its_fields_alone(self) -> None:
        job = make_job("dead", payload={"same": 1, "secret": "old word", "gone": 1})
        new = {"same": 1, "secret": "new word", "more": 1}
        lifecycle.edit_payload(job.id, new, by="anna")
        entry = only()
        assert entry.data == {"fields": ["gone", "more", "secret"]}
        assert "word" not in str(entry.data)

    def test_what_changed_nothing_leaves_nothing(self) -> None:
        due, running = make_job(), make_job("processing", cancel_requested_at=ago(minutes=1))
        lifecycle.run_now(due.id, by="anna")
        lifecycle.cancel(running.id, by="anna")
        lifecycle.change(due.id, priority=due.priority, by="anna")
        lifecycle.retry_many([due.id], by="anna")
        lifecycle.pause_queue("mail", by="anna")
        lifecycle.pause_queue("mail", by="anna")
        assert only().action == "queue.pause"

    def test_a_new_dependency_names_the_jobs(self) -> None:
        job, parent = make_job("scheduled"), make_job("scheduled")
        lifecycle.add_dependency(job.id, [parent.id], by="anna")
        assert only().data == {"ids": [str(parent.id)]}


class TestMany:
    @pytest.mark.parametrize(
        ("action", "trait", "act"),
        [
            ("job.cancel", "scheduled", lifecycle.cancel_many),
            ("job.retry", "dead", lifecycle.retry_many),
            ("job.purge", "dead", lifecycle.purge_many),
            ("job.run_now", "scheduled", lifecycle.run_now_many),
            (
                "job.change",
                "scheduled",
                lambda ids, **known: lifecycle.change_many(ids, queue="b", **known),
            ),
        ],
    )
    def test_an_action_on_many_is_one_entry_with_what_really_changed(
        self, action: str, trait: str, act: Callable[..., Any]
    ) -> None:
        jobs = [make_job(trait), make_job("completed"), make_job(trait)]
        changed = act([job.id for job in jobs], by="anna", reason="so")
        entry = only()
        assert (entry.action, entry.changed, entry.object_id) == (action, 2, "")
        assert (entry.scope, entry.reason) == ("chosen jobs", "so")
        assert entry.data["ids"] == list(changed.done)
        assert sorted(changed.done) == sorted([str(jobs[0].id), str(jobs[2].id)])

    def test_several_transactions_are_one_entry(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("jobs.lifecycle.rows.CHUNK", 3)
        jobs = [make_job("dead") for _ in range(8)]
        lifecycle.retry_many([job.id for job in jobs], by="anna")
        entry = only()
        assert (entry.changed, len(entry.data["ids"])) == (8, 3)
        assert CHUNK > 8  # so that there were several only because of the patch

    def test_one_that_breaks_off_has_counted_what_was_done(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("jobs.lifecycle.rows.CHUNK", 3)
        jobs = [make_job("dead") for _ in range(8)]
        chunk, calls = lifecycle.retrying._retry_chunk, []

        def break_off(act: Any, ids: Any) -> Any:
            answer = chunk(act, ids)
            calls.append(ids)
            if len(calls) == 3:
                raise RuntimeError
            return answer

        monkeypatch.setattr("jobs.lifecycle.retrying._retry_chunk", break_off)
        with pytest.raises(RuntimeError):
            lifecycle.retry_many([job.id for job in jobs], by="anna")
        assert only().changed == 6
        assert Job.objects.filter(status="pending").count() == 6

    def test_emptying_the_dead_letters_is_one_entry(self, settings: Any) -> None:
        settings.COPPICE_RETENTION_BATCH = 2
        for _ in range(5):
            make_job("dead")
        kept = make_job("dead", metadata=INTERNAL)
        assert lifecycle.empty_dead_letters(by="anna", reason="so") == 5
        entry = only()
        assert (entry.action, entry.changed) == ("job.purge_all", 5)
        assert entry.scope.startswith("dead letters of before 20")
        assert Job.objects.get().id == kept.id

    def test_of_many_ids_the_first_are_listed(self) -> None:
        ids = [str(n) for n in range(60)]
        assert audit.listed(ids) == {"ids": ids[:50], "ids_left_out": 10}


class TestQueuesAndSchedules:
    def test_a_queue_is_paused_and_resumed(self) -> None:
        lifecycle.pause_queue("mail", reason="down", by="anna")
        entry = only()
        assert (entry.action, entry.scope, entry.object_id) == ("queue.pause", "queue mail", "mail")
        assert entry.reason == "down"
        lifecycle.resume_queue("mail", by="anna")
        assert AuditEntry.objects.latest("id").action == "queue.resume"

    def test_a_schedule_from_its_making_to_its_end(self) -> None:
        made = schedules.create(
            "nightly", "send_email", MAIL, recur_interval="every_1_hour", by="anna"
        )
        schedules.change("nightly", priority=1, payload={**MAIL, "subject": "t"}, by="anna")
        schedules.disable("nightly", by="anna")
        schedules.disable("nightly", by="anna")
        schedules.enable("nightly", by="anna")
        job = schedules.run_now("nightly", by="anna")
        schedules.delete("nightly", by="anna")
        entries = list(AuditEntry.objects.order_by("id"))
        assert [entry.action for entry in entries] == [
            "schedule.create",
            "schedule.change",
            "schedule.disable",
            "schedule.enable",
            "schedule.run_now",
            "schedule.delete",
        ]
        assert {(e.object_id, e.scope, e.changed) for e in entries} == {
            (str(made.id), "schedule nightly", 1)
        }
        assert entries[1].data == {
            "fields": ["payload", "priority"],
            "before": {"priority": 2},
            "after": {"priority": 1},
        }
        assert entries[4].data == {"job_id": str(job.id)}
        assert not [entry for entry in entries if "hidden words" in str(entry.data)]

    def test_a_schedule_made_by_the_program_leaves_nothing(self) -> None:
        schedules.create("nightly", "send_email", MAIL, recur_interval="every_1_hour")
        schedules.delete("nightly")
        assert not AuditEntry.objects.exists()


class Broken(RangeJob):
    """Fails at one leaf."""

    over = IntRange(0, 100)
    leaf = Leaf(max_size=10)
    retry = RetryPolicy(max_attempts=1)

    def process(self, leaf: LeafRange, context: Any) -> None:
        if leaf.lo == 50:
            raise ValueError("bad")


class TestRanges:
    def test_a_run_from_its_making_to_its_end(self) -> None:
        run = Broken.start(by="anna")
        run.pause(reason="so", by="anna")
        run.pause(reason="again", by="anna")
        run.resume(by="anna")
        run.retune(concurrency=3, by="anna")
        run_due_jobs(retries=True)
        run.refresh_from_db()
        run.retry_failed(by="anna")
        run_due_jobs(retries=True)
        run.refresh_from_db()
        run.waive(RangeFailure.objects.get(state="open"), "known", by="anna")
        entries = list(AuditEntry.objects.order_by("id"))
        assert [(entry.action, entry.changed, entry.reason) for entry in entries] == [
            ("range.create", 1, ""),
            ("range.start", 1, ""),
            ("range.pause", 1, "so"),
            ("range.resume", 1, ""),
            ("range.retune", 1, ""),
            ("range.retry_failed", 1, ""),
            ("range.waive", 1, "known"),
        ]
        assert {entry.object_id for entry in entries} == {str(run.id)}

    def test_a_cancelled_run_is_one_entry_though_its_job_is_cancelled_too(self) -> None:
        run = Broken.start()
        run.cancel(reason="so", by="anna")
        assert (only().action, only().reason) == ("range.cancel", "so")
        assert [job.status for job in Job.objects.all()] == ["cancelled"]


class TestRecord:
    def test_the_address_of_the_request_is_kept(self) -> None:
        token = audit.client_address.set("203.0.113.7")
        try:
            lifecycle.pause_queue("mail", by="anna")
        finally:
            audit.client_address.reset(token)
        lifecycle.resume_queue("mail", by="anna")
        addresses = AuditEntry.objects.order_by("id").values_list("address", flat=True)
        assert list(addresses) == ["203.0.113.7", ""]

    def test_what_cannot_be_stored_is_cleaned_and_cut(self) -> None:
        audit.record("x", actor="a\x00" * 200, scope="s\ud800" * 600, reason="r" * 2_000)
        entry = AuditEntry.objects.get()
        assert (len(entry.actor), len(entry.scope), len(entry.reason)) == (150, 500, 1_000)

    def test_inside_a_whole_the_parts_are_one_and_a_silent_one_has_none(self) -> None:
        with audit.as_one("job.whole", scope="all"):
            audit.record("job.part", actor="anna", scope="a", changed=2)
            with audit.as_one("job.other"):
                audit.record("job.part", actor="anna", scope="b", changed=3)
            with audit.left_out():
                audit.record("job.part", actor="anna", changed=100)
        entry = only()
        assert (entry.action, entry.scope, entry.changed) == ("job.whole", "all", 5)
        audit.record("job.alone", actor="anna")
        assert AuditEntry.objects.count() == 2
