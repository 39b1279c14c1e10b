"""The numbers of jobs by status, state and queue."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from jobs import stats
from jobs.database import DirectDatabase, DjangoDatabase, direct_conninfo
from tests.factories import ago, make_edge, make_job, make_queue

pytestmark = pytest.mark.django_db


def test_small_numbers_are_exact() -> None:
    for trait in ("processing", "completed", "completed", "dead", "cancelled"):
        make_job(trait)
    for trait in ("scheduled", "retrying", "held"):
        make_job(trait)
    blocked = make_job()
    make_edge(blocked, make_job())
    make_job(next_retry_at=ago(minutes=1), attempt_count=1, due_at=ago(minutes=1))
    found = stats.stats(DjangoDatabase())
    assert (found.pending, found.processing, found.completed) == (6, 1, 2)
    assert (found.failed, found.dlq, found.cancelled, found.total) == (1, 1, 1, 11)
    assert found.estimated == found.at_least == []
    assert found.states == {"ready": 2, "scheduled": 1, "retrying": 1, "blocked": 1, "held": 1}


def test_an_empty_table_has_numbers_too() -> None:
    found = stats.stats(DjangoDatabase())
    assert (found.total, found.queues) == (0, [])


def test_each_queue_tells_its_depth_and_its_oldest_wait() -> None:
    make_job(due_at=ago(minutes=5))
    make_job(due_at=ago(minutes=1), type="other", priority=1)
    make_job("scheduled")
    make_job("scheduled", queue="later")
    make_job(queue="mail")
    make_queue(name="mail", paused=True)
    make_queue(name="empty", paused=True)
    make_queue(name="resumed")
    found = {queue.name: queue for queue in stats.stats(DjangoDatabase()).queues}
    assert {name: queue.depth for name, queue in found.items()} == {
        "default": 2,
        "empty": 0,
        "later": 0,
        "mail": 1,
    }
    assert found["default"].oldest_wait_seconds == pytest.approx(300, abs=60)
    assert found["later"].oldest_wait_seconds is None
    assert [name for name, queue in found.items() if queue.paused] == ["empty", "mail"]


def test_depth_beyond_the_cap_is_said_to_be_at_least_that() -> None:
    for _ in range(4):
        make_job()
    for _ in range(3):
        make_job("scheduled", scheduled_at=timezone.now() + timedelta(days=1))
    found = stats.stats(DjangoDatabase(), cap=2)
    assert (found.queues[0].depth, found.queues[0].is_capped) == (2, True)
    assert found.at_least == ["ready", "scheduled"]
    assert "pending" in found.estimated
    assert found.pending >= 3


@pytest.mark.django_db(transaction=True)
def test_a_connection_of_ones_own_will_do() -> None:
    make_job()
    database = DirectDatabase(direct_conninfo())
    try:
        assert stats.stats(database).pending == 1
    finally:
        database.close()
