"""Whose turn it is: operations that could meet the same job run one after the other.

The older goes first. A paused operation holds up nobody; when it is resumed it waits like any other.
"""

from __future__ import annotations

from collections.abc import Iterable

from jobs import conf
from jobs.bulk.actions import ACTIONS
from jobs.models import BulkOperation

TURN_LOCK = 0x436F707069636502
"""Key of the advisory lock under which an operation takes its turn."""


def blocker_of(operation: BulkOperation) -> BulkOperation | None:
    """The operation that this one waits for, if it may not run yet."""
    live = BulkOperation.objects.using(conf.get().database).filter(
        status__in=["pending", "running"]
    )
    return first_in_the_way(operation, live.order_by("created_at", "id"))


def first_in_the_way(
    operation: BulkOperation, live: Iterable[BulkOperation]
) -> BulkOperation | None:
    """Of the live operations, oldest first: what runs already, or came before."""
    for other in live:
        if other.id == operation.id or not may_meet(operation, other):
            continue
        if other.status == "running" or _age(other) < _age(operation):
            return other
    return None


def may_meet(one: BulkOperation, other: BulkOperation) -> bool:
    """Whether a job could match both. When in doubt they may."""
    if ACTIONS[one.action].family is not ACTIONS[other.action].family:
        return False
    # A type never changes. A queue does, by the one action that moves.
    fixed = ["type"] if "move_queue" in (one.action, other.action) else ["type", "queue"]
    for name in fixed:
        mine, theirs = one.filters.get(name), other.filters.get(name)
        if mine is not None and theirs is not None and mine != theirs:
            return False
    return True


def _age(operation: BulkOperation) -> tuple[object, str]:
    return operation.created_at, str(operation.id)
