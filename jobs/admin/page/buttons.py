"""What may be done to a job: by this person, in this state. What may not is not shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jobs import permissions, registry
from jobs.models import Job
from jobs.states import TERMINAL, State

WAITING = (State.READY, State.SCHEDULED, State.RETRYING, State.BLOCKED, State.HELD)


@dataclass(frozen=True, kw_only=True)
class Button:
    name: str
    label: str
    needs: tuple[str, ...]
    states: tuple[State, ...]
    confirm: str = ""
    """What the second step asks; empty: one step."""
    has_page: bool = False
    """The second step is a page of its own, also with script."""
    is_main: bool = False
    is_bad: bool = False


BUTTONS = (
    Button(
        name="retry",
        label="Retry now",
        needs=(permissions.RETRY,),
        states=(State.DEAD,),
        is_main=True,
    ),
    Button(
        name="run_now",
        label="Run now",
        needs=(permissions.EDIT,),
        states=(State.SCHEDULED, State.RETRYING),
        is_main=True,
    ),
    Button(
        name="release",
        label="Release",
        needs=(permissions.EDIT,),
        states=(State.HELD,),
        is_main=True,
    ),
    Button(
        name="cancel",
        label="Cancel job",
        needs=(permissions.CANCEL,),
        states=(*WAITING, State.RUNNING),
        confirm="Cancel this job for good?",
        is_bad=True,
    ),
    Button(
        name="mark_lost",
        label="Force: mark lost…",
        needs=(permissions.CANCEL,),
        states=(State.RUNNING, State.CANCELLING),
        confirm="Take it away from its worker?",
        has_page=True,
        is_bad=True,
    ),
    Button(
        name="copy",
        label="Retry as new copy",
        needs=(permissions.CREATE,),
        states=(State.DEAD, State.COMPLETED, State.CANCELLED),
        confirm="Make a new job with this payload?",
    ),
    Button(
        name="purge",
        label="Purge",
        needs=(permissions.PURGE,),
        states=(State.DEAD,),
        confirm="Delete it with attempts and log?",
        is_bad=True,
    ),
)

BY_NAME = {button.name: button for button in BUTTONS}


@dataclass(frozen=True, kw_only=True)
class Offered:
    buttons: list[Button]
    may_edit_payload: bool
    may_change: bool


def offered(
    job: Job, state: State, has_perm: Callable[[str], bool], *, may_force: bool = False
) -> Offered:
    """`may_force`: it was asked to stop long enough ago, or its worker shows no sign of life."""

    def may(button: Button) -> bool:
        if button.name == "copy" and registry.is_internal(job.type):
            return False
        if button.name == "mark_lost" and not may_force:
            return False
        return state in button.states and all(has_perm(each) for each in button.needs)

    edits = has_perm(permissions.EDIT)
    reads = has_perm(permissions.VIEW_PAYLOAD)
    return Offered(
        buttons=[button for button in BUTTONS if may(button)],
        may_edit_payload=edits and reads and state is State.DEAD,
        may_change=edits and job.status not in TERMINAL and state in WAITING,
    )
