"""What may be done to many jobs of the list: where it is offered, in which words, by whom."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest

from jobs import lifecycle, permissions
from jobs.admin.ledger.tabs import Tab
from jobs.lifecycle import Changed


@dataclass(frozen=True, kw_only=True)
class Action:
    name: str
    label: str
    """On the button above the list."""
    imperative: str
    """On the button that does it, before "3 jobs"."""
    sentence: str
    """What it does to `{jobs}`."""
    done: str
    needs: str
    call: Callable[..., Changed]
    tabs: tuple[str, ...]
    """Where it is offered."""
    argument: str = ""
    """What has to be said besides, by the name that `call` has for it."""
    notes: tuple[str, ...] = ()
    is_dangerous: bool = False


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
            name="retry",
            label="Retry",
            imperative="Retry",
            sentence="Retries {jobs}.",
            done="retried",
            needs=permissions.RETRY,
            call=lifecycle.retry_many,
            tabs=("dead", "all"),
            notes=(RETRY_NOTE,),
        ),
        Action(
            name="run_now",
            label="Run now",
            imperative="Run now:",
            sentence="Makes {jobs} due now.",
            done="made due",
            needs=permissions.EDIT,
            call=lifecycle.run_now_many,
            tabs=WAITING,
        ),
        Action(
            name="change_priority",
            label="Priority…",
            imperative="Change the priority of",
            sentence="Changes the priority of {jobs}.",
            done="given another priority",
            needs=permissions.EDIT,
            call=lifecycle.change_many,
            tabs=MOVABLE,
            argument="priority",
        ),
        Action(
            name="move_queue",
            label="Queue…",
            imperative="Move",
            sentence="Moves {jobs} to another queue.",
            done="moved",
            needs=permissions.EDIT,
            call=lifecycle.change_many,
            tabs=MOVABLE,
            argument="queue",
        ),
        Action(
            name="cancel",
            label="Cancel",
            imperative="Cancel",
            sentence="Cancels {jobs}.",
            done="cancelled",
            needs=permissions.CANCEL,
            call=lifecycle.cancel_many,
            tabs=LIVE,
            notes=(CANCEL_NOTE,),
            is_dangerous=True,
        ),
        Action(
            name="purge",
            label="Purge",
            imperative="Purge",
            sentence="Purges {jobs}.",
            done="purged",
            needs=permissions.PURGE,
            call=lifecycle.purge_many,
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
