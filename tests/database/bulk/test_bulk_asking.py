"""What may be asked of bulk operations, and what they tell."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from jobs import bulk, events
from jobs.bulk import running
from jobs.context import Context
from jobs.errors import InvalidInput, TooBroad
from jobs.filtering import Filters
from jobs.listing import INTERNAL
from jobs.models import AuditEntry, BulkOperation, Job
from jobs.states import State, Status
from tests.database.bulk.operations import DEAD, jobs_of, worked
from tests.factories import ago, make_job

pytestmark = pytest.mark.django_db


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


class TestPage:
    PAGE = Path(__file__).resolve().parents[3] / "docs" / "bulk.md"

    def rows(self, title: str) -> dict[str, str]:
        section = self.PAGE.read_text(encoding="utf-8").partition(f"\n## {title}\n")[2]
        table = re.findall(
            r"^\| `([a-z_]+)` \|(.*)\|$", section.partition("\n## ")[0], re.MULTILINE
        )
        return dict(table)

    def test_the_page_has_every_action_with_its_argument_and_permission(self) -> None:
        rows = self.rows("Actions")
        assert list(rows) == list(bulk.ACTIONS)
        for name, action in bulk.ACTIONS.items():
            assert action.permission.removeprefix("jobs.") in rows[name]
            assert f"`{action.argument}`" in rows[name] or not action.argument

    def test_the_page_has_every_status(self) -> None:
        field = BulkOperation._meta.get_field("status")
        assert list(self.rows("Statuses")) == [value for value, _ in field.choices or ()]


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

    @pytest.mark.django_db(transaction=True)
    def test_of_a_least_number_neither_events_nor_its_job_claim_a_share(
        self, told: list[events.Event], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("jobs.bulk.previewing.CAP", 3)
        shown: list[tuple[int, int | None]] = []
        monkeypatch.setattr(Context, "progress", lambda _, *values: shown.append(values))
        monkeypatch.setattr(running, "BATCH", 4)
        for _ in range(5):
            make_job("dead", type="nobody")
        worked(bulk.create("retry", DEAD, by="anna"))
        assert {fact.facts["matched_is_capped"] for fact in told} == {True}
        assert shown == [(4, None), (5, 5)]

    def test_the_audit_has_one_entry_whose_count_grew(self, small_batches: None) -> None:
        for _ in range(8):
            make_job("dead", queue="mail", type="nobody")
        operation = bulk.create("retry", Filters(queue="mail"), by="anna", reason="why")
        worked(operation)
        [entry] = AuditEntry.objects.all()
        assert (entry.action, entry.actor, entry.changed) == ("bulk.retry", "anna", 8)
        assert (entry.scope, entry.object_id) == ("queue mail", str(operation.id))
        assert (entry.reason, entry.data) == ("why", {"cap": None, "matched": 8})

    def test_the_audit_does_not_quote_what_is_looked_for(self) -> None:
        filters = Filters(queue="mail", payload={"user": "someone"}, error="someone")
        bulk.create("retry", filters, by="anna")
        entry = AuditEntry.objects.get()
        assert entry.scope == "queue mail, payload searched by user, error text searched"
        assert "someone" not in str(entry.data)

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
        assert found["share"] == 1.0
        assert found["per_second"] > 0
        assert found["job_id"] == str(operation.job_id)

    def test_its_job_is_internal_and_urgent_and_every_worker_serves_its_queue(self) -> None:
        from worker.options import _queues

        job = jobs_of(bulk.create("retry", DEAD)).get()
        assert (job.metadata, job.priority, job.queue) == (INTERNAL, 1, "coppice")
        assert _queues("mail") == ("mail", "coppice")
