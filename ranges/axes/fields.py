"""The axis of a Django model field, by the type of its column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobs.errors import InvalidInput
from ranges.axes.base import Axis
from ranges.axes.data import DataAxis
from ranges.axes.days import DateAxis
from ranges.axes.decimals import DecimalAxis
from ranges.axes.floats import FloatAxis
from ranges.axes.instants import DateTimeAxis
from ranges.axes.integers import IntAxis
from ranges.axes.texts import TextAxis
from ranges.axes.uuids import UUIDAxis

if TYPE_CHECKING:
    from django.db.models import Field

# Collations that compare code points, by the names that PostgreSQL gives them.
BY_CODE_POINT = frozenset({"C", "POSIX", "ucs_basic", "pg_c_utf8", "pg_unicode_fast"})


def axis_for_field(field: Field[Any, Any], *, collation: str | None = None) -> Axis[Any]:
    """The axis on which the keys of this field lie; a foreign key has that of its target.

    Text is compared by code point (COLLATE "C") whatever the column's collation is: that is always
    right, and fast where an index has that collation. To walk an index in the column's own order
    instead, name its collation; keys in the order of a language are a DataAxis.
    InvalidInput, naming the field, if keys of this type cannot be cut into ranges.
    """
    while field.remote_field is not None and hasattr(field, "target_field"):
        field = field.target_field
    column, name = _column_type(field), field.name
    match column:
        case "smallint" | "integer" | "bigint":
            return IntAxis(sql_type="bigint")
        case "date":
            return DateAxis()
        case "timestamp with time zone":
            return DateTimeAxis()
        case "uuid":
            return UUIDAxis()
        case "double precision":
            return FloatAxis()
        case "varchar" | "text":
            chosen = collation or "C"
            by_code_point = chosen in BY_CODE_POINT
            return TextAxis(collation=chosen) if by_code_point else DataAxis(collation=chosen)
        case "citext":
            return DataAxis(sql_type="citext")
        case "numeric":
            places = getattr(field, "decimal_places", None)
            if places is None:
                raise InvalidInput("needs decimal_places to be cut into ranges", field=name)
            return DecimalAxis(decimal_places=places)
        case "interval":
            raise InvalidInput(
                "is a duration, which cannot be cut into ranges: walk another column of the table",
                field=name,
            )
        case _:
            raise InvalidInput(
                f"has the column type {column}, which cannot be cut into ranges", field=name
            )


def _column_type(field: Field[Any, Any]) -> str:
    """The type in PostgreSQL without its size: `varchar` for varchar(50)."""
    from django.db import connections

    # Every alias that a range can run on is PostgreSQL, so any will do.
    connection = connections["default"]
    column = field.db_type(connection)
    return (column or "none").partition("(")[0].strip()
