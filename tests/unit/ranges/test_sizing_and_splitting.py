from __future__ import annotations

import math
import os
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ranges import Leaf, RetryPolicy
from ranges.axes import IntAxis
from ranges.retrying import crossed, is_transient, most_open_bisects
from ranges.sizing import LeafSizer, least_size
from ranges.sources import PlainSource
from ranges.splitting import (
    Victim,
    cool_down_seconds,
    halve,
    pieces,
    start_pieces,
    strand_count,
    whom_to_steal_from,
)

EXAMPLES = int(os.environ.get("COPPICE_PROPERTY_EXAMPLES", "300"))


# Sizing


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.floats(1e-6, 1e-2), st.floats(0.1, 10))
def test_an_adaptive_leaf_finds_its_target_time(seconds_per_row: float, target: float) -> None:
    sizer = LeafSizer(Leaf(target_seconds=target, rows=(1, 10**9)))
    for _ in range(40):
        sizer.observe(sizer.size(), sizer.size() * seconds_per_row)
    assert sizer.size() * seconds_per_row == pytest.approx(target, rel=0.1, abs=seconds_per_row)


def test_within_five_leaves_a_jump_in_cost_is_half_followed() -> None:
    sizer = LeafSizer(Leaf(target_seconds=1, rows=(1, 10**6)), seconds_per_item=0.001)
    for _ in range(20):
        sizer.observe(sizer.size(), sizer.size() * 0.001)
    seconds = []
    for _ in range(10):
        seconds.append(sizer.size() * 0.05)
        sizer.observe(sizer.size(), seconds[-1])
    assert seconds[0] > 10
    assert all(each < 2 for each in seconds[6:])


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    st.integers(1, 100),
    st.integers(0, 1000),
    st.lists(st.tuples(st.integers(0, 10**6), st.floats(0, 1e5)), max_size=50),
)
def test_a_size_keeps_to_its_bounds_whatever_happens(
    low: int, more: int, leaves: list[tuple[int, float]]
) -> None:
    sizer = LeafSizer(Leaf(target_seconds=1, rows=(low, low + more)))
    for items, seconds in leaves:
        assert low <= sizer.size() <= low + more
        sizer.observe(items, seconds)


def test_a_fixed_size_is_halved_by_a_lock_and_grows_again() -> None:
    sizer = LeafSizer(Leaf(max_size=100))
    sizer.halve()
    assert sizer.size() == 50
    for _ in range(3):
        sizer.observe(sizer.size(), 1)
    assert sizer.size() == 100
    for _ in range(20):
        sizer.halve()
    assert sizer.size() == 1


def test_a_largest_depth_gives_a_smallest_leaf() -> None:
    assert least_size(1000, None) == 1
    assert least_size(1000, 3) == 125
    assert least_size(1001, 3) == 126
    assert LeafSizer(Leaf(max_size=10), least=126).size() == 126


# Splitting


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    st.integers(-(2**80), 2**80), st.integers(1, 2**70), st.integers(1, 64), st.integers(1, 2**66)
)
def test_a_run_starts_with_at_most_twice_as_many_strands_as_lanes(
    lo: int, width: int, lanes: int, size: int
) -> None:
    source = PlainSource(IntAxis(), lo, lo + width)
    found = start_pieces(source, lo, lo + width, concurrency=lanes, leaf_size=size)
    assert len(found) == min(strand_count(concurrency=lanes, leaves=-(-width // size)), width)
    assert found[0][0] == lo
    assert found[-1][1] == lo + width
    assert all(a[1] == b[0] for a, b in pairwise(found))
    assert all(a < b for a, b in found)  # type: ignore[operator]


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.lists(st.integers(-5, 25)))
def test_cuts_that_are_no_cuts_are_left_out(cuts: list[int]) -> None:
    found = pieces(0, 20, cuts)
    assert found[0][0] == 0
    assert found[-1][1] == 20
    assert all(a[1] == b[0] for a, b in pairwise(found))
    assert all(lo < hi for lo, hi in found)  # type: ignore[operator]


def test_one_key_cannot_be_halved() -> None:
    source = PlainSource(IntAxis(), 0, 10)
    assert halve(source, 3, 4) is None
    assert halve(source, -2, 0) == -1


def victim(id: int, **options: Any) -> Victim:
    known = {"left": 100, "leaf_size": 10, "seconds_per_item": 1.0, "commits": 1, **options}
    return Victim(id=id, **known)


def test_the_strand_with_most_seconds_left_is_stolen_from() -> None:
    slow = victim(1, left=50, seconds_per_item=10.0)
    found = whom_to_steal_from([slow, victim(2, left=400)], now=0, least_seconds=2)
    assert found is slow


@pytest.mark.parametrize(
    "spared",
    [
        {"commits": 0},
        {"left": 19},
        {"seconds_per_item": 0.01},
        {"cool_until": 5.0, "seconds_per_item": 0.05},
    ],
)
def test_a_strand_is_spared(spared: dict[str, Any]) -> None:
    assert whom_to_steal_from([victim(1, **spared)], now=0, least_seconds=2) is None


def test_an_unknown_rate_is_judged_by_size_and_a_long_strand_does_not_cool() -> None:
    unknown = victim(1, seconds_per_item=None, left=500)
    assert whom_to_steal_from([unknown, victim(2)], now=0, least_seconds=2) is unknown
    hot = victim(3, cool_until=9.0)
    assert whom_to_steal_from([hot], now=0, least_seconds=2) is hot
    assert [cool_down_seconds(n) for n in (1, 2, 3, 99)] == [1, 2, 4, 30]


# Retrying


def test_a_backoff_function_that_fails_gives_the_default_wait() -> None:
    def broken(attempt: int) -> float:
        raise RuntimeError

    for backoff in (broken, lambda attempt: -1, lambda attempt: math.nan, lambda attempt: "x"):
        policy = RetryPolicy(backoff=backoff)  # type: ignore[arg-type]
        assert policy.wait_seconds(1, lambda: 0.5) == 1.0
    assert RetryPolicy(backoff=lambda attempt: 10**9).wait_seconds(1, lambda: 0.5) == 86_400


def test_errors_that_pass_are_known_through_their_causes() -> None:
    class Deadlock(Exception):
        sqlstate = "40P01"

    class NotUnique(Exception):
        sqlstate = "23505"

    wrapped = RuntimeError()
    wrapped.__cause__ = Deadlock()
    assert is_transient(wrapped)
    assert is_transient(ConnectionResetError())
    assert is_transient(TimeoutError())
    assert not is_transient(NotUnique())
    assert not is_transient(ValueError())
    assert RetryPolicy(transient=(ValueError,)).is_transient(ValueError())


@pytest.mark.parametrize(
    ("failed", "attempted", "threshold", "stops"),
    [
        (1, 1, 0, True),
        (0, 1000, 0, False),
        (99, 99, 5, False),
        (5, 100, 5, False),
        (6, 100, 5, True),
        (1000, 1000, None, False),
        (1000, 1000, 100, False),
    ],
)
def test_a_threshold_is_crossed_by_more_than_its_share(
    failed: int, attempted: int, threshold: float | None, stops: bool
) -> None:
    assert crossed(failed=failed, attempted=attempted, threshold=threshold) is stops


def test_open_bisects_are_bounded() -> None:
    assert most_open_bisects(1) == 8
    assert most_open_bisects(64) == 128


def test_the_tail_of_a_range_wider_than_any_float_can_be_stolen() -> None:
    vast = victim(2, left=10**400)
    assert whom_to_steal_from([victim(1), vast], now=0, least_seconds=2) is vast
