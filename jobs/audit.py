"""Who did what, to how much, and why: one row per action, in the action's own transaction.

The functions that people's actions go through (`lifecycle`, `schedules`, `bulk`, the ranges') call
`record`; views, pages and commands never do. What the program does by itself has no actor and
leaves no row. Never a value of a payload: `data` holds ids, statuses, counts, and names of fields.

An action that takes several transactions is one row all the same (`as_one`): each transaction adds
what it changed, so the count is true also when the action breaks off in the middle.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from jobs.database import DjangoDatabase
from jobs.texts import clean

ACTOR_LENGTH = 150
ADDRESS_LENGTH = 45
SCOPE_LENGTH = 500
REASON_LENGTH = 1_000
NAMES_SHOWN = 50
"""The most ids or names that `data` lists."""

client_address: ContextVar[str] = ContextVar("client_address", default="")
"""Where the request in hand comes from; set for its duration, empty elsewhere."""

INSERT = """
INSERT INTO jobs_auditentry (at, actor, address, action, scope, object_id, changed, reason, data)
VALUES (clock_timestamp(), %(actor)s, %(address)s, %(action)s, %(scope)s, %(object_id)s,
    %(changed)s, %(reason)s, %(data)s::jsonb)
RETURNING id
"""

# The id is taken from the sequence before: that is not undone by a rollback, so each transaction of
# one action finds the row of the earlier ones, or is the first to write it.
NEXT_ID = "SELECT nextval(pg_get_serial_sequence('jobs_auditentry', 'id'))"
ADD = """
INSERT INTO jobs_auditentry AS e
    (id, at, actor, address, action, scope, object_id, changed, reason, data)
VALUES (%(id)s, clock_timestamp(), %(actor)s, %(address)s, %(action)s, %(scope)s, %(object_id)s,
    %(changed)s, %(reason)s, %(data)s::jsonb)
ON CONFLICT (id) DO UPDATE SET changed = e.changed + excluded.changed
"""
GROW = "UPDATE jobs_auditentry SET changed = changed + %(changed)s WHERE id = %(id)s"


@dataclass
class _Whole:
    """An action of several transactions."""

    action: str
    scope: str
    is_silent: bool = False
    ids: dict[tuple[str, str], int] = field(default_factory=dict)


_whole: ContextVar[_Whole | None] = ContextVar("audited_whole", default=None)


def record(
    action: str,
    *,
    actor: str,
    scope: str = "",
    object_id: str = "",
    changed: int = 0,
    reason: str = "",
    data: Mapping[str, Any] | None = None,
) -> int | None:
    """Write an entry in the caller's transaction and return its id; nothing without an actor."""
    whole = _whole.get()
    if not actor or (whole is not None and whole.is_silent):
        return None
    database = DjangoDatabase()
    row = {
        "actor": clean(actor, ACTOR_LENGTH),
        "address": clean(client_address.get(), ADDRESS_LENGTH),
        "action": action,
        "scope": clean(scope, SCOPE_LENGTH),
        "object_id": clean(object_id, 100),
        "changed": changed,
        "reason": clean(reason, REASON_LENGTH),
        "data": json.dumps(data or {}, default=_plain),
    }
    if whole is None:
        return int(database.rows(INSERT, row)[0][0])
    row["action"] = whole.action or action
    row["scope"] = clean(whole.scope, SCOPE_LENGTH) or row["scope"]
    key = (str(row["action"]), str(row["actor"]))
    if key not in whole.ids:
        whole.ids[key] = int(database.rows(NEXT_ID, {})[0][0])
    database.run(ADD, {**row, "id": whole.ids[key]})
    return whole.ids[key]


def grow(entry_id: int | None, changed: int) -> None:
    """Add to the count of an entry whose action goes on in the background."""
    if entry_id is not None and changed:
        DjangoDatabase().run(GROW, {"id": entry_id, "changed": changed})


@contextmanager
def as_one(action: str = "", *, scope: str = "") -> Iterator[None]:
    """What is recorded inside is one entry whose count grows; inside another such block, its.

    `action` and `scope` stand in for what the parts say.
    """
    if _whole.get() is not None:
        yield
        return
    token = _whole.set(_Whole(action=action, scope=scope))
    try:
        yield
    finally:
        _whole.reset(token)


@contextmanager
def left_out() -> Iterator[None]:
    """Nothing is recorded inside: the caller records the whole itself."""
    token = _whole.set(_Whole(action="", scope="", is_silent=True))
    try:
        yield
    finally:
        _whole.reset(token)


def _plain(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def listed(values: list[str]) -> dict[str, Any]:
    """The first of many ids or names, for `data`."""
    found: dict[str, Any] = {"ids": values[:NAMES_SHOWN]}
    if len(values) > NAMES_SHOWN:
        found["ids_left_out"] = len(values) - NAMES_SHOWN
    return found
