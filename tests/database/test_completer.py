"""How the outcomes of a worker get into the database."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection
from rest_framework import serializers

from jobs import WaitFor, child, registry
from jobs.claimed import Claimed
from jobs.database import DirectDatabase, Params, Row, direct_conninfo
from jobs.endings import Ending, Success
from jobs.ids import new_id
from jobs.models import Job, Queue
from jobs.states import Outcome, Status
from tests.factories import make_job, make_queue
from tests.rivals import other_session, wait_until_blocked
from worker.completer import BATCH_BYTES, Completer
from worker.journal import Journal
from worker.outage import Outages
from worker.places import Places

pytestmark = pytest.mark.django_db(transaction=True)

LARGE = '"' + "x" * 1_000_000 + '"'
WORKER = new_id()


class Counting(DirectDatabase):
    """Notes how much of results it is given with each statement."""

    given = 0
    most = 0

    def rows(self, sql: str, params: Params) -> list[Row]:
        given = sum(len(text) for text in params.get("results", ()) if text is not None)
        self.given, self.most = self.given + given, max(self.most, given)
        return super().rows(sql, params)


def eventually(fact: Callable[[], bool]) -> None:
    give_up_at = time.monotonic() + 90
    while not fact():
        assert time.monotonic() < give_up_at, "it did not happen in time"
        time.sleep(0.02)


def running() -> Claimed:
    job = make_job("processing", worker_id=WORKER)
    return Claimed(str(job.id), job.type, job.queue, "{}", 2, 0.0, 1, 3, 1, 0, 0, 0.0)


@pytest.fixture
def database() -> Counting:
    return Counting(direct_conninfo())


@pytest.fixture
def completer(database: Counting) -> Iterator[Completer]:
    places = Places.create(100)
    completer = Completer(
        worker_id=WORKER,
        database=database,
        places=places,
        outages=Outages(),
        journal=Journal("test"),
        on_room=lambda: None,
    )
    yield completer
    completer.stop(90)
    places.close()


def test_large_results_go_to_the_database_a_few_at_a_time(
    completer: Completer, database: Counting
) -> None:
    for _ in range(20):
        completer.put(Success(running(), 0.0, 0.1, LARGE))
    completer.start()

    assert completer.stop(90)
    assert Job.objects.filter(status=Status.COMPLETED).count() == 20
    assert database.given == 20 * len(LARGE)
    assert database.most <= BATCH_BYTES + len(LARGE)


def test_a_job_counts_as_started_until_its_outcome_is_written(completer: Completer) -> None:
    """Or one that ends its process right then would be handed back unspent, again and again."""
    places = completer._places
    job = running()
    job.place = places.take(job.id, job.lease_epoch)
    places.start(job.place)

    with other_session() as holder, holder.transaction():
        holder.rows("SELECT FROM jobs_job WHERE id = %(id)s FOR UPDATE", {"id": job.id})
        completer.put(Success(job, 0.0, 0.1))
        completer.start()
        wait_until_blocked()
        assert [(held.job_id, held.started) for held in places.held()] == [(job.id, True)]

    assert completer.stop(90)
    assert Job.objects.get(id=job.id).status == Status.COMPLETED
    assert list(places.held()) == []


class Queued(serializers.Serializer[Any]):
    queue = serializers.PrimaryKeyRelatedField(queryset=Queue.objects.all())


def test_a_session_that_a_childs_serializer_had_here_and_that_was_ended_fails_no_job(
    completer: Completer,
) -> None:
    """It asks through Django, in the thread that writes the outcomes."""
    payload = {"queue": make_queue().pk}
    registry.handler("queued", payload=Queued)(lambda payload: None)
    completer.start()
    try:
        for _ in range(3):
            job = running()
            completer.put(
                Ending(
                    job=job,
                    status=Status.PENDING,
                    outcome=Outcome.WAITED,
                    event="waiting",
                    wait_for=WaitFor([child("queued", payload, key="a")]),
                )
            )
            eventually(lambda job=job: Job.objects.get(id=job.id).status != Status.PROCESSING)  # type: ignore[misc]
            assert Job.objects.get(id=job.id).last_error == ""
            with connection.cursor() as cursor:
                cursor.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                    " AND application_name = ''"
                )
    finally:
        registry.remove("queued")

    assert Job.objects.filter(unmet_dependencies=1).count() == 3
