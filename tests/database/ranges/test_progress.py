"""Progress is summed from a run's nodes: figures that add up, rates of active time, an honest ETA."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from jobs.database import DirectDatabase, DjangoDatabase, direct_conninfo
from jobs.errors import NotFound
from jobs.ids import new_id
from ranges import progress as module
from ranges import sampling
from ranges.models import RangeFailure, RangeNode, RangeRun, RangeSample
from ranges.progress import in_words, progress
from ranges.rates import rates, smoothed
from ranges.sampling import take_sample
from ranges.states import RunStatus
from ranges.timings import BUCKETS, bucket_of, percentile, seconds_of
from tests.plans import explain, rows_read

pytestmark = pytest.mark.django_db


def make_run(**values: Any) -> RangeRun:
    values = {"lo": 0, "hi": 1_000, "status": RunStatus.RUNNING, **values}
    return RangeRun.objects.create(name="t.Job", axis={"type": "int"}, **values)


def make_node(run: RangeRun, lo: int, hi: int, cur: int | None = None, **values: Any) -> RangeNode:
    cur = hi if cur is None else cur
    values = {"state": "done" if cur == hi else "running", "width_ok": cur - lo, **values}
    return RangeNode.objects.create(
        run=run, kind="strand", lo=lo, hi=hi, cur=cur, resv=cur, **values
    )


def make_samples(run: RangeRun, *points: tuple[float, int, int]) -> None:
    """(active seconds, rows, width done), oldest first."""
    now = timezone.now()
    for place, (seconds, rows, width) in enumerate(points):
        RangeSample.objects.create(
            run=run, rows_ok=rows, rows_failed=0, width_done=width, leaves=0,
            active_seconds=seconds, lanes=1,
            at=now - timedelta(seconds=10 * (len(points) - place)),
        )  # fmt: skip


def test_before_there_are_nodes_all_is_left() -> None:
    found = progress(make_run(status=RunStatus.CREATED))
    assert (found.total, found.left, found.percent, found.line) == (
        1_000,
        1_000,
        0.0,
        "not started",
    )
    assert (found.rows_per_second, found.eta_seconds, found.mean_seconds) == (None, None, None)


def test_processed_skipped_failed_and_left_add_up_to_the_total() -> None:
    run = make_run(rows_estimate=900)
    make_node(run, 0, 400, width_ok=300, width_skipped=100, rows_ok=290, leaves=3, retries=1,
              busy_seconds=6.0, leaf_seconds={"10": 2, "12": 1})  # fmt: skip
    make_node(run, 400, 800, 500, rows_ok=100, leaves=1, busy_seconds=2.0, leaf_seconds={"12": 1})
    make_node(run, 800, 801, state="error", width_ok=0, width_failed=1, rows_failed=1)
    make_node(run, 801, 1_000, 801, state="pending")
    RangeFailure.objects.create(run=run, key="800", attempts=3, error="no")
    found = progress(run)
    assert found.processed == 400
    assert (found.skipped, found.failed, found.left) == (100, 1, 499)
    assert found.percent == pytest.approx(50.1)
    assert (found.rows, found.rows_failed, found.rows_left) == (390, 1, 509)
    assert (found.leaves, found.retries, found.attempts, found.open_failures) == (4, 1, 5, 1)
    assert found.nodes == {"pending": 1, "running": 1, "done": 1, "skipped": 0, "error": 1}
    assert found.lanes == 1
    assert found.mean_seconds == 2.0
    assert found.p50_seconds == seconds_of(10)
    assert found.p99_seconds == seconds_of(12)
    assert "1 failure open" in found.line
    assert json.loads(json.dumps(found.as_json()))["total"] == "1000"


def test_a_hundred_per_cent_means_that_nothing_is_left() -> None:
    run = make_run(lo=0, hi=10**12)
    node = make_node(run, 0, 10**12, 10**12 - 1)
    assert progress(run).percent == 99.99
    RangeNode.objects.filter(pk=node.pk).update(cur=10**12, resv=10**12, state="done")
    found = progress(run)
    assert (found.percent, found.left, found.eta_seconds) == (100.0, 0, (0.0, 0.0))


def test_an_empty_run_is_done() -> None:
    assert progress(make_run(lo=5, hi=5)).percent == 100.0


def test_the_rate_is_that_of_active_time_lately() -> None:
    run = make_run(active_seconds=70.0, rows_estimate=10_000, hi=10_000)
    make_node(run, 0, 10_000, 5_000, rows_ok=5_000)
    # Slow first, then 100 rows a second.
    make_samples(
        run,
        *(
            (10.0 * n, rows, rows)
            for n, rows in enumerate((100, 200, 1_200, 2_200, 3_200, 4_200), 1)
        ),
    )
    found = progress(run)
    assert found.rows_per_second == pytest.approx(77, abs=5)
    assert found.eta_seconds == pytest.approx((50, 500))


def test_a_run_without_samples_has_an_average() -> None:
    run = make_run(active_seconds=5.0, rows_estimate=1_000)
    make_node(run, 0, 1_000, 250, rows_ok=250)
    found = progress(run)
    assert found.rows_per_second == 50.0
    assert found.keys_per_second == 50.0
    assert found.eta_seconds == (15.0, 15.0)
    assert found.line == "25.0 % done, 50 rows/s on 1 of 1 lanes, about 15 s to 15 s left"


def test_a_paused_run_says_why_and_keeps_its_forecast() -> None:
    run = make_run(active_seconds=5.0, status=RunStatus.PAUSED, reason="failure threshold")
    make_node(run, 0, 1_000, 250, state="pending")
    found = progress(run)
    assert found.line == "paused, 25.0 % done: failure threshold"
    assert found.eta_seconds == (15.0, 15.0)
    run.status = RunStatus.CANCELLED
    run.save()
    assert progress(run).eta_seconds is None


def test_estimates_of_rows_do_not_count_where_finished_rows_are_walked_too() -> None:
    run = make_run(probing="filter", rows_estimate=1_000, active_seconds=10.0)
    make_node(run, 0, 1_000, 500, rows_ok=10)
    found = progress(run)
    assert found.rows_left is None
    assert found.eta_seconds == (10.0, 10.0)


def test_more_rows_than_were_estimated_are_forecast_by_width() -> None:
    run = make_run(rows_estimate=100, active_seconds=10.0, probing="witness")
    make_node(run, 0, 1_000, 500, rows_ok=400)
    found = progress(run)
    assert found.rows_left == 0
    assert found.eta_seconds == (10.0, 10.0)


def test_text_has_a_share_but_no_width() -> None:
    run = RangeRun.objects.create(
        name="t.Job", axis={"type": "text"}, lo_key="a", hi_key="e", status=RunStatus.RUNNING,
        active_seconds=30.0,
    )  # fmt: skip
    RangeNode.objects.create(run=run, kind="strand", state="running", lo_key="a", hi_key="e",
                             cur_key="d", resv_key="d", rows_ok=10)  # fmt: skip
    found = progress(run)
    assert (found.total, found.left, found.processed) == (None, None, None)
    assert found.percent == pytest.approx(75)
    assert found.eta_seconds == pytest.approx((10, 10))
    RangeNode.objects.update(cur_key="e", resv_key="e", state="done")
    assert progress(run).percent == 100.0


def test_a_run_that_is_gone_is_told() -> None:
    with pytest.raises(NotFound):
        progress(new_id())


def test_progress_reads_its_run_alone_in_three_statements_at_most() -> None:
    # So many that no planner thinks of reading them all, however few pages they fill.
    runs = [make_run(hi=3_000) for _ in range(12)]
    for run in runs:
        RangeNode.objects.bulk_create(
            RangeNode(run=run, kind="strand", lo=n, hi=n + 10, cur=n, resv=n,
                      leaf_seconds={"3": 1, "4": 2})
            for n in range(0, 3_000, 10)
        )  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE ranges_rangenode")
    with CaptureQueriesContext(connection) as asked:
        assert progress(runs[0]).nodes["pending"] == 300
    assert len(asked) <= 3
    plan = explain(module.SUMS, {"runs": [str(runs[0].id)]})
    # Twice, and a bitmap counts once in the index and once in the table; the others have 3,300.
    assert rows_read(plan, "ranges_rangenode") <= 4 * 300


# --- Samples --------------------------------------------------------------------------------------


def test_a_sample_is_taken_once_however_many_lanes_ask() -> None:
    run = make_run(active_seconds=3.0)
    make_node(
        run, 0, 1_000, 300, rows_ok=250, rows_failed=2, leaves=4, width_ok=200, width_skipped=100
    )
    taken = [take_sample(DjangoDatabase(), str(run.id)) for _ in range(3)]
    assert taken == [True, False, False]
    (sample,) = RangeSample.objects.filter(run=run)
    assert (sample.rows_ok, sample.rows_failed, sample.width_done) == (250, 2, 300)
    assert (sample.leaves, sample.active_seconds, sample.lanes) == (4, 3.0, 1)
    assert take_sample(DjangoDatabase(), new_id()) is False


def test_time_since_a_run_was_resumed_is_active() -> None:
    run = make_run(active_seconds=100.0, resumed_at=timezone.now() - timedelta(seconds=50))
    take_sample(DjangoDatabase(), str(run.id))
    assert RangeSample.objects.get(run=run).active_seconds == pytest.approx(150, abs=5)
    assert progress(run).active_seconds == pytest.approx(150, abs=5)


def test_samples_of_a_long_run_are_thinned_not_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "SAMPLES_KEPT", 40)
    run = make_run()
    for _ in range(200):
        assert take_sample(DjangoDatabase(), str(run.id), apart=0)
    kept = list(RangeSample.objects.filter(run=run).order_by("at").values_list("id", flat=True))
    assert 20 <= len(kept) <= 40
    first, last = kept[0], kept[-1]
    assert last - first > 150


@pytest.mark.django_db(transaction=True)
def test_a_workers_own_connection_takes_samples_and_reads_progress_too() -> None:
    run = make_run(rows_estimate=10, lo=-(10**100), hi=10**100)
    make_node(run, 0, 1_000, 300, leaf_seconds={"3": 1})
    database = DirectDatabase(direct_conninfo())
    try:
        assert take_sample(database, str(run.id))
        assert progress(run, database=database) == progress(run)
    finally:
        database.close()


# --- Pure parts -----------------------------------------------------------------------------------


def test_rates_pass_over_points_too_near_and_start_anew_after_a_reset() -> None:
    assert rates([(10, 100), (10.5, 900), (20, 300)]) == [(20.0, 10)]
    assert rates([(10, 100), (20, 50), (30, 150)]) == [(10.0, 10)]
    assert rates([(4, 100)]) == [(25.0, 4)]
    assert rates([]) == []


def test_a_recent_rate_weighs_more_than_an_old_one() -> None:
    rate = smoothed([(1.0, 10.0), (1.0, 10.0), (100.0, 60.0)])
    assert rate is not None
    assert rate > 80
    assert smoothed([]) is None


@pytest.mark.parametrize(
    "seconds", [0.0001, 0.001, 0.0015, 0.02, 0.5, 1.0, 30.0, 3_600.0, 86_400.0]
)
def test_a_bucket_tells_a_time_within_a_fifth(seconds: float) -> None:
    bucket = bucket_of(seconds)
    assert 0 <= bucket < BUCKETS
    if seconds > 0.001:
        assert seconds_of(bucket) == pytest.approx(seconds, rel=0.2)


def test_percentiles_of_counts() -> None:
    counts = [0] * BUCKETS
    assert percentile(counts, 0.5) is None
    counts[5], counts[20] = 95, 5
    assert percentile(counts, 0.5) == percentile(counts, 0.95) == seconds_of(5)
    assert percentile(counts, 0.99) == seconds_of(20)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (89, "89 s"), (95, "2 min"), (5_300, "88 min"), (7_500, "2 h 5 min"),
     (7_200, "2 h"), (200_000, "2 d 7 h"), (172_800, "2 d")],
)  # fmt: skip
def test_lengths_of_time_in_words(seconds: float, words: str) -> None:
    assert in_words(seconds) == words


def test_a_range_wider_than_any_float_has_progress_a_rate_and_a_time_left() -> None:
    run = make_run(hi=10**400, active_seconds=50.0)
    make_node(run, 0, 10**400, 25 * 10**398)
    found = progress(run)
    assert (found.percent, found.left) == (25.0, 75 * 10**398)
    assert found.keys_per_second is not None
    assert found.eta_seconds is not None
    json.dumps(found.as_json(), allow_nan=False)
