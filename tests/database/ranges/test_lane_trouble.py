"""What user code and the world do to lanes: nothing is lost, nothing is repeated, nothing goes on for ever."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, ClassVar

import pytest
from django.db import DataError, connection, transaction

from jobs import lifecycle as jobs_lifecycle
from jobs.models import Job, JobLog
from jobs.testing import run_due_jobs
from ranges import (
    HandBack,
    IntRange,
    Leaf,
    LeafRange,
    RangeJob,
    RetryPolicy,
    fixed,
    looking,
    mending,
    running,
)
from ranges.models import RangeFailure, RangeNode, RangeRun
from ranges.proof import verify
from ranges.querying import QuerySource
from ranges.states import RunStatus
from tests.database.ranges.keyed import Numbered

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("keyed_tables")]


class Effects(RangeJob):
    """Notes each key within the leaf's transaction, and does what the test says."""

    name = "shop.TroubledEffects"
    over: Any = IntRange(0, 60)
    leaf = Leaf(max_size=10)
    concurrency = 1
    retry = RetryPolicy(max_attempts=1, backoff=fixed(0))
    failure_threshold = None

    act: ClassVar[Callable[[LeafRange, Any], Any]]

    def process(self, leaf: LeafRange, context: Any) -> Any:
        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO hits SELECT k FROM generate_series(%s, %s) k", [leaf.lo, leaf.hi - 1]
            )
        return type(self).act(leaf, context)


class Rows(Effects):
    name = "shop.TroubledRows"
    over: Any = Numbered.objects.all()


@pytest.fixture(autouse=True)
def hits(db: None) -> None:
    Effects.act = lambda leaf, context: None
    with connection.cursor() as cursor:
        cursor.execute("CREATE TEMPORARY TABLE hits (k bigint) ON COMMIT DROP")


def noted() -> list[int]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT k FROM hits ORDER BY k")
        return [k for (k,) in cursor.fetchall()]


def drive(run: RangeRun) -> RangeRun:
    run_due_jobs(retries=True, limit=500)
    run.refresh_from_db()
    return run


def failed() -> list[int]:
    return sorted(int(failure.key) for failure in RangeFailure.objects.all())


# What a leaf does to its transaction


def swallow_an_error(leaf: LeafRange, context: Any) -> None:
    with suppress(DataError), connection.cursor() as cursor:
        cursor.execute("SELECT 1 / 0")


def fail_in_a_block_without_a_savepoint(leaf: LeafRange, context: Any) -> None:
    with suppress(ValueError), transaction.atomic(savepoint=False):
        raise ValueError("caught by the user's own code")


@pytest.mark.parametrize("spoil", [swallow_an_error, fail_in_a_block_without_a_savepoint])
def test_a_transaction_that_can_only_be_rolled_back_is_no_success(
    spoil: Callable[[LeafRange, Any], None],
) -> None:
    """Neither for a leaf, nor for a key by itself, where only a savepoint would vanish."""

    def act(leaf: LeafRange, context: Any) -> None:
        if leaf.lo <= 33 < leaf.hi:
            spoil(leaf, context)

    Effects.act = act
    run = drive(Effects.start())

    assert run.status == RunStatus.PARTIALLY_FAILED
    assert failed() == [33]
    assert noted() == [key for key in range(60) if key != 33]
    assert verify(run).ok


def test_in_memory_it_is_no_success_either() -> None:
    Numbered.objects.bulk_create(Numbered(id=n) for n in range(20))

    def act(leaf: LeafRange, context: Any) -> None:
        if leaf.lo <= 13 < leaf.hi:
            fail_in_a_block_without_a_savepoint(leaf, context)

    Effects.act = act
    statistics = Rows.run_in_memory()  # one lane, so it runs in this test's transaction

    assert [failure.key for failure in statistics.failures] == [13]
    assert noted() == [key for key in range(20) if key != 13]


@pytest.mark.parametrize("answer", [-5, True, "many", 2.5, 10**30, 2**63, float("nan"), [1]])
def test_a_strange_answer_breaks_no_leaf(answer: Any) -> None:
    Numbered.objects.bulk_create(Numbered(id=n) for n in range(60))
    Effects.act = lambda leaf, context: answer
    run = drive(Rows.start())

    assert (run.status, failed()) == (RunStatus.COMPLETED, [])
    assert noted() == list(range(60))
    assert verify(run).is_complete


@pytest.mark.parametrize(
    "error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), MemoryError()]
)
def test_whatever_process_raises_is_its_leafs(error: BaseException) -> None:
    def act(leaf: LeafRange, context: Any) -> None:
        if leaf.lo <= 33 < leaf.hi:
            raise error

    Effects.act = act
    run = drive(Effects.start())

    assert run.status == RunStatus.PARTIALLY_FAILED
    assert failed() == [33]
    assert noted() == [key for key in range(60) if key != 33]


def test_an_error_that_cannot_be_told_or_stored_is_recorded_all_the_same() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    errors = {3: Mute(), 13: ValueError("a\x00b\ud800" + "x" * 100_000)}

    def act(leaf: LeafRange, context: Any) -> None:
        for key, error in errors.items():
            if leaf.lo <= key < leaf.hi:
                raise error

    Effects.act = act
    drive(Effects.start())

    told = {int(failure.key): failure.error for failure in RangeFailure.objects.all()}
    assert set(told) == {3, 13}
    assert "Mute" in told[3]
    assert told[13].startswith("ValueError: a\ufffdb\ufffdxxx")
    assert len(told[13]) <= 5_000


@pytest.mark.parametrize("answer", [None, 0, "", [], "no", SystemExit(3), RecursionError()])
def test_only_false_skips_a_block(answer: Any) -> None:
    class Asks(Effects):
        name = "shop.TroubledAsks"

        def should_process(self, lo: int, hi: int, node: Any) -> Any:
            if isinstance(answer, BaseException):
                raise answer
            return answer

    run = drive(Asks.start())

    assert run.status == RunStatus.COMPLETED
    assert noted() == list(range(60))
    assert (run.prune_errors > 0) == isinstance(answer, BaseException)


# What lies around the leaves


def test_a_walk_that_fails_again_and_again_stops_the_run_and_says_where_to_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Numbered.objects.bulk_create(Numbered(id=n) for n in range(60))
    walk, broken = QuerySource.next_leaf, True

    def next_leaf(self: QuerySource, *given: Any, **options: Any) -> Any:
        if broken:
            raise LookupError("a secret of the table")
        return walk(self, *given, **options)

    monkeypatch.setattr(QuerySource, "next_leaf", next_leaf)
    run = drive(Rows.start())

    assert run.status == RunStatus.PAUSED
    lane = Job.objects.get(id=run.reason.removeprefix("a lane keeps failing; see job "))
    assert lane.attempts.filter(outcome="failed").count() == 5
    assert not RangeNode.objects.filter(state="running").exists()

    broken = False
    assert drive(run.resume()).status == RunStatus.COMPLETED
    assert noted() == list(range(60))


def test_a_plan_that_fails_again_and_again_stops_the_run_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*given: Any, **options: Any) -> Any:
        raise LookupError("a secret of the table")

    with monkeypatch.context() as broken:
        broken.setattr(looking, "start_pieces", fail)
        run = drive(Effects.start())
        assert (run.status, run.planned) == (RunStatus.PAUSED, False)
        assert run.reason == f"it cannot go on; see job {run.job_id}"
    assert run.job_id is not None
    assert JobLog.objects.filter(job_id=run.job_id, message__contains="a secret").exists()

    assert drive(run.resume()).status == RunStatus.COMPLETED
    assert noted() == list(range(60))


def test_now_and_then_an_error_is_no_reason_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    Numbered.objects.bulk_create(Numbered(id=n) for n in range(60))
    walk, calls = QuerySource.next_leaf, 0

    def next_leaf(self: QuerySource, *given: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls % 5 < 3 and calls < 20:
            raise (LookupError, OSError, KeyError)[calls % 3]("once")
        return walk(self, *given, **options)

    monkeypatch.setattr(QuerySource, "next_leaf", next_leaf)
    run = drive(Rows.start())

    assert run.status in (RunStatus.COMPLETED, RunStatus.PARTIALLY_FAILED)
    assert sorted(noted() + failed()) == list(range(60))


# What people do meanwhile


def at_leaf(number: int, act: Callable[[RangeRun], object]) -> RangeRun:
    """A run in whose n-th leaf something happens."""
    run = Effects.start()
    count = 0

    def do(leaf: LeafRange, context: Any) -> None:
        nonlocal count
        count += 1
        if count == number:
            act(RangeRun.objects.get(id=run.id))

    Effects.act = do
    return run


def test_a_pause_that_is_taken_back_inside_a_leaf_changes_nothing() -> None:
    run = at_leaf(3, lambda run: run.pause().resume())

    assert drive(run).status == RunStatus.COMPLETED
    assert noted() == list(range(60))
    assert Job.objects.filter(type="ranges.lane").count() == 1


def test_a_cancel_before_the_plan_leaves_no_node() -> None:
    run = Effects.start()
    run.cancel(reason="never mind")

    assert drive(run).status == RunStatus.CANCELLED
    assert not RangeNode.objects.exists()
    assert not Job.objects.live().exists()


def test_a_cancel_while_it_is_planned_ends_it_before_the_first_leaf(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The plan holds the run's row, so whoever cancels comes before it, or right after."""
    plan = running.plan
    run = Effects.start()

    def plan_and_cancel(*given: Any) -> int:
        count = plan(*given)
        assert run.job_id is not None
        jobs_lifecycle.cancel(run.job_id)
        return count

    monkeypatch.setattr(running, "plan", plan_and_cancel)
    drive(run)
    run.refresh_from_db()

    assert noted() == []
    assert not Job.objects.live().exists()
    assert run.job_id is not None
    assert Job.objects.get(id=run.job_id).status == "cancelled"


@pytest.mark.parametrize("lanes", [1, 100])
def test_lanes_can_be_made_one_or_a_hundred_in_the_middle(lanes: int) -> None:
    run = at_leaf(2, lambda run: run.retune(concurrency=lanes))

    assert drive(run).status == RunStatus.COMPLETED
    assert noted() == list(range(60))
    assert Job.objects.filter(type="ranges.lane").count() == lanes
    assert verify(run).is_complete


def test_two_runs_of_one_job_keep_to_their_own_ranges() -> None:
    one, other = Effects.start(0, 30), Effects.start(20, 60, params={"second": True})
    for run in (one, other):
        assert drive(run).status == RunStatus.COMPLETED
        assert verify(run).is_complete
    assert noted() == sorted([*range(30), *range(20, 60)])
    assert (verify(one).rows_ok, verify(other).rows_ok) == (30, 40)


def test_keys_that_come_and_go_while_it_runs_break_nothing() -> None:
    Numbered.objects.bulk_create(Numbered(id=n) for n in range(0, 600, 10))
    seen: list[int] = []
    count = 0

    def act(leaf: LeafRange, context: Any) -> None:
        nonlocal count
        count += 1
        seen.extend(leaf.queryset.values_list("id", flat=True))
        if count == 2:
            Numbered.objects.filter(id__in=[300, 310, 320]).delete()
            Numbered.objects.bulk_create(Numbered(id=n) for n in (5, 405, 9_999))

    Effects.act = act
    run = drive(Rows.start())

    assert run.status == RunStatus.COMPLETED
    # Behind the cursor and beyond the end, which was fixed at the start, nothing is done.
    kept = {n for n in range(0, 600, 10) if n not in (300, 310, 320)}
    assert sorted(seen) == sorted(kept | {405})
    assert verify(run).is_complete


def test_a_table_that_is_emptied_while_it_runs_ends_the_run() -> None:
    Numbered.objects.bulk_create(Numbered(id=n) for n in range(60))
    Effects.act = lambda leaf, context: Numbered.objects.all().delete() and None
    run = drive(Rows.start())

    assert run.status == RunStatus.COMPLETED
    assert verify(run).rows_ok == 10


# Numbers of attempts, and of depth


def test_the_attempt_of_a_leaf_counts_from_one_on_lanes_too() -> None:
    attempts: list[tuple[int, int, int]] = []

    def act(leaf: LeafRange, context: Any) -> None:
        attempts.append((leaf.lo, leaf.hi, context.attempt))
        if leaf.lo <= 33 < leaf.hi:
            raise ValueError("bad")

    Effects.act = act
    run = drive(Effects.start(retry=RetryPolicy(max_attempts=3, backoff=fixed(0))))

    whole = [attempt for lo, hi, attempt in attempts if (lo, hi) == (30, 40)]
    assert whole == [1, 2, 3]
    assert {attempt for lo, hi, attempt in attempts if not lo <= 33 < hi and hi - lo == 10} == {1}
    assert RangeFailure.objects.get(run=run).attempts >= 3


def test_the_largest_depth_is_kept_to_on_lanes_too() -> None:
    sizes: list[int] = []
    Effects.act = lambda leaf, context: sizes.append(leaf.hi - leaf.lo)
    drive(Effects.start(max_depth=2, max_range_size=1))

    assert max(sizes) == min(sizes) == 15


def test_a_run_tells_its_end_once(django_capture_on_commit_callbacks: Any) -> None:
    from jobs.events import on

    names: list[str] = []
    stop = on("range.*", lambda event: names.append(event.name))
    try:
        with django_capture_on_commit_callbacks(execute=True):
            run = drive(Effects.start())
            run_due_jobs(retries=True)
    finally:
        stop()
    assert run.status == RunStatus.COMPLETED
    assert names.count("range.completed") == names.count("range.started") == 1


# Handing back


class Handing(RangeJob):
    """Does what the test says at each leaf."""

    name = "shop.Handing"
    over = IntRange(0, 30)
    atomic = False
    leaf = Leaf(max_size=10)
    retry = RetryPolicy(max_attempts=2, backoff=fixed(0))
    failure_threshold = None

    seen: ClassVar[list[tuple[int, int]]] = []
    at_leaf: ClassVar[Callable[[LeafRange, Any], object]] = lambda leaf, context: None

    def process(self, leaf: LeafRange, context: Any) -> None:
        type(self).at_leaf(leaf, context)
        self.seen.append((leaf.lo, leaf.hi))


def test_a_leaf_that_is_always_handed_back_fails_instead_of_coming_back_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mending, "transient_seconds", lambda tries, random: 0.0)
    calls = 0

    def hand_back(leaf: LeafRange, context: Any) -> None:
        nonlocal calls
        calls += 1
        assert calls < 100, "endless"
        if 5 in leaf:
            raise HandBack

    Handing.at_leaf = hand_back
    run = drive(Handing.start())
    assert run.status == RunStatus.PARTIALLY_FAILED
    assert failed() == [5]


def test_a_key_that_is_handed_back_for_a_pause_has_not_failed() -> None:
    def fail(leaf: LeafRange, context: Any) -> None:
        if leaf.hi - leaf.lo > 1 and leaf.lo == 0:
            raise ValueError("not all at once")
        if leaf.lo == 3:
            Handing.at_leaf = lambda leaf, context: None
            run.pause()
            raise HandBack

    Handing.at_leaf = fail
    run = Handing.start()
    assert drive(run).status == RunStatus.PAUSED
    assert failed() == []

    Handing.seen.clear()
    assert drive(run.resume()).status == RunStatus.COMPLETED
    assert failed() == []
    assert any(lo <= 3 < hi for lo, hi in Handing.seen)
