"""Runs over tables: what is done is passed over, what comes back is found, what fails is halved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from django.db import connection
from django.db.models import Q

from jobs import enqueue, handler
from jobs.models import Job
from jobs.testing import run_due_jobs
from ranges import lane
from ranges.declaring import RangeJob
from ranges.leaf_range import LeafRange
from ranges.models import RangeFailure, RangeNode, RangeRun, RangeSample
from ranges.proof import verify
from ranges.retrying import RetryPolicy, fixed
from ranges.sizing import Leaf
from ranges.states import RunStatus
from tests.database.ranges.keyed import Code, Numbered

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("keyed_tables")]

QUICK = RetryPolicy(max_attempts=2, backoff=fixed(0))


class Mark(RangeJob):
    """Marks numbers as done; does what the test says first."""

    over = Numbered.objects.all()
    todo: ClassVar[Any] = Q(done=False)
    leaf = Leaf(max_size=50)
    concurrency = 2
    retry = QUICK
    failure_threshold = None

    seen: ClassVar[list[int]] = []
    seen_by_others: ClassVar[list[int]] = []
    at_leaf: ClassVar[Callable[[LeafRange, Any], object]] = lambda leaf, context: None

    def process(self, leaf: LeafRange, context: Any) -> int:
        type(self).at_leaf(leaf, context)
        self.seen.extend(leaf.queryset.values_list("id", flat=True))
        return int(leaf.queryset.update(done=True))


@pytest.fixture(autouse=True)
def _nothing_seen() -> None:
    Mark.seen.clear()
    Mark.seen_by_others.clear()
    Mark.at_leaf = lambda leaf, context: None


@pytest.fixture
def numbers() -> None:
    """1 to 3,000 without the multiples of 7; each third is done."""
    Numbered.objects.bulk_create(Numbered(id=n, done=n % 3 == 0) for n in range(1, 3_001) if n % 7)
    with connection.cursor() as cursor:
        cursor.execute("CREATE INDEX todo_numbers ON keyed_numbered (id) WHERE NOT done")
        cursor.execute("ANALYZE keyed_numbered")


def undone() -> list[int]:
    return [n for n in range(1, 3_001) if n % 7 and n % 3]


def drive(run: RangeRun) -> RangeRun:
    run_due_jobs(retries=True)
    run.refresh_from_db()
    return run


@pytest.mark.usefixtures("numbers")
def test_each_row_that_needs_work_gets_it_once_and_the_others_none() -> None:
    run = drive(Mark.start())

    assert (run.status, run.reason, run.probing) == (RunStatus.COMPLETED, "", "witness")
    assert sorted(Mark.seen) == undone()
    assert verify(run).rows_ok == len(undone())
    assert run.assert_complete().is_complete


@pytest.mark.usefixtures("numbers")
def test_a_table_of_which_all_is_done_needs_no_lane() -> None:
    Numbered.objects.update(done=True)
    run = drive(Mark.start(concurrency=4))

    assert run.status == RunStatus.COMPLETED
    assert Mark.seen == []
    node = RangeNode.objects.get()
    assert (node.state, node.lo, node.hi, node.width_skipped) == ("skipped", 1, 3_001, 3_000)
    assert verify(run).is_complete
    assert not Job.objects.filter(type="ranges.lane").exists()


def test_an_empty_table_completes_with_nothing_done() -> None:
    assert drive(Mark.start()).status == RunStatus.COMPLETED
    assert RangeNode.objects.count() == 0


def test_without_an_index_for_what_is_left_each_leaf_filters_for_itself() -> None:
    Numbered.objects.bulk_create(Numbered(id=n, done=n % 3 == 0) for n in range(1, 3_001))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE keyed_numbered")
    run = drive(Mark.start())

    assert (run.status, run.probing) == (RunStatus.COMPLETED, "filter")
    assert sorted(Mark.seen) == [n for n in range(1, 3_001) if n % 3]


@pytest.mark.usefixtures("numbers")
def test_bad_rows_are_recorded_and_all_others_done() -> None:
    bad = {100, 101, 2_999}

    def fail(leaf: LeafRange, context: Any) -> None:
        hit = leaf.queryset.filter(id__in=bad).first()
        if hit is not None:
            raise ValueError(f"row {hit.id}")

    Mark.at_leaf = fail
    run = drive(Mark.start())

    assert run.status == RunStatus.PARTIALLY_FAILED
    assert {int(key) for key in RangeFailure.objects.values_list("key", flat=True)} == bad
    assert Numbered.objects.filter(done=False).count() == len(bad)
    verdict = verify(run)
    assert (verdict.ok, verdict.rows_failed, verdict.rows_ok) == (True, 3, len(undone()) - 3)
    assert run.sweeps == 0  # that the failed rows still need work is known


@pytest.mark.usefixtures("numbers")
def test_rows_that_come_back_behind_the_cursor_are_swept_up() -> None:
    def undo_the_first(leaf: LeafRange, context: Any) -> None:
        if leaf.lo > 2_900:
            Numbered.objects.filter(id=1).update(done=False)
            Mark.at_leaf = lambda leaf, context: None

    Mark.at_leaf = undo_the_first
    run = drive(Mark.start(concurrency=1))

    assert (run.status, run.sweeps) == (RunStatus.COMPLETED, 1)
    assert Mark.seen.count(1) == 2
    assert not Numbered.objects.filter(done=False).exists()
    assert verify(run).is_complete


@pytest.mark.usefixtures("numbers")
def test_rows_that_keep_coming_back_end_the_run_with_that_reason() -> None:
    class Vain(Mark):
        def process(self, leaf: LeafRange, context: Any) -> int:
            return int(leaf.queryset.exclude(id=500).update(done=True))

    run = drive(Vain.start())

    assert (run.status, run.reason) == (RunStatus.PARTIALLY_FAILED, "rows keep coming back")
    assert run.sweeps == 3
    assert Numbered.objects.filter(done=False).count() == 1
    assert verify(run).ok


@pytest.mark.usefixtures("numbers")
def test_nodes_that_do_not_cover_the_range_never_complete_a_run() -> None:
    def lose_a_node(leaf: LeafRange, context: Any) -> None:
        Mark.at_leaf = lambda leaf, context: None
        RangeNode.objects.filter(id=RangeNode.objects.order_by("-lo").first().id).delete()  # type: ignore[union-attr]

    Mark.at_leaf = lose_a_node
    run = drive(Mark.start())

    assert (run.status, run.reason) == (RunStatus.FAILED, "corrupt")


@pytest.mark.usefixtures("numbers")
def test_transient_errors_shrink_the_leaf_and_count_no_attempt() -> None:
    from psycopg.errors import DeadlockDetected

    errors = iter([DeadlockDetected("a"), DeadlockDetected("b")])

    def trip(leaf: LeafRange, context: Any) -> None:
        assert context.attempt == 1
        for error in errors:
            raise error

    Mark.at_leaf = trip
    run = drive(Mark.start())

    assert run.status == RunStatus.COMPLETED
    assert sorted(Mark.seen) == undone()
    assert RangeFailure.objects.count() == 0


@pytest.mark.usefixtures("numbers")
def test_an_opaque_rule_skips_blocks_and_an_error_in_it_skips_nothing() -> None:
    class Tens(Mark):
        todo = None

        def should_process(self, lo: int, hi: int | None, node: Any) -> bool:
            if lo >= 2_000:
                raise RuntimeError("unknown")
            return lo < 1_000 or hi is None or hi > 2_000

    run = drive(Tens.start())

    assert run.status == RunStatus.COMPLETED
    assert run.prune_errors > 0
    everything = [n for n in range(1, 3_001) if n % 7]
    assert set(Mark.seen) >= {n for n in everything if n < 1_000 or n >= 2_000}
    assert len(Mark.seen) == len(set(Mark.seen))
    assert len(Mark.seen) < len(everything)


def test_a_run_over_text_keys_covers_them_all() -> None:
    Code.objects.bulk_create(Code(code=f"{n:05d}é") for n in range(1_000))
    seen: list[str] = []

    class Codes(RangeJob):
        over = Code.objects.all()
        leaf = Leaf(max_size=30)
        concurrency = 3
        retry = QUICK

        def process(self, leaf: LeafRange, context: Any) -> None:
            codes = list(leaf.queryset.values_list("code", flat=True))
            if "00500é" in codes and context.params.get("bad"):
                raise ValueError("bad code")
            seen.extend(codes)

    run = drive(Codes.start(params={"bad": True}))

    assert run.status == RunStatus.PARTIALLY_FAILED
    assert [f.key for f in RangeFailure.objects.all()] == ["00500é"]
    assert sorted(set(seen)) == [f"{n:05d}é" for n in range(1_000) if n != 500]
    assert verify(run).ok
    assert verify(run).rows_ok == 999


@pytest.mark.usefixtures("numbers")
def test_adaptive_leaves_grow_while_they_are_quick() -> None:
    run = drive(Mark.start(leaf=Leaf(target_seconds=5.0, rows=(10, 1_000)), concurrency=1))

    assert run.status == RunStatus.COMPLETED
    assert sorted(Mark.seen) == undone()
    leaves = sum(RangeNode.objects.values_list("leaves", flat=True))
    assert leaves < len(undone()) / 100
    assert RangeSample.objects.filter(run=run).count() == 1


@handler("tests.waits_for_a_lane")
def note_what_was_seen() -> None:
    Mark.seen_by_others.append(len(Mark.seen))


def lane_of(run: RangeRun) -> Job:
    return Job.objects.get(type="ranges.lane", parent_id=run.job_id)


@pytest.mark.usefixtures("numbers")
def test_a_lane_gives_its_slot_to_a_job_of_its_rank_that_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lane, "SLICE_SECONDS", 0)
    enqueued: list[Job] = []

    def enqueue_once(leaf: LeafRange, context: Any) -> None:
        if not enqueued:
            enqueued.append(enqueue("tests.waits_for_a_lane"))

    Mark.at_leaf = enqueue_once
    run = drive(Mark.start(concurrency=1))

    assert run.status == RunStatus.COMPLETED
    assert Mark.seen_by_others == [50]  # after the leaf that was at work
    assert sorted(Mark.seen) == undone()


@pytest.mark.usefixtures("numbers")
def test_a_lane_keeps_its_slot_while_only_worse_jobs_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane, "SLICE_SECONDS", 0)
    enqueue("tests.waits_for_a_lane", priority=3)
    run = drive(Mark.start(concurrency=1))

    assert run.status == RunStatus.COMPLETED
    assert Mark.seen_by_others == [len(undone())]
    assert lane_of(run).lease_epoch == 1  # it was claimed once
