"""A bulk operation and others at the same moment: people, workers, and the operation's own rival."""

from __future__ import annotations

import threading
from typing import Any

import psycopg
import pytest

from jobs import bulk, lifecycle
from jobs.bulk import choosing
from jobs.database import direct_conninfo
from jobs.models import JobLog
from tests.database.bulk.operations import DEAD, Attempt, statuses
from tests.factories import make_job
from tests.rivals import Rival, wait_until_blocked

pytestmark = pytest.mark.django_db(transaction=True)


class Gate:
    """Stops a walk inside its second batch, which then holds the operation's row."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached, self.go = threading.Event(), threading.Event()
        looks: list[int] = []
        still = choosing.Walk.still

        def stop(walk: Any, ids: Any) -> list[str]:
            found = still(walk, ids)
            looks.append(len(found))
            if len(looks) == 2:
                self.reached.set()
                assert self.go.wait(90)
            return found

        monkeypatch.setattr(choosing.Walk, "still", stop)


@pytest.mark.parametrize(("act", "status"), [(bulk.pause, "paused"), (bulk.abort, "aborted")])
def test_once_a_pause_has_returned_no_job_is_changed(
    act: Any, status: str, small_batches: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(12):
        make_job("dead", type="nobody")
    operation = bulk.create("retry", DEAD)
    attempt, gate = Attempt(operation), Gate(monkeypatch)
    worker = Rival(lambda _: attempt.work(operation))
    assert gate.reached.wait(90)
    person = Rival(lambda _: act(operation.id, by="anna"))
    wait_until_blocked()
    gate.go.set()
    held = person.result()
    # The walk may have begun another batch before the waiting pause had its turn.
    assert held.status == status
    assert held.changed in (6, 9)
    assert worker.result() is None
    assert bulk.get(operation.id).changed == held.changed
    assert JobLog.objects.filter(event="retried").count() == held.changed


def test_a_worker_that_was_declared_dead_and_its_heir_change_each_job_once(
    small_batches: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(12):
        make_job("dead", type="nobody")
    operation = bulk.create("retry", DEAD)
    stale, gate = Attempt(operation), Gate(monkeypatch)
    dead = Rival(lambda _: stale.work(operation))
    assert gate.reached.wait(90)
    heir = Attempt(operation)
    living = Rival(lambda _: heir.work(operation))
    wait_until_blocked()
    gate.go.set()
    assert (dead.result(), living.result()) == (None, None)
    operation = bulk.get(operation.id)
    assert (operation.status, operation.changed, operation.skipped) == ("completed", 12, 0)
    assert JobLog.objects.filter(event="retried").count() == 12


def test_a_job_that_somebody_has_in_hand_is_waited_for_and_looked_at_again() -> None:
    jobs = [make_job("dead", type="nobody") for _ in range(3)]
    operation = bulk.create("retry", DEAD)
    attempt = Attempt(operation)
    with psycopg.connect(direct_conninfo()) as other:
        other.execute("UPDATE jobs_job SET status = 'pending' WHERE id = %s", [jobs[1].id])
        worker = Rival(lambda _: attempt.work(operation))
        wait_until_blocked()
        other.commit()
    worker.result()
    operation = bulk.get(operation.id)
    assert (operation.changed, operation.skipped_reasons) == (2, {"no longer matches": 1})
    assert statuses(*jobs) == ["pending"] * 3


def test_a_person_who_retries_meanwhile_and_the_operation_retry_once(
    small_batches: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [make_job("dead", type="nobody") for _ in range(6)]
    operation = bulk.create("retry", DEAD)
    attempt, gate = Attempt(operation), Gate(monkeypatch)
    worker = Rival(lambda _: attempt.work(operation))
    assert gate.reached.wait(90)
    person = Rival(lambda _: lifecycle.retry_many([job.id for job in jobs], by="anna"))
    wait_until_blocked()
    gate.go.set()
    worker.result()
    changed = person.result()
    assert bulk.get(operation.id).changed + len(changed.done) == 6
    assert JobLog.objects.filter(event="retried").count() == 6
