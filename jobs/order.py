"""The one order in which due jobs run: ``(score, due_at, id)``, the lowest first.

The score is the priority, lessened by waiting: a low job that has waited long enough equals a
fresh high one, so nothing starves. Waiting counts from ``due_at``. Times are epoch seconds of the
database's clock, given by the caller; nothing here reads a clock.

What the schedulers build on, all of it tested:

1. A score never rises while time moves on, and never falls below zero.
2. Among jobs of one priority the one that is older by ``(due_at, id)`` comes first at every moment.
3. A score changes only where the waiting time passes a multiple of ``aging_minutes``.
"""

from math import ceil, floor, inf

AGING_MINUTES = 10.0
AGING_STEP = 0.5

# A moment computed from whole steps may be off by the rounding of epoch seconds (below a
# microsecond). The two bounds below err to the safe side by this much.
ROUNDING_SECONDS = 0.001


def score(
    priority: int,
    waited_seconds: float,
    aging_minutes: float = AGING_MINUTES,
    aging_step: float = AGING_STEP,
) -> float:
    """The effective priority after a wait; lower is more urgent, zero the most.

    ``aging_minutes`` 0 means strict priority. A job that is not due yet has waited for nothing.
    """
    return max(0.0, priority - _steps(waited_seconds, aging_minutes) * aging_step)


def order_key(
    priority: int,
    due_at: float,
    job_id: str,
    now: float,
    *,
    aging_minutes: float = AGING_MINUTES,
    aging_step: float = AGING_STEP,
) -> tuple[float, float, str]:
    """The place of a job at the moment ``now``."""
    return score(priority, now - due_at, aging_minutes, aging_step), due_at, job_id


def steady_until(
    priority: int, due_at: float, now: float, aging_minutes: float, aging_step: float
) -> float:
    """A moment before which, counted from ``now``, the score of this job surely stays as it is."""
    waited_seconds = now - due_at
    if not aging_minutes or score(priority, waited_seconds, aging_minutes, aging_step) == 0:
        return inf
    next_step = _steps(waited_seconds, aging_minutes) + 1
    return due_at + next_step * aging_minutes * 60 - ROUNDING_SECONDS


def no_worse_before(
    priority: int, due_at: float, now: float, aging_minutes: float, aging_step: float
) -> float:
    """A time: jobs of this priority due before it score no worse than this one, from ``now`` on."""
    steps = _steps(now - due_at, aging_minutes)
    if aging_step:
        steps = min(steps, ceil(priority / aging_step) + 1)
    if steps <= 0:
        return inf
    return now - steps * aging_minutes * 60 - ROUNDING_SECONDS


def _steps(waited_seconds: float, aging_minutes: float) -> int:
    if not aging_minutes or waited_seconds <= 0:
        return 0
    return floor(waited_seconds / (aging_minutes * 60))
