"""A running job that does not come to an end is marked lost: by whom, when, and what then counts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from jobs import events, lifecycle
from jobs.claimed import Claimed
from jobs.complete import complete
from jobs.database import DjangoDatabase
from jobs.endings import Success
from jobs.errors import Conflict, NotFound
from jobs.events import Event
from jobs.models import Attempt, AuditEntry, Job, JobLog
from tests.factories import ago, make_edge, make_job, make_worker

pytestmark = pytest.mark.django_db


@pytest.fixture
def told() -> Iterator[list[Event]]:
    heard: list[Event] = []
    stop = events.on("*", heard.append)
    yield heard
    stop()


def cancelling(seconds: float = 60, **columns: Any) -> Job:
    """A job that a live worker runs, and that was asked to stop so long ago."""
    worker = make_worker(name="web-1:7/1")
    return make_job(
        "processing", worker_id=worker.id, cancel_requested_at=ago(seconds=seconds), **columns
    )


def claimed(job: Job) -> Claimed:
    return Claimed(
        str(job.id), job.type, job.queue, "", job.priority, 0.0, job.attempt_count,
        job.max_attempts, job.lease_epoch, 0, 0, 0.0,
    )  # fmt: skip


def test_one_that_ignores_its_cancel_ends_cancelled_with_the_attempt_lost() -> None:
    job = cancelling()
    assert lifecycle.mark_lost(job, by="anna", reason="it hangs") == "cancelled"
    job.refresh_from_db()
    assert (job.status, job.worker_id) == ("cancelled", None)
    attempt = Attempt.objects.get(job=job)
    assert (attempt.outcome, attempt.number) == ("lost", 1)
    assert attempt.error == "marked lost by anna while worker web-1:7/1 had it"
    assert JobLog.objects.get(job=job).event == "cancelled"
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.actor, entry.reason) == ("job.mark_lost", "anna", "it hangs")
    assert entry.data == {"worker": "web-1:7/1", "status": "cancelled"}


def test_what_its_late_attempt_writes_changes_nothing() -> None:
    job = cancelling()
    worker_id = str(job.worker_id)
    lifecycle.mark_lost(job, by="anna")
    late = Success(claimed(job), 0.0, 1.0, '"done"')
    written = complete(DjangoDatabase(), worker_id=worker_id, successes=[late])
    assert [stale.id for stale in written.stale] == [str(job.id)]
    job.refresh_from_db()
    assert (job.status, job.result) == ("cancelled", None)
    assert Attempt.objects.get(job=job).outcome == "lost"


def test_within_the_grace_time_it_is_left_to_its_handler(settings: Any) -> None:
    settings.COPPICE_GRACE_SECONDS = 30
    job = cancelling(seconds=5)
    with pytest.raises(Conflict, match="its handler has 30 s"):
        lifecycle.mark_lost(job, by="anna")
    job.refresh_from_db()
    assert job.status == "processing"
    assert not AuditEntry.objects.exists()


def test_one_that_nobody_asked_to_stop_is_not_taken_from_a_worker_that_lives() -> None:
    job = make_job("processing", worker_id=make_worker().id)
    with pytest.raises(Conflict, match="cancel it first"):
        lifecycle.mark_lost(job)


@pytest.mark.parametrize("worker", [{"beat_at": ago(hours=1)}, {"state": "dead"}, None])
@pytest.mark.parametrize(("attempts", "status"), [(1, "pending"), (3, "failed")])
def test_one_whose_worker_is_gone_is_as_after_a_rescue(
    worker: dict[str, Any] | None, attempts: int, status: str
) -> None:
    owner = {} if worker is None else {"worker_id": make_worker(**worker).id}
    job = make_job("processing", attempt_count=attempts, max_attempts=3, **owner)
    assert lifecycle.mark_lost(job, by="anna") == status
    job.refresh_from_db()
    assert (job.status, job.attempt_count, job.lost_count) == (status, attempts, 1)


@pytest.mark.parametrize("trait", [None, "completed", "dead", "cancelled", "scheduled"])
def test_only_a_running_job(trait: str | None) -> None:
    job = make_job(*([trait] if trait else []))
    with pytest.raises(Conflict, match="only a running job"):
        lifecycle.mark_lost(job)


def test_what_is_not_there_is_not_found() -> None:
    with pytest.raises(NotFound):
        lifecycle.mark_lost("nonsense")


def test_those_that_wait_for_it_are_told_of_its_end(
    django_capture_on_commit_callbacks: Any, told: list[Event]
) -> None:
    job = cancelling(type="parent")
    after = make_job(type="after")
    make_edge(after, job, kind="ended")
    with django_capture_on_commit_callbacks(execute=True):
        lifecycle.mark_lost(job, by="anna")
    after.refresh_from_db()
    assert after.unmet_dependencies == 0
    names = [event.name for event in told]
    assert "job.cancelled" in names
    assert "job.released" in names
