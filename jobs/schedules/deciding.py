"""What becomes of the due slots of one schedule. Pure: the row and the moment in, a plan out.

1. The rule says which slots are due, the misfire policy which of those are late and dropped.
2. Without `allow_overlap`, a slot that is due while the job of the slot before is live (pending or
   processing, so also between two attempts) is dropped as well. Of several slots due at once only
   the first fires, since the second would find it live.
3. With misfire `each` nothing is ever dropped: without `allow_overlap` the slots wait for their
   turn, and run one after the other.
4. A dropped slot counts as missed. Whatever happened to its job, a slot is decided about once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from jobs.misfires import Misfire, due_slots
from jobs.timing import Rule, rule_from_columns

AT_ONCE = 100
"""The most jobs that one schedule makes in one transaction; the rest follows in the next."""
LOOK_AGAIN = timedelta(minutes=5)
"""When a schedule is tried again whose rule cannot tell the next slot."""

_INSTANT = timedelta(microseconds=1)


@dataclass(frozen=True, kw_only=True)
class Due:
    """A locked schedule with a slot that has come."""

    id: str
    name: str
    type: str
    queue: str
    interval_seconds: int | None
    anchor_at: datetime
    cron: str
    time_zone: str
    misfire: str
    allow_overlap: bool
    next_slot: datetime
    last_job_id: str | None

    @property
    def rule(self) -> Rule:
        """Raises InvalidInput when the columns no longer make a rule."""
        return rule_from_columns(
            interval_seconds=self.interval_seconds,
            anchor_at=self.anchor_at,
            cron=self.cron,
            time_zone=self.time_zone,
        )


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Which slots to make jobs for, oldest first, and where the schedule stands afterwards."""

    next_slot: datetime
    fire: list[datetime] = field(default_factory=list)
    late: int = 0
    overlapped: int = 0
    refused: int = 0
    error: str = ""

    @property
    def missed(self) -> int:
        return self.late + self.overlapped + self.refused


def decide(due: Due, *, now: datetime, is_live: bool) -> Plan:
    """The plan for the slots due by now. Raises InvalidInput when the rule is bad."""
    misfire = Misfire(due.misfire)
    slots = due_slots(due.rule, due.next_slot - _INSTANT, now, misfire, AT_ONCE)
    if due.allow_overlap:
        return Plan(fire=slots.fire, late=slots.missed, next_slot=slots.next_slot)
    if misfire is Misfire.EACH:
        if is_live:
            return Plan(next_slot=due.next_slot)
        following = [*slots.fire[1:], slots.next_slot]
        return Plan(fire=slots.fire[:1], next_slot=following[0])
    fire = [] if is_live else slots.fire[:1]
    return Plan(
        fire=fire,
        late=slots.missed,
        overlapped=len(slots.fire) - len(fire),
        next_slot=slots.next_slot,
    )


def refuse(due: Due, error: str, *, now: datetime) -> Plan:
    """The plan for a schedule that cannot fire now: its due slots are missed, and it goes on."""
    try:
        rule = due.rule
        missed = rule.count_between(due.next_slot - _INSTANT, now)
        return Plan(refused=missed, error=error, next_slot=rule.next_after(now))
    except ValueError:
        return Plan(error=error, next_slot=now + LOOK_AGAIN)


def first_slot(rule: Rule, *, anchor: datetime, after: datetime) -> datetime:
    """The first slot after a moment; none lies before the anchor, but it may be the anchor."""
    return rule.next_after(anchor - _INSTANT if anchor > after else after)
