"""Workers that people tell to be quiet, to go on, to be recovered and to be forgotten."""

from __future__ import annotations

from typing import Any

import pytest

from jobs import lifecycle
from jobs.database import DjangoDatabase
from jobs.errors import Conflict, NotFound
from jobs.models import AuditEntry, Worker
from jobs.reasons import why_not_running
from tests.factories import ago, make_job, make_worker

pytestmark = pytest.mark.django_db


def now() -> float:
    return float(
        DjangoDatabase().rows("SELECT extract(epoch FROM statement_timestamp())::float8", {})[0][0]
    )


def actions() -> list[tuple[str, str]]:
    return list(AuditEntry.objects.order_by("id").values_list("action", "reason"))


def test_being_quiet_is_asked_for_once_and_taken_back_once() -> None:
    worker = make_worker()
    assert lifecycle.quiet_worker(worker.id, reason="a look", by="anna")
    worker.refresh_from_db()
    first = worker.quiet_requested_at
    assert not lifecycle.quiet_worker(worker.id, by="bo")
    worker.refresh_from_db()
    assert worker.quiet_requested_at == first is not None
    assert lifecycle.resume_worker(worker.id, by="anna")
    assert not lifecycle.resume_worker(worker.id, by="anna")
    assert actions() == [("worker.quiet", "a look"), ("worker.resume", "")]


@pytest.mark.parametrize(
    "columns",
    [{"state": "draining"}, {"state": "stopped"}, {"state": "dead"}, {"stop_requested_at": ago()}],
)
def test_one_that_ends_or_has_ended_claims_nothing_as_it_is(columns: dict[str, Any]) -> None:
    with pytest.raises(Conflict, match="claims nothing as it is"):
        lifecycle.quiet_worker(make_worker(**columns).id)


def test_what_is_no_worker_is_not_found() -> None:
    for call in (
        lifecycle.quiet_worker, lifecycle.resume_worker, lifecycle.forget_worker,
        lifecycle.recover_worker,
    ):  # fmt: skip
        for id in ("x", make_job().id):
            with pytest.raises(NotFound):
                call(id)


def test_a_job_says_that_those_who_could_run_it_are_quiet_or_busy() -> None:
    worker, job = make_worker(concurrency=1), make_job()

    def why() -> list[str]:
        return why_not_running(DjangoDatabase(), job, now())

    assert why() == ["waits for a free slot"]
    make_job("processing", worker_id=worker.id)
    assert why() == ["waits for a free slot: all 1 are busy"]
    Worker.objects.update(quiet_requested_at=ago(seconds=3))
    assert why() == ["the worker that serves it was told to be quiet"]
    make_worker(concurrency=3)
    assert why() == ["waits for a free slot"]


class TestRecovering:
    def test_its_jobs_are_due_again_and_cancelled_ones_stay_so(self) -> None:
        worker = make_worker(beat_at=ago(minutes=3), beats=7)
        one = make_job("processing", worker_id=worker.id)
        other = make_job("processing", worker_id=worker.id, cancel_requested_at=ago(seconds=9))
        assert lifecycle.recover_worker(worker.id, reason="no host", by="anna") == 2
        one.refresh_from_db()
        other.refresh_from_db()
        worker.refresh_from_db()
        assert (one.status, other.status, worker.state) == ("pending", "cancelled", "dead")
        assert actions() == [("worker.recover", "no host")]

    @pytest.mark.parametrize("columns", [{}, {"state": "dead"}, {"state": "stopped"}])
    def test_one_that_beats_or_is_over_is_left_alone(self, columns: dict[str, Any]) -> None:
        worker = make_worker(**columns)
        job = make_job("processing", worker_id=worker.id)
        with pytest.raises(Conflict, match="nothing to be recovered"):
            lifecycle.recover_worker(worker.id)
        job.refresh_from_db()
        assert job.status == "processing"


class TestForgetting:
    def test_one_that_was_lost_is_gone(self) -> None:
        worker = make_worker(state="dead", stopped_at=ago(minutes=1))
        lifecycle.forget_worker(worker.id, by="anna")
        assert not Worker.objects.exists()
        assert actions() == [("worker.forget", "")]

    @pytest.mark.parametrize("state", ["running", "draining", "stopped"])
    def test_no_other(self, state: str) -> None:
        with pytest.raises(Conflict, match="only one that is lost"):
            lifecycle.forget_worker(make_worker(state=state).id)

    def test_not_while_it_owns_jobs(self) -> None:
        worker = make_worker(state="dead")
        make_job("processing", worker_id=worker.id)
        with pytest.raises(Conflict, match="still owns jobs"):
            lifecycle.forget_worker(worker.id)
        assert Worker.objects.exists()
