"""Counts by bucket: written with the completion, added up when minutes are folded."""

from __future__ import annotations

from datetime import timedelta

import pytest

from jobs import rollups
from jobs.complete import complete
from jobs.database import DjangoDatabase
from jobs.endings import Ending, Success
from jobs.histograms import BOUNDS, BUCKETS, counts, cumulative, pack
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


def filled(rollup: Rollup | Total) -> tuple[dict[int, int], dict[int, int]]:
    """The buckets of waits, and those of runs, that count something."""
    waits, runs = counts([rollup.timings])
    return (
        {place: count for place, count in enumerate(waits) if count},
        {place: count for place, count in enumerate(runs) if count},
    )


def test_a_batch_is_counted_by_how_long_each_waited_and_ran() -> None:
    claimed = [take(due(seconds)) for seconds in (0, 40, 40, 4_000)]
    runs = (0.0003, 0.02, 0.02, 10_000.0)
    successes = [Success(job, 0.0, run) for job, run in zip(claimed, runs, strict=True)]

    complete(DjangoDatabase(), worker_id=WORKER, successes=successes)

    [row] = Rollup.objects.all()
    assert row.jobs == 4
    waited, ran = filled(row)
    assert ran == {0: 1, bucket(0.02): 2, BUCKETS - 1: 1}
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
    assert filled(row) == ({bucket(100): 1}, {bucket(0.3): 1})
    assert row.wait_seconds == pytest.approx(100, abs=30)


def test_folding_adds_the_counts_up_also_with_rows_that_have_none() -> None:
    minute = ago(minutes=5).replace(second=0, microsecond=0)
    one = [pack(1, wait=2, run=3), pack(4, wait=2, run=7)]
    other = [pack(10, wait=0, run=18), pack(2, wait=2, run=3)]

    def delta(back: int, timings: list[int] | None, jobs: int = 1) -> None:
        Rollup.objects.create(
            minute=minute - timedelta(minutes=back), queue="default", type="test",
            outcome="succeeded", jobs=jobs, wait_seconds=1, run_seconds=1, timings=timings,
        )  # fmt: skip

    for back, given in ((0, one), (0, other), (0, None), (1, one)):
        delta(back, given)
    Total.objects.create(
        queue="default", type="test", outcome="succeeded", jobs=7, wait_seconds=0, run_seconds=0
    )
    assert rollups.fold(DjangoDatabase()) == 4
    total = Total.objects.get()
    assert filled(total) == ({0: 10, 2: 12}, {3: 4, 7: 8, 18: 10})
    # Packed again: each pair once.
    assert total.timings is not None
    assert len(total.timings) == 3
    [earlier, later] = Rollup.objects.order_by("minute")
    assert filled(earlier) == ({2: 5}, {3: 1, 7: 4})
    assert filled(later) == ({0: 10, 2: 7}, {3: 3, 7: 4, 18: 10})

    delta(0, one)
    delta(0, None)
    rollups.fold(DjangoDatabase())
    total.refresh_from_db()
    assert total.jobs == 7 + 6
    assert filled(total) == ({0: 10, 2: 17}, {3: 5, 7: 12, 18: 10})


def test_a_total_of_which_nobody_counted_anything_has_no_timings() -> None:
    Rollup.objects.create(
        minute=ago(minutes=5), queue="a", type="b", outcome="failed", jobs=1, wait_seconds=1,
        run_seconds=1,
    )  # fmt: skip
    rollups.fold(DjangoDatabase())
    assert Total.objects.get().timings is None
    assert counts([None, []]) == ([0] * BUCKETS, [0] * BUCKETS)


def test_large_counts_keep_their_pair() -> None:
    code = pack(10**12, wait=18, run=17)
    waits, runs = counts([[code]])
    assert (waits[18], runs[17]) == (10**12, 10**12)


def test_cumulative_counts_end_with_all_of_them() -> None:
    found = cumulative([3] * BUCKETS)
    assert found[0] == ("0.001", 3)
    assert found[-1] == ("+Inf", 3 * BUCKETS)
    assert [bound for bound, _ in found[:-1]] == [f"{bound:g}" for bound in BOUNDS]
