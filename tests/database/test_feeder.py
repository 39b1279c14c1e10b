"""What a worker that waits for work hears."""

from __future__ import annotations

import pytest

from jobs.database import DirectDatabase, direct_conninfo
from jobs.ids import new_id
from worker.feeder import Feeder
from worker.journal import Journal
from worker.lanes import LaneBook
from worker.outage import Outages
from worker.places import Places

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_wake_up_that_comes_with_the_answer_to_a_question_is_heard() -> None:
    """It is read with that answer, and nothing is left on the wire to wake anybody."""
    worker_id, places = new_id(), Places.create(10)
    database = DirectDatabase(direct_conninfo())
    feeder = Feeder(
        worker_id=worker_id,
        database=database,
        lanes=LaneBook([]),
        places=places,
        outages=Outages(),
        journal=Journal("test"),
        backlog=lambda: 0,
        on_cancel=lambda _leases: None,
        give_back=lambda _jobs, _reason: None,
        on_idle=lambda _is_idle: None,
    )
    feeder._connect()
    feeder._looked_at = 1.0

    database.rows("SELECT pg_notify(%(to)s, '')", {"to": f"coppice_{worker_id.replace('-', '')}"})
    feeder._wait(0.0)

    assert feeder._looked_at == 0.0  # all lanes are looked into
    database.close()
    places.close()
