"""The order of due jobs: what a wait is worth, and what the schedulers rely on."""

from hypothesis import given
from hypothesis import strategies as st

from jobs.order import no_worse_before, order_key, score, steady_until

NOW = 1_760_000_000.0
MINUTE = 60.0

priorities = st.integers(min_value=1, max_value=5)
waits = st.one_of(
    st.floats(min_value=-3600, max_value=7 * 86400),
    st.integers(min_value=-4, max_value=40).map(lambda steps: steps * 150.0),
)
agings = st.sampled_from([0.0, 0.25, 2.5, 10.0, 60.0])
aging_steps = st.sampled_from([0.0, 0.1, 0.5, 1.0, 7.0])
ids = st.sampled_from(["a", "b", "c"])


def test_a_low_job_that_waited_forty_minutes_equals_a_fresh_high_one() -> None:
    assert score(3, 40 * MINUTE) == score(1, 0) == 1.0


def test_a_low_job_gains_half_a_step_each_ten_minutes_and_not_a_second_earlier() -> None:
    gains = [score(3, minutes * MINUTE) for minutes in (0, 9.99, 10, 19.99, 20, 30)]

    assert gains == [3.0, 3.0, 2.5, 2.5, 2.0, 1.5]


def test_between_equal_scores_the_job_due_first_runs_first() -> None:
    aged = order_key(3, NOW - 40 * MINUTE, "z", NOW)
    fresh = order_key(1, NOW, "a", NOW)

    assert aged < fresh


def test_between_jobs_due_together_the_lesser_id_runs_first() -> None:
    assert order_key(2, NOW, "a", NOW) < order_key(2, NOW, "b", NOW)


@given(priorities, waits, aging_steps)
def test_without_aging_minutes_priority_is_strict(
    priority: int, waited_seconds: float, step: float
) -> None:
    assert score(priority, waited_seconds, 0, step) == priority


@given(priorities, st.floats(min_value=-1e6, max_value=0))
def test_a_job_that_is_not_due_has_waited_for_nothing(priority: int, waited: float) -> None:
    assert score(priority, waited) == priority


@given(priorities, waits, waits, agings, aging_steps)
def test_a_score_never_rises_with_waiting_and_stays_between_zero_and_the_priority(
    priority: int, one_wait: float, other_wait: float, minutes: float, step: float
) -> None:
    shorter, longer = sorted([one_wait, other_wait])

    assert (
        0
        <= score(priority, longer, minutes, step)
        <= score(priority, shorter, minutes, step)
        <= priority
    )


@given(priorities, st.lists(st.tuples(waits, ids), min_size=2), agings, aging_steps, waits)
def test_within_one_priority_the_older_job_comes_first_at_every_moment(
    priority: int, jobs: list[tuple[float, str]], minutes: float, step: float, later: float
) -> None:
    by_age = sorted((NOW - wait, job_id) for wait, job_id in jobs)
    keys = [
        order_key(priority, due_at, job_id, NOW + later, aging_minutes=minutes, aging_step=step)
        for due_at, job_id in by_age
    ]

    assert keys == sorted(keys)


@given(priorities, waits, agings, aging_steps, st.floats(min_value=0, max_value=1))
def test_a_score_is_steady_until_the_moment_said(
    priority: int, waited: float, minutes: float, step: float, part: float
) -> None:
    due_at = NOW - waited
    until = min(steady_until(priority, due_at, NOW, minutes, step), NOW + 86400)
    moment = NOW + (until - NOW) * part

    if NOW <= moment < until:
        before = score(priority, NOW - due_at, minutes, step)
        assert score(priority, moment - due_at, minutes, step) == before


@given(priorities, st.tuples(waits, waits), agings, aging_steps, st.floats(0, 86400))
def test_jobs_due_before_the_bound_score_no_worse(
    priority: int, two_waits: tuple[float, float], minutes: float, step: float, later: float
) -> None:
    due_at, other_due_at = (NOW - wait for wait in two_waits)

    if other_due_at < no_worse_before(priority, due_at, NOW, minutes, step):
        assert score(priority, NOW + later - other_due_at, minutes, step) <= score(
            priority, NOW - due_at, minutes, step
        )
