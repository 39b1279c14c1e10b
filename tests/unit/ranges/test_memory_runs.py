"""Runs in memory as a user sees them: controls, contexts, retries, events."""

from __future__ import annotations

import asyncio
import math
import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.errors import Conflict, InvalidInput
from jobs.events import Event, on
from ranges import (
    Block,
    DateTimeRange,
    HandBack,
    IntRange,
    Leaf,
    LeafRange,
    MemoryRun,
    RangeJob,
    RetryPolicy,
    Statistics,
    exponential,
    fixed,
    linear,
    mishaps,
)
from ranges.states import RunStatus

EXAMPLES = int(os.environ.get("COPPICE_PROPERTY_EXAMPLES", "300"))
PATIENCE_SECONDS = 20


class Nothing(RangeJob):
    over = IntRange(0, 100)
    leaf = Leaf(max_size=10)

    def process(self, leaf: LeafRange, context: Any) -> None: ...


def run_of(job: RangeJob, **options: Any) -> MemoryRun:
    return MemoryRun(job, type(job).options(**options))


class Wrapped(RangeJob):
    """Its coroutine hides behind a decorator that is not async."""

    over = IntRange(0, 100)
    leaf = Leaf(max_size=10)

    def process(self, leaf: LeafRange, context: Any) -> Any:
        async def done() -> None:
            for key in leaf:
                context.emit(key)

        return done()


class Lazy(RangeJob):
    over = IntRange(0, 2)
    retry = RetryPolicy(max_attempts=1)

    def process(self, leaf: LeafRange, context: Any) -> Any:
        return (context.emit(key) for key in leaf)


def test_a_coroutine_that_process_returns_is_awaited_and_a_generator_is_a_failure() -> None:
    wrapped = Wrapped.in_memory()
    assert wrapped.run().status is RunStatus.COMPLETED
    assert sorted(wrapped.results) == list(range(100))

    lazy = Lazy.run_in_memory()
    assert lazy.status is RunStatus.FAILED
    assert "generator" in lazy.failures[0].error


class Vast(RangeJob):
    """More keys than any float can count, of which a thousand need work."""

    over = IntRange(0, 10**400)
    leaf = Leaf(max_size=50)
    concurrency = 3

    def should_process(self, lo: int, hi: int, node: Block) -> bool:
        return lo < 1_000

    def process(self, leaf: LeafRange, context: Any) -> None: ...


def test_a_range_wider_than_any_float_is_walked_and_told_of_in_exact_numbers() -> None:
    run = Vast.in_memory()
    statistics = run.run()
    assert statistics.status is RunStatus.COMPLETED
    assert statistics.processed >= 1_000
    assert statistics.processed + statistics.skipped == 10**400
    assert run.verify()


# Pause, resume, cancel, retune


class Gated(RangeJob):
    """Waits in the leaf that starts at `gate`."""

    over = IntRange(0, 100)
    leaf = Leaf(max_size=10)

    def __init__(self) -> None:
        self.seen: Counter[int] = Counter()
        self.entered, self.go_on = threading.Event(), threading.Event()
        self.gate = 50
        self.lock = threading.Lock()

    def process(self, leaf: LeafRange, context: Any) -> None:
        if leaf.lo == self.gate:
            self.entered.set()
            assert self.go_on.wait(PATIENCE_SECONDS)
        with self.lock:
            self.seen.update(leaf)


def test_a_pause_lets_the_leaf_finish_and_resume_goes_on_behind_it() -> None:
    job = Gated()
    run = run_of(job).start()
    job.entered.wait(PATIENCE_SECONDS)
    run.pause("for lunch")
    with pytest.raises(TimeoutError):
        run.wait(0.01)
    job.go_on.set()
    statistics = run.wait(PATIENCE_SECONDS)
    assert (statistics.status, statistics.reason) == (RunStatus.PAUSED, "for lunch")
    assert statistics.left == 40
    assert run.verify()
    with pytest.raises(Conflict):
        run.pause()
    run.resume()
    assert run.wait(PATIENCE_SECONDS).status is RunStatus.COMPLETED
    assert job.seen == Counter(range(100))


def test_a_run_that_paused_can_go_on_in_the_caller() -> None:
    job = Gated()
    job.go_on.set()
    run = run_of(job)
    stop = on("node.started", lambda event: run.pause() if run.status == "running" else None)
    try:
        assert run.run().status is RunStatus.PAUSED
    finally:
        stop()
    assert run.run().status is RunStatus.COMPLETED
    assert job.seen == Counter(range(100))


def test_more_lanes_join_while_it_runs() -> None:
    barrier = threading.Barrier(2)

    class Together(Nothing):
        def process(self, leaf: LeafRange, context: Any) -> None:
            if leaf.lo in (0, 50):
                barrier.wait(PATIENCE_SECONDS)

    run = Together.in_memory().start()
    run.retune(concurrency=2)
    assert run.wait(PATIENCE_SECONDS).status is RunStatus.COMPLETED
    with pytest.raises(InvalidInput):
        run.retune(concurrency=0)
    with pytest.raises(InvalidInput):
        run.retune(concurrency=1_001)


def test_an_idle_lane_steals_the_tail_of_a_slow_strand() -> None:
    """The strand that starts at 0 waits after its first leaf until somebody has stolen from it."""
    by_thread: dict[int, set[int]] = {}
    stolen = threading.Event()

    class Skewed(RangeJob):
        over = IntRange(0, 400)
        leaf = Leaf(max_size=10)
        concurrency = 2

        def process(self, leaf: LeafRange, context: Any) -> None:
            if leaf.lo == 0:
                time.sleep(0.05)  # so that what is left of it is worth a theft
            elif leaf.lo < 100:
                assert stolen.wait(PATIENCE_SECONDS)
            by_thread.setdefault(threading.get_ident(), set()).update(leaf)

    stop = on("node.stolen", lambda event: stolen.set())
    try:
        run = Skewed.in_memory()
        assert run.run().status is RunStatus.COMPLETED
    finally:
        stop()
    assert run.verify()
    assert sum(len(keys) for keys in by_thread.values()) == 400
    assert all(keys & set(range(100)) for keys in by_thread.values())


def test_an_interrupt_in_the_callers_thread_pauses_the_run_and_is_raised() -> None:
    class Interrupted(Nothing):
        broken = True

        def process(self, leaf: LeafRange, context: Any) -> None:
            if self.broken and leaf.lo >= 50:
                raise KeyboardInterrupt

    job = Interrupted()
    run = run_of(job)
    with pytest.raises(KeyboardInterrupt):
        run.run()
    assert run.status is RunStatus.PAUSED
    assert run.statistics().left == 50
    job.broken = False
    assert run.run().status is RunStatus.COMPLETED


# An event loop


class Dozes(RangeJob):
    over = IntRange(0, 200)
    leaf = Leaf(max_size=10)
    concurrency = 4

    def __init__(self) -> None:
        self.seen: Counter[int] = Counter()

    async def process(self, leaf: LeafRange, context: Any) -> None:
        await asyncio.sleep(0)
        self.seen.update(leaf)


def test_async_code_needs_no_transaction_and_says_so() -> None:
    assert Dozes.options().atomic is False
    with pytest.raises(InvalidInput) as refusal:

        class Wrong(Dozes):
            atomic = True

    assert refusal.value.field == "atomic"


def test_an_async_run_completes_in_any_way_of_starting_it() -> None:
    ways: tuple[Callable[[MemoryRun], Statistics], ...] = (
        lambda run: run.run(),
        lambda run: asyncio.run(run.arun()),
        lambda run: run.start().wait(PATIENCE_SECONDS),
    )
    for start in ways:
        job = Dozes()
        run = run_of(job)
        assert start(run).status is RunStatus.COMPLETED
        assert job.seen == Counter(range(200))


def test_a_plain_run_does_not_block_an_event_loop() -> None:
    assert asyncio.run(Nothing.in_memory().arun()).status is RunStatus.COMPLETED


def test_an_async_run_pauses_and_resumes_from_outside() -> None:
    job = Dozes()
    run = run_of(job)
    stop = on("leaf.completed", lambda event: run.pause() if run.status == "running" else None)
    run.start()
    try:
        assert run.wait(PATIENCE_SECONDS).status is RunStatus.PAUSED
    finally:
        stop()
    run.resume()
    assert run.wait(PATIENCE_SECONDS).status is RunStatus.COMPLETED
    assert job.seen == Counter(range(200))


def test_an_async_run_goes_on_in_the_caller_while_a_lane_still_works_elsewhere() -> None:
    entered, go_on = threading.Event(), threading.Event()

    class Waits(Dozes):
        async def process(self, leaf: LeafRange, context: Any) -> None:
            entered.set()
            await asyncio.to_thread(go_on.wait, PATIENCE_SECONDS)
            await super().process(leaf, context)

    job = Waits()
    run = run_of(job, concurrency=1).start()
    entered.wait(PATIENCE_SECONDS)
    run.pause()
    stop = on("range.resumed", lambda event: go_on.set())
    try:
        assert run.run().status is RunStatus.COMPLETED
    finally:
        stop()
    assert job.seen == Counter(range(200))


def test_an_async_job_may_ask_async_questions_and_fail() -> None:
    class Asks(Dozes):
        retry = RetryPolicy(max_attempts=2, backoff=fixed(0.001))
        failure_threshold = None

        async def should_process(self, lo: int, hi: int, node: Block) -> bool:
            await asyncio.sleep(0)
            return lo < 100

        async def process(self, leaf: LeafRange, context: Any) -> None:
            if leaf.lo <= 42 < leaf.hi:
                raise ValueError("42")
            await super().process(leaf, context)

    job = Asks()
    statistics = run_of(job).run()
    assert statistics.status is RunStatus.PARTIALLY_FAILED
    assert [failure.key for failure in statistics.failures] == [42]
    assert statistics.prune_errors == 0
    assert set(job.seen) >= set(range(100)) - {42}
    assert set(range(120, 200)).isdisjoint(job.seen)


# Retries


@pytest.mark.parametrize(
    ("backoff", "waits"),
    [
        (fixed(0.001), [0.001, 0.001]),
        (linear(0.001), [0.001, 0.002]),
        (exponential(0.001), [0.001, 0.002]),
        (lambda attempt: 0.001 * attempt**2, [0.001, 0.004]),
    ],
)
def test_all_four_kinds_of_backoff_are_kept_to_and_the_history_too(
    backoff: Any, waits: list[float]
) -> None:
    class Flaky(Nothing):
        over = IntRange(0, 10)
        retry = RetryPolicy(max_attempts=3, backoff=backoff)

        def process(self, leaf: LeafRange, context: Any) -> None:
            if context.attempt < 3:
                raise ValueError(f"attempt {context.attempt}")

    run = Flaky.in_memory()
    assert run.run().status is RunStatus.COMPLETED
    assert [each.retry_in for each in run.history] == pytest.approx(waits, rel=0.25)
    assert [each.error for each in run.history] == [
        "ValueError: attempt 1",
        "ValueError: attempt 2",
    ]
    assert run.statistics().retries == 2


def test_an_error_that_passes_is_no_attempt_but_not_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mishaps, "transient_seconds", lambda tries, random: 0.0)
    attempts: list[int] = []

    class Away(Nothing):
        over = IntRange(0, 1)
        retry = RetryPolicy(max_attempts=1, transient=(LookupError,))
        failure_threshold = None

        def process(self, leaf: LeafRange, context: Any) -> None:
            attempts.append(context.attempt)
            raise KeyError("away")

    run = Away.in_memory()
    assert run.run().status is RunStatus.FAILED
    assert attempts == [1] * 6
    assert [each.transient for each in run.history] == [True] * 5 + [False]


@settings(max_examples=max(20, EXAMPLES // 10), deadline=None)
@given(st.data())
def test_exactly_the_bad_keys_are_found_in_as_few_runs_as_promised(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 2_000))
    bad = data.draw(st.sets(st.integers(0, n - 1), max_size=8))
    calls = 0

    class Poison(RangeJob):
        over = IntRange(0, n)
        leaf = Leaf(max_size=n)
        retry = RetryPolicy(max_attempts=1)
        failure_threshold = None

        def process(self, leaf: LeafRange, context: Any) -> None:
            nonlocal calls
            calls += 1
            if any(key in bad for key in leaf):
                raise ValueError("bad")

    run = Poison.in_memory()
    run.run()
    assert sorted(failure.key for failure in run.failures) == sorted(bad)
    assert all(failure.upto is None for failure in run.failures)
    k = len(bad)
    assert calls <= (2 * k * math.ceil(math.log2(max(n / k, 1))) + 2 * k + 1 if k else 1)
    assert run.verify()


def test_without_bisecting_the_leaf_is_recorded_as_a_whole() -> None:
    class Poison(Nothing):
        retry = RetryPolicy(max_attempts=2, backoff=fixed(0), bisect=False)
        failure_threshold = None

        def process(self, leaf: LeafRange, context: Any) -> None:
            if 42 in list(leaf):
                raise ValueError("42")

    statistics = Poison.run_in_memory()
    (failure,) = statistics.failures
    assert (failure.key, failure.upto, failure.items, failure.attempts) == (40, 50, 10, 2)
    assert "ValueError: 42" in failure.traceback
    assert statistics.failed == 10


def test_a_failing_leaf_does_not_hold_up_its_strand() -> None:
    order: list[int] = []

    class Poison(Nothing):
        retry = RetryPolicy(max_attempts=2, backoff=fixed(0.05), bisect=False)
        failure_threshold = None

        def process(self, leaf: LeafRange, context: Any) -> None:
            order.append(leaf.lo)
            if leaf.lo == 0:
                raise ValueError("0")

    Poison.run_in_memory()
    assert order[0] == 0
    assert order[-1] == 0
    assert sorted(order[1:-1]) == list(range(10, 100, 10))


def test_the_failure_threshold_pauses_and_resuming_goes_on() -> None:
    class Poison(Nothing):
        over = IntRange(0, 10_000)
        retry = RetryPolicy(max_attempts=1)
        failure_threshold = 0

        def process(self, leaf: LeafRange, context: Any) -> None:
            for key in leaf:
                if key in (1_000, 5_000):
                    context.fail(key, "bad")

    run = Poison.in_memory()
    for left in (8_990, 4_990):
        statistics = run.run()
        assert (statistics.status, statistics.reason) == (RunStatus.PAUSED, "failure threshold")
        assert statistics.left == left
    statistics = run.run()
    assert statistics.status is RunStatus.PARTIALLY_FAILED
    assert statistics.failed == 2


def test_a_walk_that_cannot_be_asked_pauses_with_the_reason_and_loses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mishaps, "transient_seconds", lambda tries, random: 0.0)

    class Away(Nothing):
        broken = True

    job = Away()
    run = run_of(job)
    ask = run.source.next_leaf

    def next_leaf(*args: Any, **kwargs: Any) -> Any:
        if job.broken:
            raise OSError("no answer")
        return ask(*args, **kwargs)

    run.source.next_leaf = next_leaf  # type: ignore[method-assign]
    statistics = run.run()
    assert statistics.status is RunStatus.PAUSED
    assert "OSError: no answer" in statistics.reason
    assert statistics.left == 100
    job.broken = False
    assert run.run().status is RunStatus.COMPLETED


# The context


def test_a_checkpoint_is_not_done_again() -> None:
    seen: list[int] = []

    class Half(Nothing):
        over = IntRange(0, 10)
        atomic = False
        retry = RetryPolicy(max_attempts=2, backoff=fixed(0))

        def process(self, leaf: LeafRange, context: Any) -> None:
            for key in leaf:
                seen.append(key)
                context.checkpoint(key + 1)
                if key == 5 and context.attempt == 1:
                    raise ValueError("half way")

    assert Half.run_in_memory().status is RunStatus.COMPLETED
    assert seen == list(range(10))


def test_a_long_leaf_hands_back_the_rest() -> None:
    seen: list[int] = []
    entered, go_on = threading.Event(), threading.Event()

    class Long(Nothing):
        over = IntRange(0, 10)
        atomic = False

        def process(self, leaf: LeafRange, context: Any) -> None:
            for key in leaf:
                if key == 3:
                    entered.set()
                    go_on.wait(PATIENCE_SECONDS)
                if context.should_yield:
                    context.checkpoint(key)
                    raise HandBack
                seen.append(key)

    run = Long.in_memory().start()
    entered.wait(PATIENCE_SECONDS)
    run.pause()
    go_on.set()
    statistics = run.wait(PATIENCE_SECONDS)
    assert (statistics.processed, statistics.left) == (3, 7)
    assert not run.history
    run.resume()
    assert run.wait(PATIENCE_SECONDS).status is RunStatus.COMPLETED
    assert seen == list(range(10))


def test_params_results_and_stable_item_keys_reach_the_user() -> None:
    keys: list[str] = []

    class Emits(Nothing):
        over = IntRange(0, 4)
        leaf = Leaf(max_size=2)
        retry = RetryPolicy(max_attempts=2, backoff=fixed(0))

        def process(self, leaf: LeafRange, context: Any) -> None:
            for key in leaf:
                context.emit(key * context.params["by"])
                if key == 1:
                    keys.append(context.item_key(key))
            if leaf.lo == 0 and context.attempt == 1:
                raise ValueError("once")

    run = MemoryRun(Emits(), Emits.options(), params={"by": 10})
    run.run()
    assert sorted(run.results) == [0, 10, 20, 30]
    assert keys == [f"{run.id}:1"] * 2


@pytest.mark.parametrize(
    "misuse",
    [
        lambda context: context.fail(99, "outside"),
        lambda context: context.checkpoint(99),
        lambda context: (context.checkpoint(7), context.fail(5, "done already")),
        lambda context: context.fail("x", "no key"),
    ],
)
def test_a_context_refuses_keys_outside_its_leaf(misuse: Callable[[Any], None]) -> None:
    class Misuses(Nothing):
        over = IntRange(0, 10)
        atomic = False
        retry = RetryPolicy(max_attempts=1, bisect=False)

        def process(self, leaf: LeafRange, context: Any) -> None:
            misuse(context)

    (failure,) = Misuses.run_in_memory().failures
    assert failure.error.startswith("InvalidInput")


def test_an_atomic_leaf_has_no_parts() -> None:
    class Parts(Nothing):
        over = IntRange(0, 10)
        retry = RetryPolicy(max_attempts=1, bisect=False)

        def process(self, leaf: LeafRange, context: Any) -> None:
            context.checkpoint(5)

    (failure,) = Parts.run_in_memory().failures
    assert "an atomic leaf has no parts" in failure.error


def test_an_item_that_failed_before_a_checkpoint_stays_failed() -> None:
    class Names(Nothing):
        over = IntRange(0, 10)
        atomic = False

        def process(self, leaf: LeafRange, context: Any) -> None:
            for key in leaf:
                if key in (3, 4):
                    context.fail(key, "no such customer")
                context.checkpoint(key + 1)

    statistics = Names.run_in_memory()
    assert [failure.key for failure in statistics.failures] == [3, 4]
    assert (statistics.processed, statistics.failed) == (8, 2)


# Events


def test_the_life_of_a_run_is_told_in_events() -> None:
    events: list[Event] = []
    stops = [on(pattern, events.append) for pattern in ("range.*", "node.*")]

    class Told(Nothing):
        retry = RetryPolicy(max_attempts=2, backoff=fixed(0))
        failure_threshold = None

        def should_process(self, lo: int, hi: int, node: Block) -> bool:
            return hi > 50

        def process(self, leaf: LeafRange, context: Any) -> None:
            if leaf.lo <= 77 < leaf.hi:
                raise ValueError("77")

    try:
        run = Told.in_memory()
        run.run()
    finally:
        for stop in stops:
            stop()
    names = [event.name for event in events]
    assert names[:2] == ["range.created", "range.started"]
    assert names[-1] == "range.partially_failed"
    assert {
        "node.created", "node.split", "node.skipped", "node.started", "node.completed",
        "node.failed", "node.retrying", "node.bisected", "range.stats_updated",
        "range.metrics_updated",
    } <= set(names)  # fmt: skip
    assert all(event.facts["run_id"] == run.id for event in events)
    (failed,) = [event for event in events if event.name == "node.failed"]
    assert (failed.facts["lo"], failed.facts["hi"]) == (77, 78)


# Trees, key types, speed


def test_a_tree_shows_what_was_skipped_processed_and_failed() -> None:
    class Told(Nothing):
        over = IntRange(0, 1024)
        leaf = Leaf(max_size=16)
        retry = RetryPolicy(max_attempts=1)
        failure_threshold = None

        def should_process(self, lo: int, hi: int, node: Block) -> bool:
            return hi > 512

        def process(self, leaf: LeafRange, context: Any) -> None:
            if leaf.lo <= 1000 < leaf.hi:
                raise ValueError("1000")

    run = Told.in_memory()
    assert run.tree(0)["state"] == "pending"
    run.run()
    tree = run.tree(2)
    left, right = tree["children"]
    assert (tree["state"], tree["failed"], tree["left"]) == ("error", 1, 0)
    assert (left["state"], left["skipped"], left["processed"]) == ("skipped", 512, 0)
    assert (right["state"], right["processed"], right["failed"]) == ("error", 511, 1)
    assert right["children"][0]["state"] == "done"
    with pytest.raises(InvalidInput):
        run.tree(11)


def test_days_are_kept_whole_across_a_change_of_the_clock() -> None:
    zone = "Europe/Madrid"

    class Days(RangeJob):
        over = DateTimeRange(
            "2024-03-29T23:00:00+00:00", "2024-04-02T22:00:00+00:00", align="day", tz=zone
        )
        leaf = Leaf(max_size=86_400_000_000)

        def __init__(self) -> None:
            self.hours: list[float] = []

        def process(self, leaf: LeafRange, context: Any) -> None:
            self.hours.append((leaf.hi - leaf.lo).total_seconds() / 3600)

    job = Days()
    assert run_of(job).run().status is RunStatus.COMPLETED
    assert sorted(job.hours) == [23, 24, 24, 24]


def test_bookkeeping_is_flat_in_memory_and_in_nodes() -> None:
    run = Nothing.in_memory(0, 100, max_range_size=1)
    run.run()
    assert run.statistics().leaves == 100
    assert len(run.nodes) == 2
    assert not run.history
