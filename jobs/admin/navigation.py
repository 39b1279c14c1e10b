"""Entries of the navigation that belong to no model's list of ours."""

from __future__ import annotations

from typing import Any

from jobs.console.navigation import MANAGE, Badge, Entry, add
from jobs.console.words import brief


def dead(sample: dict[str, Any]) -> Badge | None:
    found = sample.get("jobs", {})
    count = found.get("dlq", 0)
    if not count:
        return None
    about = "about " if "dlq" in found["estimated"] else ""
    letters = "letter" if count == 1 else "letters"
    return Badge(
        text=f"{'≈' if about else ''}{brief(count)}",
        tone="bad",
        title=f"{about}{count:,} dead {letters}",
    )


add(Entry(label="Overview", order=10, url="admin:index", icon="overview", key="o"))
add(
    Entry(
        label="Dead letters",
        order=30,
        url="admin:jobs_job_dead",
        icon="dead",
        key="d",
        badge=dead,
        live="dead",
        tone="bad",
    )
)
add(
    Entry(
        label="Users",
        section=MANAGE,
        order=910,
        url="admin:auth_user_changelist",
        needs="auth.view_user",
        icon="person",
        models=("auth.user",),
    )
)
add(
    Entry(
        label="Groups",
        section=MANAGE,
        order=920,
        url="admin:auth_group_changelist",
        needs="auth.view_group",
        icon="people",
        models=("auth.group",),
    )
)
