"""A run from its creation to its end, driven in this process without a worker."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from psycopg.errors import DeadlockDetected

from jobs.models import Job
from jobs.testing import run_due_jobs
from ranges.axes import IntRange
from ranges.declaring import RangeJob
from ranges.leaf_range import LeafRange
from ranges.models import RangeFailure, RangeNode, RangeRun
from ranges.proof import verify
from ranges.retrying import RetryPolicy, fixed
from ranges.sizing import Leaf
from ranges.states import RunStatus

pytestmark = pytest.mark.django_db


class Counting(RangeJob):
    """Counts in a table how often each key was done; `bad` keys fail."""

    over = IntRange(0, 1_000)
    leaf = Leaf(max_size=100)
    concurrency = 2
    retry = RetryPolicy(max_attempts=2, backoff=fixed(0))
    failure_threshold = None

    def process(self, leaf: LeafRange, context: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO hits SELECT k FROM generate_series(%s, %s) k",
                [leaf.lo, leaf.hi - 1],
            )
        bad = [key for key in leaf if key in context.params.get("bad", ())]
        if bad:
            raise ValueError(f"bad key {bad[0]}")
        if context.params.get("stuck") in leaf:
            raise DeadlockDetected("again and again")


@pytest.fixture(autouse=True)
def hits(db: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TEMPORARY TABLE hits (k bigint) ON COMMIT DROP")


def counted() -> list[tuple[int, int]]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT k, count(*) FROM hits GROUP BY k ORDER BY k")
        return list(cursor.fetchall())


def job_of(run: RangeRun) -> Job:
    assert run.job_id is not None
    return Job.objects.get(id=run.job_id)


def drive(run: RangeRun) -> RangeRun:
    run_due_jobs(retries=True)
    run.refresh_from_db()
    return run


def test_each_key_of_a_run_is_done_once_and_the_run_completes() -> None:
    run = drive(Counting.start())

    assert run.status == RunStatus.COMPLETED
    assert run.started_at is not None
    assert run.finished_at is not None
    assert run.started_at <= run.finished_at
    assert counted() == [(k, 1) for k in range(1_000)]
    assert verify(run).is_complete
    assert job_of(run).status == "completed"


def test_bad_keys_are_found_by_halving_and_all_others_are_done_once() -> None:
    run = drive(Counting.start(params={"bad": [7, 350, 351, 999]}))

    assert run.status == RunStatus.PARTIALLY_FAILED
    keys = [int(k) for k in RangeFailure.objects.values_list("key", flat=True)]
    assert sorted(keys) == [7, 350, 351, 999]
    assert counted() == [(k, 1) for k in range(1_000) if k not in (7, 350, 351, 999)]
    assert verify(run).ok
    assert job_of(run).status == "failed"
    assert RangeNode.objects.filter(run=run, state="error").count() == 4


@pytest.mark.parametrize("atomic", [True, False])
def test_an_error_that_never_passes_is_in_the_end_that_of_its_key(
    atomic: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ranges.mending.transient_seconds", lambda tries, random: 0.0)
    run = Counting.start(params={"bad": [320], "stuck": 321}, atomic=atomic)
    drive(run)

    assert run.status == RunStatus.PARTIALLY_FAILED
    assert {(failure.key, failure.error) for failure in RangeFailure.objects.all()} == {
        ("320", "ValueError: bad key 320"),
        ("321", "DeadlockDetected: again and again"),
    }
    assert {key for key, _ in counted()} >= set(range(1_000)) - {320, 321}
    assert verify(run).ok
