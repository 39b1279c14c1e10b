"""How far a clock is off, and when that is worth saying."""

from __future__ import annotations

import pytest

from jobs.skew import ClockSkew, measured


def test_the_true_skew_lies_within_the_uncertainty_wherever_in_the_round_trip_it_was_told() -> None:
    for off in (-600.0, 0.0, 3.5):
        for share in (0.0, 0.5, 1.0):
            found = measured(sent_at=1_000 + off, theirs=1_000 + share * 4, heard_at=1_004 + off)
            assert abs(found.seconds - off) <= found.uncertainty_seconds == 2


@pytest.mark.parametrize(
    ("seconds", "uncertainty", "is_telling"),
    [(2.5, 0.1, True), (-2.5, 0.1, True), (1.9, 0.0, False), (4.0, 2.5, False), (-4.0, 1.5, True)],
)
def test_only_what_is_certainly_more_than_two_seconds_is_worth_saying(
    seconds: float, uncertainty: float, *, is_telling: bool
) -> None:
    assert ClockSkew(seconds=seconds, uncertainty_seconds=uncertainty).is_telling is is_telling
