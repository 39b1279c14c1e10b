"""How the list offers what may be done to many jobs: where, in which words, to whom.

What an action does, to which jobs and with which permission, `jobs.bulk.actions` says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest

from jobs import bulk
from jobs.admin.ledger.tabs import Tab
from jobs.bulk.actions import Action as Doing
from jobs.lifecycle import Changed


@dataclass(frozen=True, kw_only=True)
class Action:
    does: Doing
    label: str
    """On the button above the list."""
    imperative: str
    """On the button that does it, before "3 jobs"."""
    sentence: str
    """What it does to `{jobs}`."""
    tabs: tuple[str, ...]
    """Where it is offered."""
    notes: tuple[str, ...] = ()
    is_dangerous: bool = False

    @property
    def name(self) -> str:
        return self.does.name

    @property
    def done(self) -> str:
        return self.does.done

    @property
    def needs(self) -> str:
        return self.does.permission

    @property
    def call(self) -> Callable[..., Changed]:
        return self.does.call

    @property
    def argument(self) -> str:
        """What has to be said besides, by the name that `call` has for it."""
        return self.does.argument


LIVE = ("active", "ready", "scheduled", "retrying", "running", "blocked", "held", "all")
WAITING = ("active", "scheduled", "retrying", "held", "all")
MOVABLE = ("active", "ready", "scheduled", "retrying", "blocked", "held", "all")

RETRY_NOTE = "Attempts start again; the history of each job stays."
CANCEL_NOTE = (
    "Jobs that run are asked to stop; their handlers see it. A cancelled job never runs again, and "
    "the jobs that it made are cancelled with it."
)
PURGE_NOTE = (
    "They are deleted for good, with their attempts and logs. Jobs that wait for one of them can "
    "never run, and are cancelled."
)

ACTIONS = {
    action.name: action
    for action in (
        Action(
            does=bulk.ACTIONS["retry"],
            label="Retry",
            imperative="Retry",
            sentence="Retries {jobs}.",
            tabs=("dead", "all"),
            notes=(RETRY_NOTE,),
        ),
        Action(
            does=bulk.ACTIONS["run_now"],
            label="Run now",
            imperative="Run now:",
            sentence="Makes {jobs} due now.",
            tabs=WAITING,
        ),
        Action(
            does=bulk.ACTIONS["change_priority"],
            label="Priority…",
            imperative="Change the priority of",
            sentence="Changes the priority of {jobs}.",
            tabs=MOVABLE,
        ),
        Action(
            does=bulk.ACTIONS["move_queue"],
            label="Queue…",
            imperative="Move",
            sentence="Moves {jobs} to another queue.",
            tabs=MOVABLE,
        ),
        Action(
            does=bulk.ACTIONS["cancel"],
            label="Cancel",
            imperative="Cancel",
            sentence="Cancels {jobs}.",
            tabs=LIVE,
            notes=(CANCEL_NOTE,),
            is_dangerous=True,
        ),
        Action(
            does=bulk.ACTIONS["purge"],
            label="Purge",
            imperative="Purge",
            sentence="Purges {jobs}.",
            tabs=("dead",),
            notes=(PURGE_NOTE,),
            is_dangerous=True,
        ),
    )
}


def offered(request: HttpRequest, tab: Tab) -> list[Action]:
    """The actions of a tab that this person may take."""
    return [
        action
        for action in ACTIONS.values()
        if tab.name in action.tabs and request.user.has_perm(action.needs)
    ]


def find(request: HttpRequest, name: str) -> Action:
    """Raises PermissionDenied also for what is no action: nothing on a page leads there."""
    action = ACTIONS.get(name)
    if action is None or not request.user.has_perm(action.needs):
        raise PermissionDenied
    return action
