"""What can be done to many jobs at once: to which jobs, with which filters, through which function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from jobs import lifecycle, permissions
from jobs.drafts import check_priority, check_queue
from jobs.errors import InvalidInput
from jobs.filtering import Filters
from jobs.lifecycle import Changed
from jobs.states import State, Status

LARGEST_CAP = 2**63 - 1


class Family(StrEnum):
    """Which jobs an action is about. Two operations of one family could meet the same job."""

    DEAD = "dead"
    LIVE = "live"


@dataclass(frozen=True, kw_only=True)
class Action:
    name: str
    done: str
    """What was done to a job, in a word for people."""
    family: Family
    statuses: tuple[Status, ...]
    states: tuple[State, ...]
    """The states that a filter may name."""
    permission: str
    call: Callable[..., Changed]
    argument: str = ""
    check: Callable[[Any], Any] = str


_WAITING = (State.READY, State.SCHEDULED, State.RETRYING, State.BLOCKED, State.HELD)

ACTIONS = {
    action.name: action
    for action in (
        Action(
            name="retry",
            done="retried",
            family=Family.DEAD,
            statuses=(Status.FAILED,),
            states=(State.DEAD,),
            permission=permissions.RETRY,
            call=lifecycle.retry_many,
        ),
        Action(
            name="purge",
            done="purged",
            family=Family.DEAD,
            statuses=(Status.FAILED,),
            states=(State.DEAD,),
            permission=permissions.PURGE,
            call=lifecycle.purge_many,
        ),
        Action(
            name="cancel",
            done="cancelled",
            family=Family.LIVE,
            statuses=(Status.PENDING, Status.PROCESSING),
            states=(*_WAITING, State.RUNNING),
            permission=permissions.CANCEL,
            call=lifecycle.cancel_many,
        ),
        Action(
            name="run_now",
            done="made due",
            family=Family.LIVE,
            statuses=(Status.PENDING,),
            states=(State.SCHEDULED, State.RETRYING, State.HELD),
            permission=permissions.EDIT,
            call=lifecycle.run_now_many,
        ),
        Action(
            name="change_priority",
            done="given another priority",
            family=Family.LIVE,
            statuses=(Status.PENDING,),
            states=_WAITING,
            permission=permissions.EDIT,
            call=lifecycle.change_many,
            argument="priority",
            check=check_priority,
        ),
        Action(
            name="move_queue",
            done="moved",
            family=Family.LIVE,
            statuses=(Status.PENDING,),
            states=_WAITING,
            permission=permissions.EDIT,
            call=lifecycle.change_many,
            argument="queue",
            check=check_queue,
        ),
    )
}

_NEVER = {
    Family.DEAD: ("completed", "cancelled", "next_retry"),
    Family.LIVE: ("completed", "cancelled", "failed"),
}
"""Times that the jobs of a family do not have: a filter on one would quietly match nothing."""


def find(name: object) -> Action:
    """Raises InvalidInput for what is no action."""
    found = ACTIONS.get(name) if isinstance(name, str) else None
    if found is None:
        raise InvalidInput(f"must be one of {', '.join(ACTIONS)}", field="action")
    return found


def check_filters(action: Action, filters: Filters) -> None:
    """Raises InvalidInput naming a filter that does not go with the action."""
    if filters.status is not None and filters.status not in action.statuses:
        raise InvalidInput(_only(action, action.statuses), field="status")
    if filters.state is not None and filters.state not in action.states:
        raise InvalidInput(_only(action, action.states), field="state")
    if filters.internal:
        raise InvalidInput("jobs that Coppice made for itself are not changed so", field="internal")
    for name in _NEVER[action.family]:
        for side in ("after", "before"):
            if getattr(filters, f"{name}_{side}") is not None:
                raise InvalidInput(
                    f"cannot be given: {action.name} is for {action.family.value} jobs",
                    field=f"{name}_{side}",
                )


def check_arguments(action: Action, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """The checked arguments. Raises InvalidInput naming `arguments.<name>`."""
    if given is not None and not isinstance(given, Mapping):
        raise InvalidInput("must be an object", field="arguments")
    values = dict(given or {})
    checked: dict[str, Any] = {}
    if action.argument:
        field = f"arguments.{action.argument}"
        if values.get(action.argument) is None:
            raise InvalidInput("is required", field=field)
        try:
            checked[action.argument] = action.check(values.pop(action.argument))
        except InvalidInput as error:
            raise InvalidInput(error.message, field=field) from None
    for name in values:
        raise InvalidInput(f"is no argument of {action.name}", field=f"arguments.{name}"[:100])
    return checked


def check_cap(cap: object) -> int | None:
    if cap is None:
        return None
    if isinstance(cap, bool) or not isinstance(cap, int) or not 1 <= cap <= LARGEST_CAP:
        raise InvalidInput("must be a whole number from 1", field="cap")
    return cap


def permission_of(action: str, filters: Filters) -> str:
    """What one must be allowed to do. Purging without any narrowing is a right of its own."""
    found = find(action)
    narrowing = filters.given.keys() - {"status", "state", "internal"}
    if found.name == "purge" and not narrowing:
        return permissions.PURGE_ALL
    return found.permission


def in_words(action: Action, filters: Filters) -> str:
    """What it is about, as a person reads it."""
    narrowing = replace(filters, internal=None)
    if narrowing.given:
        return narrowing.in_words()
    if action.family is Family.DEAD:
        return "all dead letters"
    return f"all jobs that are {' or '.join(status.value for status in action.statuses)}"


def in_audit(action: Action, filters: Filters) -> str:
    """The same without what is looked for in payloads and errors: that may quote them."""
    words = in_words(action, replace(filters, payload=None, error=None))
    if filters.payload is not None:
        names = ", ".join(sorted(filters.payload)[:20])
        words += f", payload searched by {names}"
    return words if filters.error is None else f"{words}, error text searched"


def each_status(action: Action, filters: Filters) -> list[Filters]:
    """The same filters once for each status that the action is about; nothing of our own making."""
    if filters.state is not None or filters.status is not None:
        return [replace(filters, internal=False, status=filters.status or _status_of(filters))]
    return [replace(filters, internal=False, status=status) for status in action.statuses]


def _status_of(filters: Filters) -> Status:
    match filters.state:
        case State.DEAD:
            return Status.FAILED
        case State.RUNNING:
            return Status.PROCESSING
        case _:
            return Status.PENDING


def _only(action: Action, allowed: Iterable[StrEnum]) -> str:
    return f"must be {' or '.join(each.value for each in allowed)} for {action.name}"
