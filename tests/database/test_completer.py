"""How many outcomes a worker writes at once."""

from __future__ import annotations

import pytest

from jobs.claimed import Claimed
from jobs.database import DirectDatabase, Params, Row, direct_conninfo
from jobs.endings import Success
from jobs.ids import new_id
from jobs.models import Job
from jobs.states import Status
from tests.factories import make_job
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


def claimed(job: Job) -> Claimed:
    return Claimed(str(job.id), job.type, job.queue, "{}", 2, 0.0, 1, 3, 1, 0, 0, 0.0)


def test_large_results_go_to_the_database_a_few_at_a_time() -> None:
    jobs = [make_job("processing", worker_id=WORKER) for _ in range(20)]
    places = Places.create(100)
    database = Counting(direct_conninfo())
    completer = Completer(
        worker_id=WORKER,
        database=database,
        places=places,
        outages=Outages(),
        journal=Journal("test"),
        on_room=lambda: None,
    )
    for job in jobs:
        completer.put(Success(claimed(job), 0.0, 0.1, LARGE))
    completer.start()

    assert completer.stop(90)
    assert Job.objects.filter(status=Status.COMPLETED).count() == 20
    assert database.given == 20 * len(LARGE)
    assert database.most <= BATCH_BYTES + len(LARGE)
    places.close()
