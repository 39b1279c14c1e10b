"""The groups of dead letters that are biggest, with how many died in each hour of the last day."""

from __future__ import annotations

from dataclasses import dataclass

from jobs.admin.deadletters import reading
from jobs.deadletters import Group

MOST = 5


@dataclass(frozen=True, kw_only=True)
class Letters:
    groups: list[tuple[Group, list[int]]]
    """Each with its deaths by hour, this one last."""
    is_cut: bool
    """There are more groups."""


def letters() -> Letters:
    """As the page of dead letters shows them, read once for both. Raises TooBroad after 3 s."""
    found = reading.letters()
    is_cut = found.is_cut or len(found.groups) > MOST
    return Letters(groups=found.groups[:MOST], is_cut=is_cut)
