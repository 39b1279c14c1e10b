"""Two ways to the database for the statements that matter: through Django, or a connection of ours.

`DjangoDatabase` joins whatever transaction the caller is in: enqueue, lifecycle, tests. A worker's
own threads use `DirectDatabase`, a plain psycopg connection with prepared statements and binary
results that no request or handler ever touches. Both speak the same few words, so claim, complete
and rescue are written once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Protocol

import psycopg
from django.db import connections, transaction
from psycopg.conninfo import make_conninfo
from psycopg.pq import TransactionStatus

from jobs import conf
from jobs.errors import TryLater

# What a role or a database may have set otherwise. What decides about a job must see the newest rows
# after it has waited for a lock, and must not be cut short; `session` may set its own limits after.
OWN_SESSION = (
    "SET default_transaction_isolation = 'read committed'",
    "SET statement_timeout = 0",
    "SET lock_timeout = 0",
    "SET idle_in_transaction_session_timeout = 0",
    "SET idle_session_timeout = 0",
)
# Classes of errors that are about the values of a statement: the same values fail again.
REFUSALS = ("22", "23", "54", "P0")
READ_ONLY = "25006"

type Params = Mapping[str, Any]
type Row = tuple[Any, ...]


class Database(Protocol):
    def rows(self, sql: str, params: Params) -> list[Row]: ...

    def run(self, sql: str, params: Params) -> int:
        """Execute and return how many rows were touched."""
        ...

    def transaction(self) -> Any:
        """A context manager: one transaction, or a savepoint inside the caller's."""
        ...


class DjangoDatabase:
    """The caller's Django connection, inside the caller's transaction."""

    def __init__(self, alias: str | None = None) -> None:
        self.alias = alias or conf.get().database

    def rows(self, sql: str, params: Params) -> list[Row]:
        with connections[self.alias].cursor() as cursor:
            cursor.execute(sql, params)
            return cursor.fetchall() if cursor.description else []

    def run(self, sql: str, params: Params) -> int:
        with connections[self.alias].cursor() as cursor:
            cursor.execute(sql, params)
            return int(cursor.rowcount)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        with transaction.atomic(using=self.alias):
            yield


class DirectDatabase:
    """One psycopg connection of our own, in autocommit, reconnected by its owner when it breaks.

    `pooled` says that a transaction pooler sits between: then nothing is prepared, and nothing may
    rely on the session.
    """

    def __init__(
        self,
        conninfo: str,
        *,
        name: str = "",
        session: tuple[str, ...] = (),
        connect_timeout: int = 5,
    ) -> None:
        self.conninfo = conninfo
        self.name = name
        self.session = (*OWN_SESSION, *session)
        self.connect_timeout = connect_timeout
        self.pooled = False
        self._connection: psycopg.Connection[Row] | None = None

    @property
    def connection(self) -> psycopg.Connection[Row]:
        """The live connection, opened if need be. Raises TryLater when that fails."""
        if self._connection is None or self._connection.closed:
            self._connection = self._connect()
        return self._connection

    @property
    def is_open(self) -> bool:
        return self._connection is not None and not self._connection.closed

    def rows(self, sql: str, params: Params) -> list[Row]:
        with self._settled(), self.connection.cursor(binary=True) as cursor:
            cursor.execute(sql, params, prepare=not self.pooled)
            return cursor.fetchall() if cursor.description else []

    def run(self, sql: str, params: Params) -> int:
        with self._settled(), self.connection.cursor(binary=True) as cursor:
            cursor.execute(sql, params, prepare=not self.pooled)
            return cursor.rowcount

    @contextmanager
    def transaction(self) -> Iterator[None]:
        connection = self.connection
        outermost = connection.info.transaction_status == TransactionStatus.IDLE
        with connection.transaction():
            if self.pooled and self.session and outermost:
                # The next transaction may run in another session: what is set must end with this.
                connection.execute(
                    "; ".join(line.replace("SET ", "SET LOCAL ", 1) for line in self.session)
                )
            yield

    def _settled(self) -> AbstractContextManager[None]:
        """Where a single statement finds this connection's settings: in the session, or through a
        pooler in a transaction of its own.
        """
        connection = self.connection
        if not self.pooled or not self.session:
            return nullcontext()
        if connection.info.transaction_status != TransactionStatus.IDLE:
            return nullcontext()
        return self.transaction()

    def close(self) -> None:
        """Close without raising, also when the server is long gone."""
        if self._connection is not None:
            try:
                self._connection.close()
            finally:
                self._connection = None

    def _connect(self) -> psycopg.Connection[Row]:
        try:
            connection = psycopg.connect(
                make_conninfo(
                    self.conninfo,
                    connect_timeout=self.connect_timeout,
                    application_name=f"coppice {self.name}".strip(),
                    # A peer that vanished without a word is noticed within about half a minute.
                    keepalives_idle=10,
                    keepalives_interval=5,
                    keepalives_count=4,
                ),
                autocommit=True,
            )
            connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
            self.pooled = is_pooled(connection)
            if self.pooled:
                connection.prepare_threshold = None
            else:
                connection.execute("; ".join(self.session))
        except psycopg.Error as error:
            raise TryLater(f"the database cannot be reached: {error}") from error
        return connection


def is_pooled(connection: psycopg.Connection[Any]) -> bool:
    """Whether something stands between us and the server process.

    A pooler hands out a cancel key of its own, so the process id in it is not the one that
    the server reports.
    """
    row = connection.execute("SELECT pg_backend_pid()").fetchone()
    return row is None or row[0] != connection.info.backend_pid


def direct_conninfo() -> str:
    """Where a worker's own connections go: the direct URL, else what Django's database says."""
    return conf.get().database_direct_url or django_conninfo()


def django_conninfo() -> str:
    """Where Django's own connections to the jobs go."""
    wrapper = connections[conf.get().database]
    parameters = wrapper.get_connection_params()
    ours = {
        key: str(value)
        for key, value in parameters.items()
        if isinstance(value, (str, int)) and not isinstance(value, bool)
        if key not in {"prepare_threshold", "client_encoding"}
    }
    return make_conninfo(**ours)


def cause(error: BaseException) -> BaseException:
    """What psycopg raised, below Django's wrapper."""
    return error.__cause__ if isinstance(error.__cause__, psycopg.Error) else error


def is_away(error: BaseException) -> bool:
    """Whether an error means that the database is unreachable or restarting, not that SQL is wrong."""
    if isinstance(error, TryLater):
        return True
    if isinstance(error, psycopg.Error) and error.sqlstate == READ_ONLY:
        return True  # it has become a standby: another server will answer soon
    if isinstance(error, psycopg.OperationalError):
        state = error.sqlstate
        # 57P0x: shutting down or starting; 08: connection; 53: no room; none: the socket broke.
        return state is None or state.startswith(("57P", "08", "53"))
    return isinstance(error, psycopg.InterfaceError)


def is_refusal(error: BaseException) -> bool:
    """Whether an error is about the values that were to be written, and not about the database: a
    statement that somebody cancelled, say, or a right or a table that is missing for a while.
    """
    if not isinstance(error, psycopg.Error):
        return True
    return error.sqlstate is None or error.sqlstate.startswith(REFUSALS)


def is_blocked(error: BaseException) -> bool:
    """Whether a lock was not had within `lock_timeout`."""
    return isinstance(error, psycopg.Error) and error.sqlstate == "55P03"


def is_transient(error: BaseException) -> bool:
    """Whether the very same transaction may simply be tried again: deadlock or serialisation."""
    return isinstance(error, psycopg.Error) and error.sqlstate in {"40P01", "40001", "55P03"}


class RefusedByDatabase(Exception):
    """What the database said when it refused a statement, without the rows that it quotes."""


def without_values(error: BaseException) -> BaseException:
    """An error that may be logged: PostgreSQL's DETAIL quotes whole rows, payloads with them."""
    if not isinstance(error, psycopg.Error) or not error.diag.message_detail:
        return error
    plain = RefusedByDatabase(f"{type(error).__name__}: {error.diag.message_primary}")
    plain.__suppress_context__ = True
    return plain.with_traceback(error.__traceback__)
