"""What the audit says of actions on schedules, and what open pages are told of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from jobs import events
from jobs.audit import record
from jobs.models import Schedule

QUOTED = (
    "name",
    "type",
    "queue",
    "priority",
    "max_attempts",
    "on_parent_failure",
    "misfire",
    "allow_overlap",
    "recur_interval",
    "cron",
    "time_zone",
    "anchor_at",
)
NAMED = frozenset({"payload", "metadata"})
"""Of these it says only that they were changed."""


def facts(schedule: Schedule) -> dict[str, Any]:
    return {name: getattr(schedule, name) for name in QUOTED}


def audit(action: str, schedule: Schedule, by: str, **data: Any) -> None:
    record(
        action,
        actor=by,
        scope=f"schedule {schedule.name}",
        object_id=str(schedule.id),
        changed=1,
        data=data,
    )
    told: dict[str, Any] = {"schedule_id": str(schedule.id), "schedule": schedule.name}
    what = action.removeprefix("schedule.")
    events.emit_on_commit("schedule.changed", by=by, what=what, **told)


def audit_change(
    schedule: Schedule, before: Mapping[str, Any], asked: Iterable[str], by: str
) -> None:
    """What differs now from the facts of before."""
    after = facts(schedule)
    differing = [name for name in QUOTED if before[name] != after[name]]
    audit(
        "schedule.change",
        schedule,
        by,
        fields=sorted({*differing, *(NAMED & set(asked))}),
        before={name: before[name] for name in differing},
        after={name: after[name] for name in differing},
    )
