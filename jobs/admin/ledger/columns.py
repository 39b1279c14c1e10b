"""Which columns a tab shows: those that say something about jobs in that state."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Column:
    name: str
    label: str
    is_number: bool = False


COLUMNS = {
    column.name: column
    for column in (
        Column(name="type", label="Type"),
        Column(name="state", label="State"),
        Column(name="queue", label="Queue"),
        Column(name="priority", label="Priority"),
        Column(name="attempts", label="Attempts", is_number=True),
        Column(name="next", label="Due"),
        Column(name="wait", label="Waited", is_number=True),
        Column(name="ran", label="Ran", is_number=True),
        Column(name="worker", label="Worker"),
        Column(name="error", label="Error"),
        Column(name="created", label="Created"),
        Column(name="ended", label="Ended"),
        Column(name="id", label="Id"),
    )
}
ALWAYS = ("type", "state")
"""Columns that cannot be taken away."""
PRIVATE = ("error",)

SHOWN = {
    "active": ("queue", "priority", "attempts", "next", "wait", "ran", "worker", "created", "id"),
    "ready": ("queue", "priority", "attempts", "wait", "created", "id"),
    "scheduled": ("queue", "priority", "next", "created", "id"),
    "retrying": ("queue", "priority", "attempts", "next", "error", "id"),
    "blocked": ("queue", "priority", "created", "id"),
    "held": ("queue", "priority", "attempts", "created", "id"),
    "running": ("queue", "priority", "attempts", "wait", "ran", "worker", "id"),
    "completed": ("queue", "attempts", "wait", "ran", "ended", "id"),
    "dead": ("queue", "attempts", "error", "ran", "ended", "id"),
    "cancelled": ("queue", "attempts", "created", "ended", "id"),
    "all": ("queue", "priority", "attempts", "wait", "ran", "error", "created", "id"),
}


def of_tab(tab: str, *, may_read: bool, hidden: frozenset[str] = frozenset()) -> list[Column]:
    """The columns in their order, without those that may not be seen or are not wanted."""
    wanted = {*ALWAYS, *SHOWN[tab]} - (hidden - {*ALWAYS})
    if not may_read:
        wanted -= {*PRIVATE}
    return [column for column in COLUMNS.values() if column.name in wanted]


def choices(tab: str, *, may_read: bool) -> list[Column]:
    """Those that can be taken away."""
    return [column for column in of_tab(tab, may_read=may_read) if column.name not in ALWAYS]


def to_choose(*, may_read: bool) -> list[Column]:
    """Those of any tab that can be taken away."""
    fixed = {*ALWAYS} if may_read else {*ALWAYS, *PRIVATE}
    return [column for column in COLUMNS.values() if column.name not in fixed]
