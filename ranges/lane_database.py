"""How a lane speaks to the database: on the handler's own connection, without Django's cursors.

1. The connection is Django's, so what a lane writes is in the same transaction as what `process`
   writes. Statements are prepared once and answers are binary, which Django's cursors are not: the
   move of a cursor then costs a third. Through a transaction pooler nothing is prepared.
2. Errors are Django's, and are noted by its connection as its own would be.
3. A transaction in which `process` does nothing on this connection is none: PostgreSQL hears of it
   only with the first statement (`is_untouched`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from django.db import connections, transaction
from psycopg.pq import TransactionStatus

from jobs import conf
from jobs.database import Params, Row, is_pooled

LIMITS = "SET LOCAL lock_timeout = {lock}; SET LOCAL statement_timeout = {statement}"
"""Milliseconds; 0: none."""


class LaneDatabase:
    """A `jobs.database.Database`, to be used by the thread that made it."""

    def __init__(self, alias: str | None = None) -> None:
        self.alias = alias or conf.get().database
        self._wrapper: Any = connections[self.alias]
        self._cursor: psycopg.Cursor[Row] | None = None
        self._prepares = False

    def rows(self, sql: str, params: Params) -> list[Row]:
        """Of a statement that returns rows."""
        with self._wrapper.wrap_database_errors:
            return self._execute(sql, params).fetchall()

    def run(self, sql: str, params: Params) -> int:
        with self._wrapper.wrap_database_errors:
            return self._execute(sql, params).rowcount

    def transaction(self) -> Any:
        return transaction.atomic(using=self.alias)

    @contextmanager
    def leaf(self, *, lock_seconds: float, statement_seconds: float) -> Iterator[None]:
        """The transaction of a leaf, whose statements wait for locks, and last, only so long."""
        limits = LIMITS.format(
            lock=int(lock_seconds * 1000), statement=int(statement_seconds * 1000)
        )
        is_limited = False

        def limit(
            execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]
        ) -> Any:
            nonlocal is_limited
            if not is_limited:
                is_limited = True
                self._begin(limits)
            return execute(sql, params, many, context)

        with transaction.atomic(using=self.alias), self._wrapper.execute_wrapper(limit):
            yield

    @property
    def is_untouched(self) -> bool:
        """Whether nothing was done in the transaction that Django thinks this connection is in."""
        wrapper = self._wrapper
        if wrapper.needs_rollback or wrapper.run_on_commit:
            return False
        connection = wrapper.connection
        return connection is None or connection.pgconn.transaction_status == TransactionStatus.IDLE

    def _execute(self, sql: str, params: Params) -> psycopg.Cursor[Row]:
        cursor = self._ready()
        connection = cursor.connection
        # Django has the driver prepare nothing, unless it is told to.
        usual = connection.prepare_threshold
        connection.prepare_threshold = 0 if self._prepares else None
        try:
            return cursor.execute(sql, params, prepare=self._prepares)
        finally:
            connection.prepare_threshold = usual

    def _begin(self, limits: str) -> None:
        """Begin the transaction that Django thinks it is in already, with its limits."""
        connection = self._ready().connection
        if _begins_plainly(connection):
            # In one message. If that fails the next statement says why.
            connection.pgconn.exec_(f"BEGIN; {limits}".encode())
        else:
            with self._wrapper.wrap_database_errors:
                psycopg.Cursor(connection).execute(limits.encode())

    def _ready(self) -> psycopg.Cursor[Row]:
        wrapper = self._wrapper
        # Django's own cursors ask the same before each statement.
        wrapper.validate_no_broken_transaction()
        cursor = self._cursor
        if cursor is None or cursor.connection is not wrapper.connection:
            wrapper.ensure_connection()
            cursor = self._cursor = psycopg.Cursor(wrapper.connection)
            cursor.format = psycopg.pq.Format.BINARY
            self._prepares = not is_pooled(wrapper.connection)
        return cursor


def _begins_plainly(connection: psycopg.Connection[Any]) -> bool:
    """Whether the driver would send BEGIN alone before the next statement."""
    options = (connection.isolation_level, connection.read_only, connection.deferrable)
    return (
        not connection.autocommit
        and connection.pgconn.transaction_status == TransactionStatus.IDLE
        and all(each is None for each in options)
    )
