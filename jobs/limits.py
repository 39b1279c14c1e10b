"""Time limits: no page, however it is filtered, may keep the database busy, and no request waits
for another one's lock for ever.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from django.db import DatabaseError

from jobs.database import Database
from jobs.errors import Conflict, TooBroad

# Statistics may be stale, and then a walk through the whole table looks cheap. What is read here
# always has an index, and is read in its order as far as a limit: a bitmap would gather all that match
# before the first row is given. Compiling pays for no statement that reads so little. The answer tells
# how things were, and the time by the database's clock.
PLANS = ("enable_seqscan", "enable_bitmapscan", "jit")
LIMIT = f"""
SELECT extract(epoch FROM statement_timestamp())::float8,
    current_setting('statement_timeout'), {", ".join(f"current_setting('{name}')" for name in PLANS)},
    set_config('statement_timeout', %(timeout)s, true),
    {", ".join(f"set_config('{name}', 'off', true)" for name in PLANS)}
"""
AS_BEFORE = f"""
SELECT set_config('statement_timeout', %(timeout)s, true),
    {", ".join(f"set_config('{name}', %({name})s, true)" for name in PLANS)}
"""


@contextmanager
def limited(database: Database, *, seconds: float, field: str = "filter") -> Iterator[float]:
    """A transaction in which no statement runs longer; gives the database's time, epoch seconds.

    Raises TooBroad when one would have.
    """
    try:
        with database.transaction():
            now, timeout, *plans = database.rows(LIMIT, {"timeout": f"{round(seconds * 1000)}ms"})[
                0
            ]
            yield float(now)
            # The caller's transaction may go on; after an error the rollback restores them.
            before = dict(zip(PLANS, plans, strict=False))
            database.rows(AS_BEFORE, {"timeout": timeout, **before})
    except (psycopg.errors.QueryCanceled, DatabaseError) as error:
        below = error if isinstance(error, psycopg.Error) else error.__cause__
        if not isinstance(below, psycopg.errors.QueryCanceled):
            raise
        raise TooBroad(
            f"is too broad: it took more than {seconds:g} s; name a status, a type or a queue",
            field=field,
        ) from error


LOCK_TIMEOUT = """
SELECT current_setting('lock_timeout'), set_config('lock_timeout', %(timeout)s, true)
"""


@contextmanager
def waiting_at_most(database: Database, *, seconds: float, told: str) -> Iterator[None]:
    """Inside a transaction: a lock that is not had by then is a Conflict that says what is told."""
    before = database.rows(LOCK_TIMEOUT, {"timeout": f"{round(seconds * 1000)}ms"})[0][0]
    try:
        yield
    except (psycopg.errors.LockNotAvailable, DatabaseError) as error:
        below = error if isinstance(error, psycopg.Error) else error.__cause__
        if not isinstance(below, psycopg.errors.LockNotAvailable):
            raise
        raise Conflict(told) from error
    database.rows(LOCK_TIMEOUT, {"timeout": before})
