"""A queryset seen as a row of keys: the column, its axis, and the SQL to walk it.

Every statement about keys is built on `rows_sql`, the user's own condition with the key as its only
column. PostgreSQL folds that subquery into the query around it, so indexes are used as if all had
been written at one level. Bounds, comparisons and ORDER BY use one collation for text, "C".
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.core.exceptions import EmptyResultSet, FieldDoesNotExist, FieldError, FullResultSet
from django.db import connections, models, router
from django.db.models import F, Q, QuerySet
from django.db.models.expressions import ExpressionWrapper
from django.db.models.functions import Collate
from django.db.utils import DataError, OperationalError

from jobs.errors import InvalidInput
from ranges.asking import ask
from ranges.axes import Axis, DataAxis, DateTimeAxis, axis_for_field
from ranges.positions import Position
from ranges.sources import ProbeTimeout, UnfitKey

type Statement = tuple[str, tuple[Any, ...]]

KEY = "range_key"
QUERY_CANCELLED = "57014"
LONGEST_NAME = 63

# What has another answer at another moment cannot be the condition of an index.
_MOMENT = re.compile(
    r"\b(STATEMENT_TIMESTAMP|CLOCK_TIMESTAMP|CURRENT_\w+|NOW|RANDOM)\b", re.IGNORECASE
)

# A probe must follow an index. Where statistics are old the planner may think otherwise, and read
# the whole table for one row. Without a usable index nothing changes: these are costs, not bans.
WALK = {"enable_seqscan": "off", "enable_bitmapscan": "off", "enable_sort": "off", "jit": "off"}


# Whether the table is partitioned, and whether the database itself keeps NULL out of the column.
CATALOG = """
SELECT c.relkind = 'p', a.attnotnull
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid
WHERE c.oid = to_regclass(%s) AND a.attname = %s
"""


class Keyed:
    """The rows of `over`, in the order of `key`. `todo` says which of them still need work."""

    def __init__(
        self, over: Any, *, key: str = "pk", todo: Q | None = None, axis: Axis[Any] | None = None
    ) -> None:
        rows: Any = over if isinstance(over, QuerySet) else over.all()
        self.todo = todo
        self.model: type[models.Model] = rows.model
        self.field = key_field(self.model, key)
        self.axis: Axis[Any] = axis or axis_for_field(self.field)
        if isinstance(self.axis, DataAxis):
            raise InvalidInput(
                f"{self.axis.sql_type} has no order that can be walked: choose another key",
                field="key",
            )
        if isinstance(self.axis, DateTimeAxis) and not settings.USE_TZ:
            raise InvalidInput("a datetime key needs USE_TZ = True", field="key")
        # What the range writes is read back in the same transaction: the writer's database.
        self.alias: str = rows._db or router.db_for_write(rows.model)  # noqa: SLF001
        self.over: QuerySet[Any] = _plain(rows.using(self.alias))
        self.is_unique = bool(self.field.unique) and not self.field.null
        self._undone = self.over if todo is None else _filtered(self.over, todo)
        self._compiled: dict[bool, Statement | None] = {}

    @property
    def connection(self) -> Any:
        return connections[self.alias]

    @property
    def table(self) -> str:
        return self.model._meta.db_table  # noqa: SLF001

    @property
    def column(self) -> str:
        """The key's column as SQL, with its collation."""
        name: str = self.connection.ops.quote_name(self.field.column)
        return f'{name} COLLATE "{self.axis.collation}"' if self.axis.collation else name

    def catalog(self) -> tuple[bool, bool]:
        """Whether the table is partitioned, and whether its column cannot be NULL."""
        quoted = self.connection.ops.quote_name(self.table)
        found = self.ask(CATALOG, (quoted, self.field.column), settings={})
        return (found[0][0], found[0][1]) if found else (False, False)

    @property
    def label(self) -> str:
        """The field of the key, for people; its column too, where that has another name."""
        name = f"{self.model._meta.label}.{self.field.name}"  # noqa: SLF001
        column = self.field.column
        if column == self.field.get_attname():
            return name
        return f"{name} (column {column})"

    def position(self, value: Any) -> Position:
        """The position of a value of the column, as the driver returned it. Raises UnfitKey."""
        if not self.axis.is_ordinal:
            return str(value)
        try:
            return self.axis.encode(value)
        except InvalidInput as error:
            raise self._unfit(value, error.message) from error
        except (AttributeError, TypeError, ValueError) as error:
            # The column is of another type than its field.
            why = f"its field has keys of type {self.axis.name}, not {type(value).__name__}"
            raise self._unfit(value, why) from error

    def queryset(self, lo: Position, hi: Position, *, todo: bool) -> QuerySet[Any]:
        """The rows of [lo, hi) in the order of the key."""
        rows = self._rows(todo=todo)
        start = self._key(lo)
        if start is None:
            return rows.none()
        name = self.field.attname
        if self.axis.collation:
            rows = rows.alias(**{KEY: self._expression()})
            name = KEY
        sign, end = self._end(hi)
        upto = {f"{name}__{'lt' if sign == '<' else 'lte'}": end}
        return rows.filter(**{f"{name}__gte": start}, **upto).order_by(name)

    def rows_sql(self, *, todo: bool) -> Statement | None:
        """`SELECT key FROM ... WHERE ...`; None: the condition can never be true."""
        if todo not in self._compiled:
            rows = self._rows(todo=todo).order_by()
            name = self.field.attname
            if self.axis.collation:
                rows = rows.annotate(**{KEY: self._expression()})
                name = KEY
            query = rows.values_list(name).query
            # Probes take no locks; and a locking subquery would not be folded into the walk.
            query.select_for_update = False
            try:
                sql, params = query.get_compiler(using=self.alias).as_sql()
                self._compiled[todo] = sql, tuple(params)
            except EmptyResultSet:
                self._compiled[todo] = None
        return self._compiled[todo]

    def walk_sql(
        self, lo: Position | None, hi: Position | None, *, todo: bool, start: str = ""
    ) -> Statement | None:
        """`SELECT key FROM ... WHERE key >= lo AND key < hi`, without an order. None: no bound.

        `start`: an expression in SQL to begin at, instead of `lo`.
        """
        rows = self.rows_sql(todo=todo)
        if rows is None:
            return None
        sql, params = rows
        # Not `%s::bigint`: of the least one the minus sign would come after the cast.
        bound = f"CAST(%s AS {self.axis.sql_type})"
        inside = []
        if start:
            inside.append(f"key >= {start}")
        elif lo is not None:
            first = self._key(lo)
            if first is None:
                return None
            inside.append(f"key >= {bound}")
            params = (*params, first)
        if hi is not None:
            sign, end = self._end(hi)
            inside.append(f"key {sign} {bound}")
            params = (*params, end)
        where = " AND ".join(inside) or "key IS NOT NULL"
        return f"SELECT key FROM ({sql}) walked(key) WHERE {where}", params

    def ask(
        self,
        sql: str,
        params: tuple[Any, ...] = (),
        *,
        milliseconds: int | None = None,
        settings: Mapping[str, str] = WALK,
    ) -> list[Any]:
        """The rows of a reading statement. Raises ProbeTimeout when it takes longer.

        What is set for it ends with it, and a time-out leaves the caller's transaction whole.
        """
        chosen = dict(settings)
        if milliseconds is not None:
            chosen["statement_timeout"] = str(milliseconds)
        try:
            return ask(self.connection, sql, params, chosen)
        except OperationalError as error:
            if milliseconds is not None and _sqlstate(error) == QUERY_CANCELLED:
                raise ProbeTimeout(f"no answer within {milliseconds} ms") from error
            raise
        except DataError as error:
            if _sqlstate(error) is None:
                # Not the server's: the driver has no value of Python's for what it was sent.
                why, _, value = str(error).partition(": ")
                raise self._unfit(value.strip("'"), why) from error
            raise

    def explain(
        self, sql: str, params: tuple[Any, ...], *, settings: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """The plan of a statement, which is not run."""
        rows = self.ask(f"EXPLAIN (FORMAT JSON) {sql}", params, settings=settings or {})
        plan: dict[str, Any] = rows[0][0][0]["Plan"]
        return plan

    def unfit(self, why: str) -> UnfitKey:
        return UnfitKey(f"{self.label} {why}")

    def _unfit(self, value: object, why: str) -> UnfitKey:
        return self.unfit(
            f"holds {value}, which has no place in a range ({why}): leave such rows out of `over`"
        )

    def _key(self, position: Position) -> Any:
        """None: the place past the last key of the type, where a cursor may stand, has no name."""
        if self.axis.is_ordinal:
            assert isinstance(position, int)
            return self.axis.decode_end(position)
        return position

    def _end(self, hi: Position) -> tuple[str, Any]:
        """How keys before `hi` compare, and with which one.

        Past the last key of a type the column may still hold infinities, which no range has.
        """
        end = self._key(hi)
        if end is not None:
            return "<", end
        assert isinstance(hi, int)
        return "<=", self._key(hi - 1)

    def _rows(self, *, todo: bool) -> QuerySet[Any]:
        return self._undone if todo else self.over

    def _expression(self) -> ExpressionWrapper[Any]:
        # Wrapped: of a foreign key's column the bare expression would be a relation again.
        assert self.axis.collation
        return ExpressionWrapper(
            Collate(F(self.field.attname), self.axis.collation), output_field=models.TextField()
        )


def key_field(model: type[models.Model], key: str) -> models.Field[Any, Any]:
    """The field behind `key`, which must be a column of the model's own table."""
    meta = model._meta  # noqa: SLF001
    try:
        field = meta.pk if key == "pk" else meta.get_field(key)
    except FieldDoesNotExist:
        raise InvalidInput(f"{meta.label} has no field {key!r}", field="key") from None
    if not isinstance(field, models.Field) or field.column is None:
        raise InvalidInput(f"{key!r} is not one column of {meta.label}", field="key")
    if field not in meta.concrete_model._meta.local_concrete_fields:  # type: ignore[union-attr]  # noqa: SLF001
        raise InvalidInput(f"{key!r} is a column of another table than {meta.label}'s", field="key")
    return field


def _plain(rows: QuerySet[Any]) -> QuerySet[Any]:
    query = rows.query
    if query.is_sliced or query.combinator or query.distinct or query.group_by is not None:
        raise InvalidInput(
            "must be a plain queryset: not sliced, combined, distinct or grouped", field="over"
        )
    _check_rows(rows, "over")
    return rows


def _filtered(over: QuerySet[Any], todo: Q) -> QuerySet[Any]:
    if not hasattr(todo, "resolve_expression"):
        raise InvalidInput(f"must be a Q, not {type(todo).__name__}", field="todo")
    try:
        rows = over.filter(todo)
    except (FieldError, TypeError, ValueError) as error:
        raise InvalidInput(str(error), field="todo") from error
    _check_rows(rows, "todo")
    return rows


def _check_rows(rows: QuerySet[Any], field: str) -> None:
    """Each row of a range must be the same, and once, whatever the bounds."""
    if _multiplies(rows):
        raise InvalidInput(
            "joins a table with many rows for one of these: use Exists(...) instead", field=field
        )
    if rows.query.where.contains_over_clause:
        raise InvalidInput(
            "filters by a window function, which would see the rows of a leaf alone: use a Subquery"
            " instead",
            field=field,
        )


def _multiplies(rows: QuerySet[Any]) -> bool:
    """Whether a join of the query may show a row more than once."""
    if rows.query.extra_tables:
        return True
    for table in rows.query.alias_map.values():
        join = getattr(table, "join_field", None)
        if join is not None and (join.one_to_many or join.many_to_many):
            return True
    return False


def condition_sql(keyed: Keyed, *, todo: bool) -> str | None:
    """The condition of `over` (and `todo`) with its values written out; None if it has none.

    FieldError when it cannot stand in an index.
    """
    query = keyed._rows(todo=todo).query  # noqa: SLF001
    used = [one for alias, one in query.alias_map.items() if query.alias_refcount[alias]]
    if len(used) > 1:
        raise FieldError("the condition joins another table")
    compiler = query.get_compiler(using=keyed.alias)
    compiler.pre_sql_setup()
    try:
        sql, params = compiler.compile(query.where)
    except FullResultSet:
        return None
    if "SELECT " in sql:
        raise FieldError("the condition looks at another table")
    if _MOMENT.search(sql):
        raise FieldError("the condition changes with time")
    return written_out(keyed, sql, tuple(params)) if sql else None


def index_definition(keyed: Keyed, condition: str | None = None) -> str:
    """CREATE INDEX for the key, of the rows with this condition. It blocks no writes, if it can."""
    quote = keyed.connection.ops.quote_name
    mark = hashlib.sha256((condition or "").encode()).hexdigest()[:8]
    # A name in db_table may bring its schema, in whose name the index cannot be.
    table = keyed.table.rpartition('"."')[2].strip('"')
    name = f"{table}_{keyed.field.column}"[: LONGEST_NAME - 9] + f"_{mark}"
    where = f" WHERE {condition}" if condition else ""
    is_partitioned, _ = keyed.catalog()
    how = "" if is_partitioned else " CONCURRENTLY"
    return f"CREATE INDEX{how} {quote(name)} ON {quote(keyed.table)} ({keyed.column}){where}"


def written_out(keyed: Keyed, sql: str, params: tuple[Any, ...]) -> str:
    """A statement with its values as literals, as a person would type it."""
    import psycopg

    keyed.connection.ensure_connection()
    return psycopg.ClientCursor(keyed.connection.connection).mogrify(sql, params)


def _sqlstate(error: BaseException) -> str | None:
    return getattr(error.__cause__, "sqlstate", None)
