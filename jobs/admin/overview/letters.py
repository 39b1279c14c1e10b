"""The groups of dead letters that are biggest, with how many died in each hour of the last day."""

from __future__ import annotations

from dataclasses import dataclass

from jobs import deadletters
from jobs.console.kept import kept
from jobs.database import DjangoDatabase
from jobs.deadletters import Group

NAME = "letters"
FRESH_SECONDS = 2.0
MOST = 5


@dataclass(frozen=True, kw_only=True)
class Letters:
    groups: list[tuple[Group, list[int]]]
    """Each with its deaths by hour, this one last."""
    is_cut: bool
    """There are more groups."""


def letters() -> Letters:
    """Raises TooBroad after 3 s."""
    return kept(NAME, FRESH_SECONDS, _read)


def _read() -> Letters:
    database = DjangoDatabase()
    found = deadletters.groups(database, limit=MOST)
    trends = deadletters.trends(database, [group.key for group in found.groups])
    return Letters(
        groups=[
            (group, [hour.count for hour in trends.get(group.key, [])]) for group in found.groups
        ],
        is_cut=found.is_cut,
    )
