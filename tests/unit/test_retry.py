from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from jobs.errors import InvalidInput
from jobs.retry import Backoff, backoff_seconds

attempts = st.integers(-(10**6), 10**6) | st.integers()
chances = st.floats(0, 1)
backoffs = st.builds(
    Backoff,
    base=st.floats(0, 10_000),
    factor=st.floats(1, 1000),
    step=st.floats(0, 10_000),
    cap=st.floats(0, 100_000),
    jitter=st.floats(0, 1),
)


def middle() -> float:
    return 0.5


@pytest.mark.parametrize(
    ("attempt", "seconds"), [(1, 1), (2, 5), (3, 25), (4, 125), (5, 625), (6, 3125), (7, 3600)]
)
def test_the_default_waits_are_powers_of_five_up_to_an_hour(attempt: int, seconds: float) -> None:
    assert backoff_seconds(attempt, random=middle) == pytest.approx(seconds)


@settings(deadline=None)
@given(attempts, chances)
@example(10**400, 1.0)
@example(-(10**400), 0.0)
def test_the_default_is_within_a_fifth_of_the_nominal_wait_and_at_most_an_hour(
    attempt: int, chance: float
) -> None:
    nominal = Backoff().nominal_seconds(attempt)
    wait = backoff_seconds(attempt, random=lambda: chance)
    assert nominal * 0.8 - 1e-9 <= wait <= min(nominal * 1.2 + 1e-9, 3600)


@settings(deadline=None)
@given(backoffs, attempts, chances)
@example(Backoff(factor=1.0), 10**400, 1.0)
@example(Backoff(factor=5), 10**400, 1.0)
@example(Backoff(base=0.0, factor=10.0), 10**400, 1.0)
@example(Backoff(base=0.0, factor=10.0, step=1.0, cap=1e9), 1000, 0.5)
def test_every_wait_is_in_its_band_and_never_above_the_cap(
    backoff: Backoff, attempt: int, chance: float
) -> None:
    nominal = backoff.nominal_seconds(attempt)
    wait = backoff.seconds(attempt, lambda: chance)
    assert math.isfinite(wait)
    assert 0 <= wait <= backoff.cap
    slack = 1e-9 * max(nominal, 1)
    assert nominal * (1 - backoff.jitter) - slack <= wait <= nominal * (1 + backoff.jitter) + slack


@settings(deadline=None)
@given(backoffs, attempts, st.integers(0, 10**6))
def test_the_nominal_wait_never_shrinks_as_attempts_grow(
    backoff: Backoff, attempt: int, more: int
) -> None:
    assert backoff.nominal_seconds(attempt) <= backoff.nominal_seconds(attempt + more)


@settings(deadline=None)
@given(st.floats(0, 3600), st.integers(1, 10**9), chances)
def test_a_fixed_wait_is_always_the_same(seconds: float, attempt: int, chance: float) -> None:
    assert Backoff.fixed(seconds).seconds(attempt, lambda: chance) == pytest.approx(seconds)


def test_a_linear_wait_grows_by_itself() -> None:
    backoff = Backoff.linear(timedelta(seconds=10), jitter=0)
    assert [backoff.seconds(n, middle) for n in (1, 2, 3)] == [10, 20, 30]
    assert backoff.seconds(10**100, middle) == 3600


def test_an_exponential_wait_grows_by_its_factor() -> None:
    backoff = Backoff.exponential(2, factor=3, cap=timedelta(minutes=1), jitter=0)
    assert [backoff.seconds(n, middle) for n in (1, 2, 3, 4, 5)] == [2, 6, 18, 54, 60]


def test_a_first_wait_longer_than_the_usual_cap_is_kept() -> None:
    assert Backoff.fixed(timedelta(days=1)).seconds(9, middle) == 86_400


def test_a_power_beyond_floats_that_nothing_is_multiplied_by_is_not_the_cap() -> None:
    assert Backoff(base=0.0, factor=10.0, step=1.0, cap=1e9).nominal_seconds(1001) == 1000


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"base": -1}, "backoff.base"),
        ({"base": math.nan}, "backoff.base"),
        ({"cap": math.inf}, "backoff.cap"),
        ({"step": "1"}, "backoff.step"),
        ({"factor": 0.5}, "backoff.factor"),
        ({"factor": math.inf}, "backoff.factor"),
        ({"factor": 10**400}, "backoff.factor"),
        ({"factor": True}, "backoff.factor"),
        ({"jitter": 1.1}, "backoff.jitter"),
        ({"jitter": None}, "backoff.jitter"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Backoff(**options)
    assert refused.value.field == field
