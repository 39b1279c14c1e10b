"""Events and Django's transactions."""

from typing import Any

import pytest
from django.db import transaction

from jobs import events
from jobs.events import Event, emit_jobs_on_commit, emit_on_commit, on
from jobs.models import Job

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def heard() -> Any:
    found: list[Event] = []
    stop = on("job.*", found.append)
    yield found
    stop()


def test_an_event_is_told_when_the_transaction_commits_and_not_before(heard: list[Event]) -> None:
    with transaction.atomic():
        emit_on_commit("job.created", job_id="1", type="resize")
        assert heard == []
    assert heard == [Event("job.created", "1", "resize", "", {})]


def test_an_event_of_a_rolled_back_transaction_is_never_told(heard: list[Event]) -> None:
    with transaction.atomic():
        emit_on_commit("job.created", job_id="1")
        transaction.set_rollback(True)
    assert heard == []


def test_an_event_outside_a_transaction_is_told_at_once(heard: list[Event]) -> None:
    emit_on_commit("job.created", job_id="1")
    assert len(heard) == 1


def test_a_listener_that_fails_after_the_commit_does_not_reach_the_caller() -> None:
    def fail(event: Event) -> None:
        raise LookupError

    stop = on("job.created", fail)
    try:
        with transaction.atomic():
            emit_on_commit("job.created", job_id="1")
            Job.objects.create(type="resize")
    finally:
        stop()
    assert Job.objects.count() == 1


def test_a_batch_is_told_when_the_transaction_commits(heard: list[Event]) -> None:
    jobs = [Job(type="resize", queue="images"), Job(type="resize", queue="images")]
    with transaction.atomic():
        emit_jobs_on_commit("job.released", jobs, by="a test")
        assert heard == []
    assert [event.job_id for event in heard] == [str(job.id) for job in jobs]
    assert heard[0].facts == {"by": "a test"}
    assert events.active()
