"""Missed slots: which of those that are due are fired, and which are dropped.

Pure: "now" is handed in.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import assert_never

from jobs.errors import InvalidInput
from jobs.moments import INSTANT, as_utc
from jobs.timing import Rule


class Misfire(StrEnum):
    """What to do about slots that passed while nobody looked."""

    SKIP = "skip"  # drop those later than the grace
    ONCE = "once"  # make up for all of them with one run, the latest
    EACH = "each"  # run every one of them


@dataclass(frozen=True, kw_only=True)
class DueSlots:
    """What to fire now, oldest first; `next_slot` is the next one to decide about.

    `missed` slots were dropped for good. Handing in `decided_until` as the next `last_slot` makes
    sure that every slot is fired or counted as missed, and only once.
    """

    fire: list[datetime]
    missed: int
    next_slot: datetime
    decided_until: datetime


def due_slots(
    rule: Rule,
    last_slot: datetime,
    now: datetime,
    misfire: Misfire,
    limit: int,
    *,
    grace_seconds: float = 5.0,
) -> DueSlots:
    """Decide about the slots after `last_slot` that are due by now.

    While no due slot is later than the grace, nothing was missed and each of them fires. If the
    oldest is later, `skip` drops those that are, `once` fires the latest due slot alone, `each`
    fires them all.
    At most `limit` slots fire in one call. The rest is not lost: `next_slot` is then already due,
    and the next call goes on from there.
    """
    if limit < 1:
        raise InvalidInput("must be 1 or more", field="limit")
    last_slot, now = as_utc(last_slot), as_utc(now)
    start = _first_to_fire(rule, last_slot, now, misfire, timedelta(seconds=grace_seconds))
    missed = rule.count_between(last_slot, start)
    due = rule.slots_between(start, now, limit + 1)
    if len(due) > limit:
        fire, next_slot = due[:limit], due[limit]
        return DueSlots(fire=fire, missed=missed, next_slot=next_slot, decided_until=fire[-1])
    decided = max(last_slot, now)
    next_slot = rule.next_after(decided)
    return DueSlots(fire=due, missed=missed, next_slot=next_slot, decided_until=decided)


def _first_to_fire(
    rule: Rule,
    last_slot: datetime,
    now: datetime,
    misfire: Misfire,
    grace: timedelta,
) -> datetime:
    """The moment after which due slots are fired; those up to it are missed."""
    in_time = max(last_slot, now - grace - INSTANT)
    match misfire:
        case Misfire.EACH:
            return last_slot
        case Misfire.SKIP:
            return in_time
        case Misfire.ONCE:
            if not rule.slots_between(last_slot, min(in_time, now), 1):
                return last_slot
            latest = rule.latest_between(last_slot, now)
            return last_slot if latest is None else latest - INSTANT
        case _:
            assert_never(misfire)
