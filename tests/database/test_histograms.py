"""Counts by bucket: written with the completion, added up when minutes are folded."""

from __future__ import annotations

from datetime import timedelta

import pytest

from jobs import rollups
from jobs.complete import complete
from jobs.database import DjangoDatabase
from jobs.endings import Ending, Success
from jobs.histograms import BOUNDS, BUCKETS, add, cumulative
from jobs.models import Job, Rollup, Total
from jobs.states import Outcome, Status
from tests.database.test_complete import WORKER, take
from tests.factories import ago, make_job

pytestmark = pytest.mark.django_db


def due(seconds: float) -> Job:
    """A job that has waited so long when it is claimed."""
    return make_job(due_at=ago(seconds=seconds))


def bucket(seconds: float) -> int:
    return sum(bound <= seconds for bound in BOUNDS)


def filled(counts: list[int] | None) -> dict[int, int]:
    assert counts is not None
    assert len(counts) == BUCKETS
    return {place: count for place, count in enumerate(counts) if count}


def test_a_batch_is_counted_by_how_long_each_waited_and_ran() -> None:
    claimed = [take(due(seconds)) for seconds in (0, 40, 40, 4_000)]
    runs = (0.0003, 0.02, 0.02, 10_000.0)
    successes = [Success(job, 0.0, run) for job, run in zip(claimed, runs, strict=True)]

    complete(DjangoDatabase(), worker_id=WORKER, successes=successes)

    [row] = Rollup.objects.all()
    assert row.jobs == 4
    assert filled(row.run_counts) == {0: 1, bucket(0.02): 2, BUCKETS - 1: 1}
    waited = filled(row.wait_counts)
    assert waited[bucket(40)] == 2
    assert waited[bucket(4_000)] == 1
    assert sum(waited.values()) == 4
    assert row.run_seconds == pytest.approx(10_000.0403)
    assert row.wait_seconds == pytest.approx(4_080, abs=30)


def test_a_failed_attempt_is_counted_by_how_long_it_waited_although_it_is_due_again_later() -> None:
    job = take(due(100))
    ending = Ending(
        job=job, status=Status.PENDING, outcome=Outcome.FAILED, event="retry_scheduled",
        delay=3_600.0, run=0.3, error="ValueError: bad",
    )  # fmt: skip

    complete(DjangoDatabase(), worker_id=WORKER, endings=[ending])

    [row] = Rollup.objects.all()
    assert (row.outcome, row.jobs) == ("failed", 1)
    assert filled(row.wait_counts) == {bucket(100): 1}
    assert filled(row.run_counts) == {bucket(0.3): 1}
    assert row.wait_seconds == pytest.approx(100, abs=30)


def test_folding_adds_the_counts_up_also_with_rows_that_have_none() -> None:
    minute = ago(minutes=5).replace(second=0, microsecond=0)
    counts = [*range(BUCKETS)]

    def delta(back: int, counts: list[int] | None) -> None:
        Rollup.objects.create(
            minute=minute - timedelta(minutes=back), queue="default", type="test",
            outcome="succeeded", jobs=1, wait_seconds=1, run_seconds=1,
            wait_counts=counts, run_counts=counts,
        )  # fmt: skip

    for back, given in ((0, counts), (0, counts), (0, None), (1, counts)):
        delta(back, given)
    Total.objects.create(
        queue="default", type="test", outcome="succeeded", jobs=7, wait_seconds=0, run_seconds=0
    )
    rollups.fold(DjangoDatabase())
    total = Total.objects.get()
    assert total.wait_counts == total.run_counts == [3 * n for n in counts]
    [earlier, later] = Rollup.objects.order_by("minute")
    assert (earlier.wait_counts, later.run_counts) == (counts, [2 * n for n in counts])

    delta(0, counts)
    rollups.fold(DjangoDatabase())
    total.refresh_from_db()
    assert total.jobs == 7 + 5
    assert total.wait_counts == total.run_counts == [4 * n for n in counts]


def test_cumulative_counts_end_with_all_of_them() -> None:
    counts = add([[1] * BUCKETS, [2] * BUCKETS])
    found = cumulative(counts)
    assert found[0] == ("0.001", 3)
    assert found[-1] == ("+Inf", 3 * BUCKETS)
    assert [bound for bound, _ in found[:-1]] == [f"{bound:g}" for bound in BOUNDS]
