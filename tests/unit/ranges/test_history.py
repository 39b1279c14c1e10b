"""What is told of a run's past: intervals between the moments at which it noted how far it was."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest

from ranges.history import MOST, Point, of_points
from ranges.timings import bucket_of, seconds_of

START = datetime(2026, 5, 1, 12, tzinfo=UTC)
AT = START.timestamp()


def point(after: float, rows: int, active: float, **timings: int) -> Point:
    counted = {name.removeprefix("b"): count for name, count in timings.items()}
    return Point(AT + after, rows, active, counted)


def test_a_rate_is_what_was_done_between_two_moments() -> None:
    found = of_points([point(10, 100, 10), point(20, 400, 20)], started_at=START)
    assert found.times == [AT + 10, AT + 20]
    assert found.rows == [10.0, 30.0]


def test_how_long_leaves_took_is_told_of_each_interval_alone() -> None:
    slow, fast = bucket_of(8.0), bucket_of(0.01)
    points = [
        Point(AT + 10, 10, 10.0, {str(fast): 10}),
        Point(AT + 20, 20, 20.0, {str(fast): 10, str(slow): 10}),
    ]
    found = of_points(points, started_at=START)
    assert found.p50 == pytest.approx([seconds_of(fast), seconds_of(slow)], rel=1e-3)
    assert found.p95[1] == pytest.approx(seconds_of(slow), rel=1e-3)


def test_where_it_was_paused_the_line_is_broken() -> None:
    found = of_points([point(10, 100, 10), point(610, 200, 20)], started_at=START)
    assert found.rows == [10.0, None, 10.0]
    assert AT + 10 < found.times[1] < found.times[2] == AT + 610


def test_a_run_that_stopped_is_told_until_it_stopped_and_not_until_now() -> None:
    points = [point(10, 100, 10), point(90_000, 160, 16)]
    found = of_points(points, started_at=START, is_running=False)
    assert found.times == [AT + 10, AT + 16]
    assert found.rows == [10.0, 10.0]


def test_nothing_is_claimed_where_the_sums_became_less_or_were_not_noted() -> None:
    found = of_points(
        [point(10, 100, 10, b5=10), point(20, 40, 20, b5=4), Point(AT + 30, 50, 30.0, None)],
        started_at=START,
    )
    assert found.rows == [10.0, None, 1.0]
    assert found.p50[0] is not None
    assert found.p50[1:] == [None, None]


def test_a_long_run_is_told_in_as_many_intervals_as_can_be_drawn() -> None:
    points = [point(10 * n, 1_000 * n, 10 * n, b5=n) for n in range(1, 1_001)]
    found = of_points(points, started_at=START)
    assert MOST / 2 < len(found.times) <= MOST + 1
    assert all(rate == pytest.approx(100) for rate in found.rows)
    assert all(one < other for one, other in pairwise(found.times))


@pytest.mark.parametrize(
    ("points", "started_at"),
    [([], START), ([point(10, 5, 10)], None), ([point(0.2, 5, 0.2)], START)],
)
def test_too_little_is_nothing(points: list[Any], started_at: Any) -> None:
    found = of_points(points, started_at=started_at)
    assert (found.is_empty, found.times) == (True, [])


def test_the_table_has_the_newest_first() -> None:
    found = of_points([point(10 * n, 10 * n, 10 * n) for n in range(1, 6)], started_at=START)
    assert [at - AT for at, *_ in found.lines(3)] == [50, 40, 30]
    assert len(found.lines(40)) == 5
