"""Calls in threads of their own that meet each other in the database, without sleeping.

A rival that waits for a lock is seen to wait (the database says so) before the test goes on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from django.db import connections

from jobs.database import DirectDatabase, direct_conninfo

BLOCKED = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0
"""


class Rival:
    """A call with a connection of its own; `result()` gives its answer or raises its error."""

    def __init__(self, call: Callable[[DirectDatabase], Any]) -> None:
        self._call = call
        self._answer: Any = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        database = DirectDatabase(direct_conninfo(), name="rival")
        try:
            self._answer = self._call(database)
        except BaseException as error:  # noqa: BLE001 - handed to the test
            self._error = error
        finally:
            database.close()
            connections.close_all()

    @property
    def is_done(self) -> bool:
        return not self._thread.is_alive()

    def result(self) -> Any:
        self._thread.join(90)
        assert self.is_done, "the rival still waits"
        if self._error is not None:
            raise self._error
        return self._answer


@contextmanager
def other_session() -> Iterator[DirectDatabase]:
    """A second connection, for a transaction that the test holds open."""
    database = DirectDatabase(direct_conninfo(), name="other")
    try:
        yield database
    finally:
        database.close()


def wait_until_blocked(count: int = 1) -> None:
    """Until that many sessions of this database wait for another one."""
    limit = time.monotonic() + 90
    with psycopg.connect(direct_conninfo(), autocommit=True) as session:
        while time.monotonic() < limit:
            row = session.execute(BLOCKED).fetchone()
            if row is not None and row[0] >= count:
                return
            time.sleep(0.01)
    pytest.fail("nobody waits for a lock")
