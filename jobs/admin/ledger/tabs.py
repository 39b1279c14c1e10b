"""The tabs above the list: one for each state, and what belongs together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jobs.states import State, Status


@dataclass(frozen=True, kw_only=True)
class Tab:
    name: str
    label: str
    asks: tuple[Mapping[str, Any], ...]
    """The filters of each list that the tab shows together, newest first."""
    states: tuple[State, ...] = ()
    """For the live feed; none: all."""
    is_finished: bool = False

    @property
    def is_dead(self) -> bool:
        return self.name == State.DEAD


def _of(state: State, **more: Any) -> Tab:
    label = str(state.value).capitalize()
    return Tab(name=state.value, label=label, asks=({"state": state},), states=(state,), **more)


WAITING = (State.READY, State.SCHEDULED, State.RETRYING, State.BLOCKED, State.HELD)
ACTIVE = Tab(
    name="active",
    label="Active",
    asks=({"status": Status.PENDING}, {"status": Status.PROCESSING}),
    states=(*WAITING, State.RUNNING, State.CANCELLING),
)
ALL = Tab(name="all", label="All", asks=({},))
TABS = {
    tab.name: tab
    for tab in (
        ACTIVE,
        *(_of(state) for state in WAITING),
        Tab(
            name="running",
            label="Running",
            asks=({"status": Status.PROCESSING},),
            states=(State.RUNNING, State.CANCELLING),
        ),
        _of(State.COMPLETED, is_finished=True),
        _of(State.DEAD),
        _of(State.CANCELLED, is_finished=True),
        ALL,
    )
}
OF_STATUS = {
    Status.PENDING: "active",
    Status.PROCESSING: "running",
    Status.COMPLETED: "completed",
    Status.FAILED: "dead",
    Status.CANCELLED: "cancelled",
}
