"""The runs to come as people see them: by the clock of the rule's zone, with what clock changes do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from jobs.models import Schedule
from jobs.schedules.editing import next_runs, rule_of
from jobs.timing import CronRule, Rule

_DAY = timedelta(days=1)


@dataclass(frozen=True, kw_only=True)
class Run:
    at: datetime
    """UTC."""
    local: datetime
    """The same moment in the rule's zone; UTC for an interval."""
    note: str
    """What a change of the clocks does to this run; empty for most."""

    @property
    def shown(self) -> str:
        """By the clock of the rule's zone: "Mon 2026-03-30 08:00:00 CEST"."""
        return f"{self.local:%a %Y-%m-%d %H:%M:%S %Z}"


def preview(schedule: Schedule, count: int = 5) -> list[Run]:
    """The next runs; of a disabled schedule those it would have if enabled now.

    Raises InvalidInput when the columns no longer make a rule.
    """
    return described(rule_of(schedule), next_runs(schedule, count))


def described(rule: Rule, slots: Sequence[datetime]) -> list[Run]:
    """Slots in their order, with notes about the clocks of the rule's zone."""
    if not isinstance(rule, CronRule):
        return [Run(at=slot, local=slot, note="") for slot in slots]
    runs: list[Run] = []
    for slot in slots:
        local = slot.astimezone(rule.zone)
        before = runs[-1].local if runs else None
        runs.append(Run(at=slot, local=local, note=_note(rule, local, before)))
    return runs


def _note(rule: CronRule, local: datetime, before: datetime | None) -> str:
    notes = []
    # After a long pause the clocks may have changed twice: that is not news for this run.
    if before is not None and local - before <= 8 * _DAY:
        notes.append(_changed(before, local))
    first, second = local.replace(fold=0), local.replace(fold=1)
    if first.utcoffset() != second.utcoffset():
        which = "second" if local.fold else "first"
        notes.append(f"this clock time comes twice that day; it runs at the {which}")
    elif not rule.shows(local):
        notes.append("its clock time is skipped that day; it runs right after the gap")
    return "; ".join(note for note in notes if note)


def _changed(before: datetime, local: datetime) -> str:
    old, new = before.utcoffset(), local.utcoffset()
    if old is None or new is None or old == new:
        return ""
    way = "forward" if new > old else "back"
    return f"the clocks have gone {way} by {_length(abs(new - old))} since the run before"


def _length(length: timedelta) -> str:
    minutes = round(length.total_seconds() / 60)
    hours, minutes = divmod(minutes, 60)
    return " ".join(
        part
        for part in (f"{hours} h" if hours else "", f"{minutes} min" if minutes else "")
        if part
    )
