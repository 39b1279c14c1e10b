"""Tables are emptied after a test that commits: those that somebody wrote to, and no others.

Django empties all of them, and then makes permissions and content types anew, which takes longer than
most tests. Here a table without a page is left alone, and what the migrations filled is looked at and
put back if it is no longer what it was.
"""

from __future__ import annotations

from typing import Any

import psycopg
from django.contrib.contenttypes.models import ContentType
from django.db import connection

FILLED = (
    "django_migrations",
    "django_content_type",
    "auth_permission",
    "auth_group",
    "auth_group_permissions",
)
"""By the migrations. None refers to a table that is not among them."""

WRITTEN_TO = """
SELECT quote_ident(relname) FROM pg_class
WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND relname <> ALL(%s)
    AND pg_relation_size(oid) > 0
"""


class Emptying:
    """Remembers what the migrations left, when it is made."""

    def __init__(self) -> None:
        self._filled = {table: _copy_of(table) for table in FILLED}

    def empty(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute(WRITTEN_TO, [list(FILLED)])
            tables = [name for (name,) in cursor.fetchall()]
            if tables:
                cursor.execute(f"TRUNCATE {', '.join(tables)} CASCADE")
        if any(_copy_of(table) != rows for table, rows in self._filled.items()):
            self._put_back()

    def _put_back(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"TRUNCATE {', '.join(FILLED)} CASCADE")
            for table, rows in self._filled.items():
                with _raw(cursor).copy(f"COPY {table} FROM STDIN".encode()) as copy:
                    copy.write(rows)
        ContentType.objects.clear_cache()


def _copy_of(table: str) -> bytes:
    with (
        connection.cursor() as cursor,
        _raw(cursor).copy(f"COPY (SELECT * FROM {table} ORDER BY id) TO STDOUT".encode()) as copy,
    ):
        return b"".join(bytes(part) for part in copy)


def _raw(cursor: Any) -> psycopg.Cursor[Any]:
    found: psycopg.Cursor[Any] = cursor.cursor
    return found
