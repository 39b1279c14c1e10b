"""Schedules as the pages show them: the rule in words, the runs to come and the last ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from jobs import conf, schedules
from jobs.database import DjangoDatabase
from jobs.errors import InvalidInput
from jobs.models import Schedule
from jobs.schedules import Run
from jobs.schedules.previewing import described
from jobs.states import Status

RUNS = 20
NEXT = 3

# The unique index on (schedule, slot) is in this order: so many rows of it per schedule, however
# many jobs a schedule has made. Jobs that were run by hand have no slot, and are not in the strip.
LAST = """
SELECT s.id::text, j.id::text, j.status, j.schedule_slot, j.attempt_count,
    extract(epoch FROM j.completed_at - j.started_at)::float8,
    coalesce(j.completed_at, j.failed_at, j.cancelled_at)
FROM unnest(%(ids)s::uuid[]) AS s (id)
CROSS JOIN LATERAL (
    SELECT * FROM jobs_job
    WHERE schedule_id = s.id AND schedule_slot IS NOT NULL
    ORDER BY schedule_slot DESC LIMIT %(limit)s
) j
ORDER BY s.id, j.schedule_slot DESC
"""

STATES = {Status.PROCESSING.value: "running", Status.FAILED.value: "dead"}
"""Statuses in the console's words, where they differ."""


@dataclass(frozen=True, kw_only=True)
class Slot:
    """The job of one slot."""

    job_id: str
    status: str
    at: datetime
    attempts: int
    seconds: float | None
    """How long it ran, if it completed."""
    ended_at: datetime | None

    @property
    def state(self) -> str:
        return STATES.get(self.status, self.status)


@dataclass(frozen=True, kw_only=True)
class Shown:
    schedule: Schedule
    rule: str
    problem: str
    """Why the rule cannot tell the next slot; mostly empty."""
    next: list[Run]
    last: list[Slot] = field(default_factory=list)
    """The newest first."""

    @property
    def strip(self) -> list[Slot]:
        return self.last[::-1]

    @property
    def success(self) -> int | None:
        """Percent of those of the strip that have ended; cancelled ones are left out."""
        done = [slot.status for slot in self.last if slot.status in ("completed", "failed")]
        return round(100 * done.count("completed") / len(done)) if done else None

    @property
    def mean(self) -> float | None:
        found = [slot.seconds for slot in self.last if slot.seconds is not None]
        return sum(found) / len(found) if found else None

    @property
    def strip_text(self) -> str:
        counts: dict[str, int] = {}
        for slot in self.last:
            counts[slot.state] = counts.get(slot.state, 0) + 1
        return ", ".join(f"{number} {state}" for state, number in counts.items())


def shown(rows: Sequence[Schedule], *, count: int = NEXT) -> list[Shown]:
    """With their last runs, read for all of them at once."""
    last: dict[str, list[Slot]] = {}
    params = {"ids": [str(row.id) for row in rows], "limit": RUNS}
    for row in DjangoDatabase().rows(LAST, params) if rows else []:
        last.setdefault(row[0], []).append(_slot(row))
    return [_shown(row, last.get(str(row.id), []), count) for row in rows]


def page(*, after: str, name: str, which: str, size: int) -> tuple[list[Schedule], bool]:
    """By name, and whether more follow. Without what is heavy."""
    rows = Schedule.objects.using(conf.get().database).defer("payload", "metadata")
    if name:
        rows = rows.filter(name__icontains=name)
    if which:
        rows = rows.filter(enabled=which == "on")
    if after:
        rows = rows.filter(name__gt=after)
    found = list(rows.order_by("name")[: size + 1])
    return found[:size], len(found) > size


def _shown(schedule: Schedule, last: list[Slot], count: int) -> Shown:
    try:
        rule = schedules.rule_of(schedule)
        first = schedule.next_slot.astimezone(UTC) if schedule.next_slot else None
        slots = [first, *rule.upcoming(first, count - 1)] if first else []
        runs = described(rule, slots)
    except InvalidInput as error:
        return Shown(schedule=schedule, rule="", problem=str(error), next=[], last=last)
    return Shown(schedule=schedule, rule=rule.describe(), problem="", next=runs, last=last)


def _slot(row: tuple[Any, ...]) -> Slot:
    return Slot(
        job_id=row[1],
        status=row[2],
        at=row[3],
        attempts=row[4],
        seconds=row[5],
        ended_at=row[6],
    )
