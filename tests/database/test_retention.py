"""What retention deletes, what it must leave, and how much work it makes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.db import connection, transaction
from django.utils import timezone

from jobs import (
    JobSpec,
    conf,
    enqueue,
    enqueue_jobs,
    enqueue_many,
    lifecycle,
    registry,
    retention,
    rollups,
)
from jobs.conf import Settings
from jobs.database import DirectDatabase, DjangoDatabase, direct_conninfo
from jobs.models import Attempt, Job, JobDependency, JobLog, Rollup, Total, Worker
from jobs.retention import Place
from jobs.states import Status
from tests.factories import ago, make_edge, make_history, make_job, make_worker
from tests.plans import explain, rows_read
from tests.rivals import Rival

pytestmark = pytest.mark.django_db

OLD = {"created_at": ago(days=9), "completed_at": ago(days=8)}


WAYS: dict[str, Callable[[Job], object]] = {
    "one": lambda parent: enqueue("test", {}, depends_on=parent),
    "many": lambda parent: enqueue_many("test", [{}], depends_on=parent),
    "different": lambda parent: enqueue_jobs([JobSpec(type="test", depends_on=[parent])]),
    "with keys": lambda parent: enqueue_many("test", [{}], depends_on=parent, unique_keys=["a"]),
    "added later": lambda parent: lifecycle.add_dependency(make_job(), [parent]),
}


def run(**options: Any) -> int:
    return retention.run_batch(DjangoDatabase(), Settings(**options), Place())


def left() -> set[Any]:
    return set(Job.objects.values_list("id", flat=True))


def test_old_completed_and_cancelled_jobs_go_with_all_that_is_theirs() -> None:
    done = make_job("completed", **OLD)
    cancelled = make_job("cancelled", created_at=ago(days=9), cancelled_at=ago(days=8))
    make_history(done, attempts=2)
    make_edge(done, cancelled, state="satisfied")
    young = make_job("completed")
    make_history(young)
    assert run() == 2
    assert left() == {young.id}
    assert set(Attempt.objects.values_list("job_id", flat=True)) == {young.id}
    assert set(JobLog.objects.values_list("job_id", flat=True)) == {young.id}
    assert not JobDependency.objects.exists()


def test_dead_letters_and_live_jobs_stay_however_old() -> None:
    ancient = {"created_at": ago(days=900)}
    kept = {
        make_job("dead", failed_at=ago(days=800), **ancient).id,
        make_job("processing", **ancient).id,
        make_job("held", **ancient).id,
    }
    assert run() == 0
    assert left() == kept


def test_what_ended_lately_stays_however_long_ago_it_was_created() -> None:
    job = make_job("completed", created_at=ago(days=900))
    assert run() == 0
    assert left() == {job.id}


def test_jobs_that_somebody_still_needs_stay() -> None:
    cancelled_parent = make_job("cancelled", created_at=ago(days=9), cancelled_at=ago(days=8))
    waiting = make_job()
    make_edge(waiting, cancelled_parent)
    maker = make_job("completed", **OLD)
    make_job(parent=maker, child_key="a")
    live, dead, gone = make_job(), make_job("dead"), make_job("completed", **OLD)
    of_live = make_job("completed", parent=live, child_key="a", **OLD)
    of_dead = make_job("completed", parent=dead, child_key="a", **OLD)
    of_gone = make_job("completed", parent=gone, child_key="a", **OLD)
    assert run() == 2
    assert {cancelled_parent.id, maker.id, of_live.id, of_dead.id} <= left()
    assert not {gone.id, of_gone.id} & left()


def test_nothing_is_deleted_when_jobs_are_kept_for_ever() -> None:
    make_job("completed", **OLD)
    assert run(retention_days=0) == 0


def test_each_call_is_bounded_and_a_pass_ends() -> None:
    for _ in range(7):
        make_job("completed", **OLD)
    place = Place()
    counts: list[int] = []
    settings = Settings(retention_batch=2)
    while not counts or counts[-1]:
        counts.append(retention.run_batch(DjangoDatabase(), settings, place))
    assert sum(counts) == 7
    assert max(counts) <= 3
    assert left() == set()


def test_rows_that_must_stay_are_walked_past_once_in_a_pass() -> None:
    """Old rows that are needed lie in front; the deletable one behind them is still found."""
    live = make_job()
    for n in range(50):
        make_job("completed", parent=live, child_key=str(n), **OLD)
    behind = make_job("completed", **OLD)
    place, settings = Place(), Settings(retention_batch=1)
    calls = 0
    while behind.id in left():
        retention.run_batch(DjangoDatabase(), settings, place)
        calls += 1
        assert calls < 10
    assert calls == 50 // retention.STEPS + 1


@pytest.mark.django_db(transaction=True)
def test_a_locked_job_is_left_and_nobody_waits_for_it() -> None:
    locked, free = make_job("completed", **OLD), make_job("completed", **OLD)
    with psycopg.connect(direct_conninfo()) as other:
        other.execute("SELECT FROM jobs_job WHERE id = %s FOR UPDATE", [locked.id])
        assert run() == 1
    assert left() == {locked.id}
    assert free.id not in left()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("way", sorted(WAYS))
def test_a_completed_job_stays_for_whoever_is_about_to_depend_on_it(way: str) -> None:
    """Or it would be gone before its dependent is seen, which would be cancelled for that."""
    parent, other = make_job("completed", **OLD), make_job("completed", **OLD)
    registry.handler("test")(lambda: None)
    try:
        with transaction.atomic():
            WAYS[way](parent)
            deleted = Rival(lambda database: retention.run_batch(database, Settings(), Place()))
            assert deleted.result() == 1
    finally:
        registry.remove("test")

    assert parent.id in left()
    assert other.id not in left()
    child = Job.objects.get(status=Status.PENDING)
    assert (child.unmet_dependencies, child.due_at is not None) == (0, True)


def test_the_walk_reads_no_more_than_its_stretch() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO jobs_job (id, type, payload, status, created_at, completed_at) "
            "SELECT gen_random_uuid(), 'test', '{}', 'completed', now(), now() "
            "FROM generate_series(1, 20000)"
        )
        cursor.execute("ANALYZE jobs_job")
    plan = explain(
        retention.WALK[Status.COMPLETED], {"place": retention.BEGINNING, "days": 7, "limit": 100}
    )
    assert rows_read(plan) <= 200


def test_old_worker_rows_go_unless_they_hold_a_job_or_live() -> None:
    gone = make_worker(state="stopped", stopped_at=ago(days=8))
    dead = make_worker(state="dead", beat_at=ago(days=8))
    holding = make_worker(state="dead", beat_at=ago(days=8))
    make_job("processing", worker_id=holding.id)
    running = make_worker(state="running", beat_at=ago(days=8))
    lately = make_worker(state="stopped", stopped_at=ago(days=1))
    assert retention.prune_workers(DjangoDatabase(), conf.get()) == 2
    kept = set(Worker.objects.values_list("id", flat=True))
    assert kept == {holding.id, running.id, lately.id}
    assert not {gone.id, dead.id} & kept


class TestRollups:
    def delta(self, minutes: int, **columns: Any) -> Rollup:
        minute = timezone.now().replace(second=0, microsecond=0) - timedelta(minutes=minutes)
        values = {
            "queue": "default",
            "type": "test",
            "outcome": "succeeded",
            "jobs": 2,
            "wait_seconds": 0.5,
            "run_seconds": 1.0,
        }
        return Rollup.objects.create(minute=minute, **{**values, **columns})

    def test_past_minutes_become_one_row_each_and_grow_the_totals(self) -> None:
        for _ in range(3):
            self.delta(5)
        self.delta(5, outcome="failed")
        self.delta(6)
        fresh = self.delta(0)
        assert rollups.fold(DjangoDatabase()) == 5
        assert rollups.fold(DjangoDatabase()) == 0
        folded = Rollup.objects.filter(folded=True).order_by("minute", "outcome")
        assert [(r.outcome, r.jobs) for r in folded] == [
            ("succeeded", 2),
            ("failed", 2),
            ("succeeded", 6),
        ]
        assert Rollup.objects.filter(id=fresh.id, folded=False).exists()
        total = Total.objects.get(queue="default", type="test", outcome="succeeded")
        assert (total.jobs, total.wait_seconds, total.run_seconds) == (8, 2.0, 4.0)

    def test_a_late_delta_is_added_to_the_total_once(self) -> None:
        self.delta(5)
        rollups.fold(DjangoDatabase())
        self.delta(5)
        rollups.fold(DjangoDatabase())
        assert sum(r.jobs for r in Rollup.objects.all()) == 4
        assert Total.objects.get().jobs == 4

    @pytest.mark.django_db(transaction=True)
    def test_two_leaders_count_each_delta_once(self) -> None:
        for _ in range(100):
            self.delta(5)
        together = threading.Barrier(2)
        counts: list[int] = []

        def lead() -> None:
            database = DirectDatabase(direct_conninfo())
            together.wait()
            while count := rollups.fold(database, limit=7):
                counts.append(count)
            database.close()

        leaders = [threading.Thread(target=lead) for _ in range(2)]
        for leader in leaders:
            leader.start()
        for leader in leaders:
            leader.join(90)
        rollups.fold(DjangoDatabase())
        assert Total.objects.get().jobs == 200
        assert sum(row.jobs for row in Rollup.objects.all()) == 200
        assert not Rollup.objects.filter(folded=False).exists()

    def test_it_is_bounded(self) -> None:
        for _ in range(5):
            self.delta(5)
        assert rollups.fold(DjangoDatabase(), limit=3) == 3
        assert rollups.fold(DjangoDatabase(), limit=3) == 2

    def test_old_folded_minutes_go_and_unfolded_ones_never(self) -> None:
        old = self.delta(60 * 24 * 9, folded=True)
        unfolded = self.delta(60 * 24 * 9)
        young = self.delta(10, folded=True)
        assert retention.prune_rollups(DjangoDatabase(), conf.get()) == 1
        assert set(Rollup.objects.values_list("id", flat=True)) == {unfolded.id, young.id}
        assert not Rollup.objects.filter(id=old.id).exists()
