"""Actions of people that meet a worker, or each other, on the same row.

Another session holds the row; the action is seen to wait for it; the session commits; and the
action must then decide on what it finds, not on what it saw before.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from django.db import connection, connections

from jobs import lifecycle
from jobs.database import direct_conninfo
from jobs.errors import Conflict
from jobs.ids import new_id
from jobs.lifecycle import CancelResult
from jobs.models import Job
from jobs.states import Status
from tests.factories import make_job

pytestmark = pytest.mark.django_db(transaction=True)

WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted AND pid <> pg_backend_pid()"
COMPLETED = (
    "UPDATE jobs_job SET status = 'completed', completed_at = now(), worker_id = NULL WHERE id = %s"
)
HANDED_BACK = "UPDATE jobs_job SET status = 'pending', worker_id = NULL WHERE id = %s"


class Action:
    """A call in a thread of its own, with its answer or its error."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self.call = call
        self.answer: Any = None
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.answer = self.call()
        except BaseException as error:  # noqa: BLE001 - handed to the test
            self.error = error
        finally:
            connections.close_all()

    def result(self) -> Any:
        self.thread.join(90)
        assert not self.thread.is_alive()
        if self.error is not None:
            raise self.error
        return self.answer


@pytest.fixture
def other() -> Iterator[psycopg.Connection[Any]]:
    """Another session with an open transaction."""
    with psycopg.connect(direct_conninfo()) as session:
        yield session


def wait_until_blocked(count: int = 1) -> None:
    """Until that many sessions wait for a lock; the database says so."""
    limit = time.monotonic() + 20
    with connection.cursor() as cursor:
        while time.monotonic() < limit:
            cursor.execute(WAITING)
            if cursor.fetchone()[0] >= count:
                return
            time.sleep(0.01)
    pytest.fail("nobody waits for the lock")


def test_a_cancel_that_meets_a_completion_changes_nothing(
    other: psycopg.Connection[Any],
) -> None:
    job = make_job("processing")
    other.execute(COMPLETED, [job.id])
    action = Action(lambda: lifecycle.cancel(job.id))
    wait_until_blocked()
    other.commit()
    with pytest.raises(Conflict, match="is completed"):
        action.result()
    job.refresh_from_db()
    assert (job.status, job.cancel_requested_at) == (Status.COMPLETED, None)


def test_a_cancel_that_meets_a_hand_back_cancels_at_once(other: psycopg.Connection[Any]) -> None:
    job = make_job("processing")
    other.execute(HANDED_BACK, [job.id])
    action = Action(lambda: lifecycle.cancel(job.id))
    wait_until_blocked()
    other.commit()
    assert action.result() is CancelResult.CANCELLED
    job.refresh_from_db()
    assert job.status == Status.CANCELLED


def test_children_made_while_their_parent_is_cancelled_are_cancelled_too(
    other: psycopg.Connection[Any],
) -> None:
    parent, child = make_job("processing"), new_id()
    other.execute(HANDED_BACK, [parent.id])
    other.execute(
        "INSERT INTO jobs_job (id, type, payload, parent_id, child_key) "
        "VALUES (%s, 'test', '{}', %s, 'a')",
        [child, parent.id],
    )
    action = Action(lambda: lifecycle.cancel(parent.id))
    wait_until_blocked()
    other.commit()
    assert action.result() is CancelResult.CANCELLED
    assert Job.objects.get(id=child).status == Status.CANCELLED


def test_of_two_retries_of_one_dead_letter_one_wins(other: psycopg.Connection[Any]) -> None:
    job = make_job("dead")
    other.execute("SELECT FROM jobs_job WHERE id = %s FOR UPDATE", [job.id])
    actions = [Action(lambda: lifecycle.retry(job.id)) for _ in range(2)]
    wait_until_blocked(2)
    other.rollback()
    outcomes = []
    for action in actions:
        try:
            outcomes.append(action.result())
        except Conflict:
            outcomes.append("conflict")
    assert sorted(outcomes, key=str) == [None, "conflict"]


def test_a_purge_that_meets_a_retry_deletes_nothing(other: psycopg.Connection[Any]) -> None:
    job = make_job("dead")
    other.execute("UPDATE jobs_job SET status = 'pending' WHERE id = %s", [job.id])
    action = Action(lambda: lifecycle.purge_many([job.id]))
    wait_until_blocked()
    other.commit()
    assert action.result().done == ()
    assert Job.objects.filter(id=job.id, status=Status.PENDING).exists()


def test_a_unique_key_taken_at_the_same_moment_skips_only_its_job(
    other: psycopg.Connection[Any],
) -> None:
    keyed, plain = make_job("dead", unique_key="a"), make_job("dead")
    other.execute(
        "INSERT INTO jobs_job (id, type, payload, unique_key) VALUES (%s, 'test', '{}', 'a')",
        [new_id()],
    )
    action = Action(lambda: lifecycle.retry_many([keyed.id, plain.id]))
    wait_until_blocked()
    other.commit()
    changed = action.result()
    assert changed.done == (str(plain.id),)
    assert [skip.job_id for skip in changed.skipped] == [str(keyed.id)]


def test_a_deadlock_is_tried_again_and_does_not_reach_the_caller(
    other: psycopg.Connection[Any],
) -> None:
    first, second = make_job(), make_job()
    other.execute("SET deadlock_timeout = '60s'")  # the other side is chosen as the victim
    other.execute("SELECT FROM jobs_job WHERE id = %s FOR UPDATE", [second.id])
    action = Action(lambda: lifecycle.cancel_many([first.id, second.id]))
    wait_until_blocked()
    other.execute("SELECT FROM jobs_job WHERE id = %s FOR UPDATE", [first.id])
    other.rollback()
    assert len(action.result().done) == 2
