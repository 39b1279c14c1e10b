"""Points at which a process kills itself: before a statement, after it, or after its commit.

Statements are met where psycopg executes them, whichever way they came there.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any, NamedTuple

import psycopg

FAILURES = 'INSERT INTO "ranges_rangefailure"'
EFFECTS = "INSERT INTO toy_effect"


class Failpoint(NamedTuple):
    statement: str
    """A name of `ranges.statements`, in lower case, one of those above, or any."""
    moment: str
    """before, after, or committed."""
    behind: str = ""
    """Counts only once that statement was executed."""
    nth: int = 1


def arm(point: Failpoint) -> None:
    """From now on this process dies by SIGKILL when it reaches the point."""
    from ranges.statements import ORDINAL

    def text(name: str) -> str:
        ours = {"failures": FAILURES, "effects": EFFECTS, "any": ""}
        return ours[name] if name in ours else getattr(ORDINAL, name)

    wanted, behind = text(point.statement), text(point.behind) if point.behind else ""
    execute: Callable[..., Any] = psycopg.Cursor.execute
    commit = psycopg.Connection.commit
    counts = not behind
    left = point.nth
    executed = False

    def struck_execute(self: Any, query: Any, *args: Any, **options: Any) -> Any:
        nonlocal counts, executed, left
        is_it = counts and str(query).startswith(wanted)
        left -= is_it
        is_it = is_it and left <= 0
        if is_it and point.moment == "before":
            die()
        answer = execute(self, query, *args, **options)
        if behind and str(query).startswith(behind):
            counts = True
        if is_it:
            is_committed = self.connection.info.transaction_status == 0
            if point.moment == "after" or (point.moment == "committed" and is_committed):
                die()
            executed = True
        return answer

    def struck_commit(self: Any) -> None:
        commit(self)
        if executed and point.moment == "committed":
            die()

    psycopg.Cursor.execute = struck_execute  # type: ignore[method-assign]
    psycopg.Connection.commit = struck_commit  # type: ignore[method-assign]


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
