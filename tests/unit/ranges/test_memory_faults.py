"""Each fault of the first seed that memory can show, and the answer that is right."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import Counter
from datetime import date, timedelta
from itertools import pairwise
from typing import Any

import pytest
from structlog.testing import capture_logs

from jobs.errors import Conflict, InvalidInput
from jobs.events import Event, on
from ranges import (
    Block,
    DateRange,
    IntRange,
    Leaf,
    LeafRange,
    MemoryRun,
    RangeJob,
    RetryPolicy,
    TextRange,
    fixed,
)
from ranges.memory_context import MemoryContext
from ranges.memory_lane import MemoryLane, Wait
from ranges.states import RunStatus

QUICK = RetryPolicy(max_attempts=2, backoff=fixed(0))
PATIENCE_SECONDS = 20


class Counted(RangeJob):
    """Remembers which keys were processed, and how often."""

    retry = QUICK
    leaf = Leaf(max_size=10)

    def __init__(self) -> None:
        self.seen: Counter[int] = Counter()
        self.lock = threading.Lock()

    def process(self, leaf: LeafRange, context: Any) -> None:
        with self.lock:
            self.seen.update(leaf)


def run_of(job: RangeJob, **options: Any) -> MemoryRun:
    return MemoryRun(job, type(job).options(**options))


def seen_by(job: Counted, **options: Any) -> list[int]:
    statistics = run_of(job, **options).run()
    assert statistics.status is RunStatus.COMPLETED
    assert set(job.seen.values()) <= {1}
    assert statistics.processed + statistics.skipped == statistics.total
    assert statistics.left == 0
    return sorted(job.seen)


# A. Silent data loss


def test_a_should_process_that_raises_skips_nothing() -> None:
    class Raises(Counted):
        over = IntRange(0, 1000)

        def should_process(self, lo: int, hi: int, node: Block) -> bool:
            raise ConnectionError("the database is away")

    job = Raises()
    run = run_of(job)
    assert run.run().status is RunStatus.COMPLETED
    assert sorted(job.seen) == list(range(1000))
    assert run.statistics().prune_errors > 0
    assert run.statistics().skipped == 0


def test_an_error_that_passes_is_asked_again_before_it_counts() -> None:
    class Once(Counted):
        over = IntRange(0, 100)
        failed = False

        def should_process(self, lo: int, hi: int, node: Block) -> bool:
            if not self.failed:
                self.failed = True
                raise ConnectionError("once")
            return lo >= 50 or hi > 50

    job = Once()
    run = run_of(job)
    run.run()
    assert run.statistics().prune_errors == 0
    assert set(range(50, 100)) <= set(job.seen)


def test_an_unmigrated_middle_is_processed_when_both_ends_are_migrated() -> None:
    """The seed's own example, asked the way that is right: about all keys of the block."""
    migrated = {*range(10), *range(990, 1000)}

    class Migrate(Counted):
        over = IntRange(0, 1000)

        def should_process(self, lo: int, hi: int, node: Block) -> bool:
            return not migrated.issuperset(range(lo, hi))

    keys = seen_by(Migrate())
    assert set(range(1000)) - migrated <= set(keys)


def test_id_gaps_that_break_the_question_lose_no_user() -> None:
    users = {key: key % 3 == 0 for key in range(0, 1000, 7)}

    class Migrate(Counted):
        over = IntRange(0, 1000)

        def should_process(self, lo: int, hi: int, node: Block) -> bool:
            return not (users[lo] and users[hi - 1])  # KeyError in a gap

    keys = seen_by(Migrate(), max_range_size=1)
    assert {key for key, is_migrated in users.items() if not is_migrated} <= set(keys)


def test_every_ten_thousandth_key_is_found_by_a_question_about_the_block() -> None:
    class Marks(Counted):
        over = IntRange(0, 1_000_000)

        def should_process(self, lo: int, hi: int, node: Block) -> bool:
            return -(-lo // 10_000) * 10_000 < hi

    keys = seen_by(Marks(), max_range_size=1_000)
    assert {*range(0, 1_000_000, 10_000)} <= set(keys)
    assert len(keys) <= 100 * 1_000


def test_a_rule_for_leaves_alone_is_not_applied_to_inner_blocks() -> None:
    class Marks(Counted):
        over = IntRange(0, 1_000_000)

        def should_process(self, lo: int, hi: int, node: Block) -> bool:
            return not node.is_leaf or any(key % 10_000 == 0 for key in range(lo, hi))

    assert {*range(0, 1_000_000, 10_000)} <= set(seen_by(Marks(), max_range_size=1_000))


def test_weekdays_are_all_processed_and_weekends_are_not() -> None:
    class Weekdays(RangeJob):
        over = DateRange("2024-01-01", "2024-12-31", inclusive=True)
        leaf = Leaf(max_size=timedelta(days=1))

        def __init__(self) -> None:
            self.days: list[date] = []

        def should_process(self, lo: date, hi: date, node: Block) -> bool:
            return not node.is_leaf or lo.weekday() < 5

        def process(self, leaf: LeafRange, context: Any) -> None:
            self.days += leaf

    job = Weekdays()
    assert run_of(job).run().status is RunStatus.COMPLETED
    year = [date(2024, 1, 1) + timedelta(days=n) for n in range(366)]
    assert sorted(job.days) == [day for day in year if day.weekday() < 5]


# C. Concurrency, pause, cancel


def test_ten_lanes_are_ten_leaves_at_a_time() -> None:
    barrier = threading.Barrier(10)

    class Together(RangeJob):
        over = IntRange(0, 100)
        leaf = Leaf(max_size=10)
        concurrency = 10

        def process(self, leaf: LeafRange, context: Any) -> None:
            barrier.wait(PATIENCE_SECONDS)

    assert Together.run_in_memory().status is RunStatus.COMPLETED


def test_ten_tasks_are_ten_leaves_at_a_time_in_an_event_loop() -> None:
    class Together(RangeJob):
        over = IntRange(0, 100)
        leaf = Leaf(max_size=10)
        concurrency = 10

        def __init__(self) -> None:
            self.barrier = asyncio.Barrier(10)

        async def process(self, leaf: LeafRange, context: Any) -> None:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self.barrier.wait()

    assert Together.run_in_memory().status is RunStatus.COMPLETED


def test_a_cancelled_run_stays_cancelled_when_its_running_leaf_ends() -> None:
    entered, go_on = threading.Event(), threading.Event()

    class Slow(RangeJob):
        over = IntRange(0, 100)
        leaf = Leaf(max_size=10)

        def process(self, leaf: LeafRange, context: Any) -> None:
            entered.set()
            go_on.wait(PATIENCE_SECONDS)
            assert context.cancelled
            assert context.should_yield

    names: list[str] = []
    stop = on("range.*", lambda event: names.append(event.name))
    try:
        run = Slow.in_memory().start()
        entered.wait(PATIENCE_SECONDS)
        run.cancel()
        go_on.set()
        statistics = run.wait(PATIENCE_SECONDS)
    finally:
        stop()
    assert statistics.status is RunStatus.CANCELLED
    assert statistics.leaves == 1
    assert names.count("range.cancelled") == 1
    assert "range.completed" not in names
    with pytest.raises(Conflict):
        run.resume()


def test_resuming_while_a_leaf_still_runs_gives_no_second_lane() -> None:
    class Slow(Counted):
        over = IntRange(0, 100)
        at_work = 0
        most = 0

        def process(self, leaf: LeafRange, context: Any) -> None:
            with self.lock:
                self.at_work += 1
                self.most = max(self.most, self.at_work)
            entered.set()
            go_on.wait(PATIENCE_SECONDS)
            super().process(leaf, context)
            with self.lock:
                self.at_work -= 1

    entered, go_on = threading.Event(), threading.Event()
    job = Slow()
    run = run_of(job).start()
    entered.wait(PATIENCE_SECONDS)
    for _ in range(5):
        run.pause()
        run.resume()
    go_on.set()
    assert run.wait(PATIENCE_SECONDS).status is RunStatus.COMPLETED
    assert job.most == 1
    assert job.seen == Counter(range(100))


def test_a_completed_run_says_so_once() -> None:
    names: list[str] = []
    stop = on("range.*", lambda event: names.append(event.name))
    try:

        class NothingHere(RangeJob):
            over = IntRange(0, 1000)
            leaf = Leaf(max_size=1)
            concurrency = 4

            def process(self, leaf: LeafRange, context: Any) -> None: ...

        run = NothingHere.in_memory()
        run.run()
        assert run.verify()
    finally:
        stop()
    assert names.count("range.completed") == 1
    assert names[0] == "range.created"
    assert names[-1] == "range.completed"
    with pytest.raises(Conflict):
        run.run()


# D. Retry and failure


def test_the_attempt_counts_from_one_and_the_policy_is_kept_to() -> None:
    attempts: list[int] = []

    class Flaky(RangeJob):
        over = IntRange(0, 10)
        leaf = Leaf(max_size=10)
        retry = RetryPolicy(max_attempts=3, backoff=lambda attempt: 0.001 * attempt)

        def process(self, leaf: LeafRange, context: Any) -> None:
            attempts.append(context.attempt)
            if context.attempt < 3:
                raise ValueError("not yet")

    run = Flaky.in_memory()
    assert run.run().status is RunStatus.COMPLETED
    assert attempts == [1, 2, 3]
    assert [(each.attempt, each.retry_in) for each in run.history] == [(1, 0.001), (2, 0.002)]


def test_a_run_in_which_everything_fails_stops_early_and_is_never_completed() -> None:
    class Fails(RangeJob):
        over = IntRange(0, 100_000)
        leaf = Leaf(max_size=10)
        retry = RetryPolicy(max_attempts=1, backoff=fixed(0))
        failure_threshold = 55

        def process(self, leaf: LeafRange, context: Any) -> None:
            raise ValueError("always")

    run = Fails.in_memory()
    statistics = run.run()
    assert statistics.status is RunStatus.PAUSED
    assert statistics.reason == "failure threshold"
    assert 100 <= statistics.failed <= 200
    assert statistics.left > 99_000
    assert run.verify()


def test_without_a_threshold_a_run_that_did_nothing_has_failed() -> None:
    class Fails(RangeJob):
        over = IntRange(0, 64)
        leaf = Leaf(max_size=8)
        retry = QUICK
        failure_threshold = None

        def process(self, leaf: LeafRange, context: Any) -> None:
            raise ValueError("always")

    run = Fails.in_memory()
    statistics = run.run()
    assert statistics.status is RunStatus.FAILED
    assert [failure.key for failure in sorted(run.failures, key=lambda f: f.key)] == [*range(64)]


def test_one_bad_key_makes_a_run_partially_failed_and_can_be_driven_again() -> None:
    class Poison(Counted):
        over = IntRange(0, 1000)
        leaf = Leaf(max_size=100)
        concurrency = 3
        mended = False

        def process(self, leaf: LeafRange, context: Any) -> None:
            if not self.mended and leaf.lo <= 777 < leaf.hi:
                raise ValueError("777")
            super().process(leaf, context)

    job = Poison()
    run = run_of(job)
    statistics = run.run()
    assert statistics.status is RunStatus.PARTIALLY_FAILED
    assert [failure.key for failure in statistics.failures] == [777]
    assert statistics.failed == 1
    assert statistics.processed == 999
    job.mended = True
    run.retry_failed()
    assert run.wait(PATIENCE_SECONDS).status is RunStatus.COMPLETED
    assert job.seen == Counter(range(1000))
    assert run.verify()


def test_the_largest_depth_is_kept_to() -> None:
    class Shallow(Counted):
        over = IntRange(0, 1000)
        leaf = Leaf(max_size=1)
        max_depth = 3

    run = run_of(Shallow())
    assert run.run().leaves == 8


def test_a_threshold_is_a_share_of_items_not_of_nodes() -> None:
    class TwoPercent(RangeJob):
        over = IntRange(0, 1000)
        leaf = Leaf(max_size=10)
        retry = QUICK
        failure_threshold = 5.0

        def process(self, leaf: LeafRange, context: Any) -> None:
            for key in leaf:
                if key % 50 == 49:
                    context.fail(key, "bad")

    statistics = TwoPercent.run_in_memory()
    assert statistics.status is RunStatus.PARTIALLY_FAILED
    assert statistics.failed == 20
    assert statistics.processed == 980


@pytest.mark.parametrize("seed", range(40))
def test_items_that_fail_checkpoints_and_errors_in_any_order_leave_the_range_whole(
    seed: int,
) -> None:
    chance = random.Random(seed)
    keys = range(120)
    bad = set(chance.sample(keys, chance.choice([0, 1, 5, 30])))
    kills = set(chance.sample(keys, chance.choice([0, 2, 9]))) - bad
    often = chance.choice([0.0, 0.1, 0.5, 1.0])
    seen: set[int] = set()

    class Mixed(RangeJob):
        over = IntRange(0, 120)
        leaf = Leaf(max_size=11)
        retry = QUICK
        concurrency = 2
        failure_threshold = None
        atomic = False

        def process(self, leaf: LeafRange, context: Any) -> None:
            for key in leaf:
                if key in bad:
                    context.fail(key, "bad")
                elif key in kills:
                    raise ValueError("kills")
                else:
                    seen.add(key)
                if chance.random() < often:
                    context.checkpoint(key + 1)

    run = Mixed.in_memory()
    statistics = run.run()
    assert run.verify()
    assert statistics.status == ("partially_failed" if bad | kills else "completed")
    assert {failure.key for failure in run.failures} == bad | kills
    assert all(failure.upto is None for failure in run.failures)
    assert seen == set(keys) - bad - kills
    assert (statistics.processed, statistics.left) == (len(seen), 0)
    assert {str(node.state) for node in run.nodes} <= {"done", "error"}


def test_a_leaf_that_waits_for_its_next_try_belongs_to_the_lane_that_takes_it() -> None:
    class Stubborn(RangeJob):
        over = IntRange(0, 5)
        retry = RetryPolicy(max_attempts=4, backoff=fixed(0))

        def process(self, leaf: LeafRange, context: Any) -> None:
            raise NotImplementedError

    run = Stubborn.in_memory()
    run._begin()
    run.tiles.concurrency = 2
    first, second = (MemoryLane(run, number).steps() for number in range(2))
    taken: list[Any] = []
    error = ValueError("not yet")

    assert isinstance(next(first), MemoryContext)
    assert isinstance(first.send((error, None, 0.0)), MemoryContext)  # the leaf as a whole
    # Told when the lock is free again, while the first lane has not looked at the leaf since.
    stop = on("node.retrying", lambda _: taken.append(next(second)))
    try:
        assert isinstance(first.send((error, None, 0.0)), Wait)
    finally:
        stop()
    [context] = taken
    assert isinstance(context, MemoryContext)
    with pytest.raises(StopIteration):
        second.send((None, None, 0.0))
    assert (run.verify(), run.statistics().processed) == (True, 5)


class Speechless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def test_an_error_that_cannot_tell_its_message_is_a_failure_like_any_other() -> None:
    class Poison(Counted):
        over = IntRange(0, 30)
        failure_threshold = None

        def should_process(self, lo: int, hi: int, node: Block) -> bool:
            raise Speechless

        def process(self, leaf: LeafRange, context: Any) -> None:
            if leaf.lo <= 7 < leaf.hi:
                raise Speechless
            if leaf.lo <= 20 < leaf.hi:
                context.fail(20, Speechless())

    run = run_of(Poison())
    assert run.run().status is RunStatus.PARTIALLY_FAILED
    assert {failure.key for failure in run.failures} == {7, 20}
    assert all(failure.error.startswith("Speechless: <") for failure in run.failures)


def test_a_job_logs_in_memory_as_it_does_on_lanes() -> None:
    class Talks(RangeJob):
        over = IntRange(0, 10)

        def process(self, leaf: LeafRange, context: Any) -> None:
            context.log("one", level="warning", event=1, level_of="two")
            context.log.info("three", keys=10)
            context.log("four", level="loud")

    with capture_logs() as lines:
        run = Talks.in_memory()
        run.run()
    told = [line for line in lines if "run_id" in line][:2]
    assert [(line["event"], line["log_level"]) for line in told] == [
        ("one", "warning"),
        ("three", "info"),
    ]
    assert all("must be one of debug" in failure.error for failure in run.failures)


# E. Statistics


def test_statistics_are_kept_not_scanned_for() -> None:
    """Twice the leaves, twice the bookkeeping: nodes do not grow with leaves."""

    class NothingHere(RangeJob):
        over = IntRange(0, 10**9)

        def process(self, leaf: LeafRange, context: Any) -> None: ...

    for size in (10**6, 10**5):
        run = NothingHere.in_memory(max_range_size=size, concurrency=4)
        assert run.run().leaves >= 10**9 // size
        assert len(run.nodes) <= 64


def test_skipped_inner_blocks_count_and_progress_reaches_a_hundred_per_cent() -> None:
    class Half(Counted):
        over = IntRange(0, 1000)

        def should_process(self, lo: int, hi: int, node: Block) -> bool:
            return hi > 500

    run = run_of(Half())
    assert run.statistics().done_percent == 0
    statistics = run.run()
    assert (statistics.processed, statistics.skipped) == (500, 500)
    assert statistics.done_percent == 100
    assert statistics.nodes["skipped"] >= 1


def test_durations_are_measured_and_rates_are_not_cumulative() -> None:
    class Naps(RangeJob):
        over = IntRange(0, 20)
        leaf = Leaf(max_size=1)

        def process(self, leaf: LeafRange, context: Any) -> None:
            time.sleep(0.002)

    statistics = Naps.run_in_memory()
    assert statistics.leaf_seconds is not None
    assert statistics.leaf_seconds.count == 20
    assert statistics.leaf_seconds.p50 * 1.05 >= 0.002
    assert statistics.leaf_seconds.p50 <= statistics.leaf_seconds.p99 * 1.05
    assert statistics.keys_per_second is not None
    assert statistics.keys_per_second <= 1 / 0.002
    assert statistics.eta_seconds == 0
    assert statistics.attempts == 20


def test_a_running_run_has_an_estimate_of_its_end() -> None:
    entered, go_on = threading.Event(), threading.Event()

    class Half(RangeJob):
        over = IntRange(0, 100)
        leaf = Leaf(max_size=10)

        def process(self, leaf: LeafRange, context: Any) -> None:
            if leaf.lo == 50:
                entered.set()
                go_on.wait(PATIENCE_SECONDS)

    run = Half.in_memory().start()
    entered.wait(PATIENCE_SECONDS)
    statistics = run.statistics()
    assert statistics.left == 50
    assert statistics.eta_seconds is not None
    assert statistics.eta_seconds > 0
    tree = run.tree(1)
    go_on.set()
    run.wait(PATIENCE_SECONDS)
    left, right = tree["children"]
    assert (tree["state"], tree["left"], tree["processed"]) == ("running", 50, 50)
    assert (left["state"], left["processed"], left["path"]) == ("done", 50, "0")
    assert (right["left"], right["path"]) == (50, "1")


# F. Scale


def test_fifty_million_keys_take_as_few_leaves_as_they_can() -> None:
    class NothingHere(RangeJob):
        over = IntRange(0, 50_000_000)
        leaf = Leaf(max_size=10_000)

        def process(self, leaf: LeafRange, context: Any) -> None: ...

    run = NothingHere.in_memory(concurrency=4)
    statistics = run.run()
    assert 5_000 <= statistics.leaves <= 5_000 + len(run.nodes)


def test_a_question_that_sees_one_done_range_asks_a_handful_of_times() -> None:
    class Done(Counted):
        over = IntRange(0, 10**15)
        leaf = Leaf(max_size=1_000)

        def should_process(self, lo: int, hi: int, node: Block) -> bool:
            return False

    run = run_of(Done())
    statistics = run.run()
    assert statistics.skipped == 10**15
    assert statistics.questions <= 4
    assert statistics.attempts == 0


# G. Types


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"max_range_size": 0}, "max_range_size"),
        ({"max_range_size": 0.5}, "max_range_size"),
        ({"max_range_size": -1}, "max_range_size"),
        ({"concurrency": 0}, "concurrency"),
        ({"failure_threshold": 101}, "failure_threshold"),
        ({"failure_threshold": -1}, "failure_threshold"),
        ({"max_depth": -1}, "max_depth"),
        ({"surprise": 1}, "surprise"),
        ({"start": 10, "end": 5}, "end"),
        ({"start": "x"}, "start"),
        ({"start": True}, "start"),
        ({"start": -1}, "start"),
    ],
)
def test_a_wrong_option_is_refused_by_name(options: dict[str, Any], field: str) -> None:
    class NothingHere(Counted):
        over = IntRange(0, 100)

    with pytest.raises(InvalidInput) as refusal:
        NothingHere.in_memory(**options)
    assert refusal.value.field == field


def test_the_smallest_ranges_end_and_call_work_at_most_once() -> None:
    class NothingHere(Counted):
        over = IntRange(0, 100)

    for lo, hi in ((0, 1), (5, 5), (99, 100), (0, 2)):
        job = NothingHere()
        run = MemoryRun(job, NothingHere.options(max_range_size=1), start=lo, end=hi)
        assert run.run().status is RunStatus.COMPLETED
        assert sorted(job.seen) == list(range(lo, hi))


def test_ranges_beyond_doubles_and_below_zero_are_exact() -> None:
    for lo in (2**53 - 2, 2**63, 10**39, -7, -(2**64)):

        class Far(Counted):
            over = IntRange(lo, lo + 7)

        assert seen_by(Far(), max_range_size=2, concurrency=2) == list(range(lo, lo + 7))


def test_text_ranges_tile_between_their_bounds() -> None:
    class Words(RangeJob):
        over = TextRange("aaa", "zzz")

        def __init__(self) -> None:
            self.pieces: list[tuple[str, str]] = []

        def process(self, leaf: LeafRange, context: Any) -> None:
            self.pieces.append((leaf.lo, leaf.hi))

    job = Words()
    run = run_of(job)
    assert run.run().status is RunStatus.COMPLETED
    pieces = sorted(job.pieces)
    assert pieces[0][0] == "aaa"
    assert pieces[-1][1] == "zzz"
    assert all(one[1] == other[0] for one, other in pairwise(pieces))
    assert len(pieces) == 2**10


# H. Listeners


def test_a_listener_that_is_slow_holds_up_its_own_lane_alone() -> None:
    others_got_on, first = threading.Event(), threading.Lock()

    def slow(event: Event) -> None:
        if first.acquire(blocking=False):
            assert others_got_on.wait(PATIENCE_SECONDS)

    class NothingHere(Counted):
        over = IntRange(0, 100)

        def process(self, leaf: LeafRange, context: Any) -> None:
            super().process(leaf, context)
            if len(self.seen) > 50:
                others_got_on.set()

    stop = on("node.started", slow)
    try:
        assert seen_by(NothingHere(), concurrency=2) == list(range(100))
    finally:
        stop()


def test_a_listener_that_fails_changes_nothing() -> None:
    def fail(event: Event) -> None:
        raise RuntimeError("a listener's own fault")

    stop = on("node.*", fail)
    try:

        class NothingHere(Counted):
            over = IntRange(0, 100)

        assert seen_by(NothingHere(), concurrency=2) == list(range(100))
    finally:
        stop()
