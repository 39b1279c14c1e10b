"""Tables with a key of each type, made by the fixture `keyed_tables` and gone with the test run."""

from __future__ import annotations

import uuid
from typing import Any, ClassVar

from django.db import connection, models

# ruff: noqa: DJ008 - nobody reads their names.


class Table(models.Model):
    objects: ClassVar[models.Manager[Any]] = models.Manager()

    class Meta:
        abstract = True
        app_label = "keyed"


class Numbered(Table):
    """A bigint primary key, and work that is done or not."""

    id = models.BigIntegerField(primary_key=True)
    done = models.BooleanField(default=False)
    group = models.IntegerField(null=True)

    class Meta(Table.Meta):
        indexes: ClassVar = [models.Index(fields=["group"], name="keyed_numbered_group")]


class Small(Table):
    """An integer primary key, whose last value may be the last of its type."""

    id = models.IntegerField(primary_key=True)


class Marked(Table):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4)


class Dated(Table):
    day = models.DateField(unique=True)
    at = models.DateTimeField(unique=True)


class Measured(Table):
    amount = models.DecimalField(max_digits=12, decimal_places=2, unique=True)
    weight = models.FloatField(unique=True)


class Named(Table):
    """Text keys: in the database's own collation, in "C", and in a language's if it has one."""

    name = models.TextField(unique=True)
    code = models.TextField(unique=True, db_collation="C")
    word = models.TextField(unique=True)
    done = models.BooleanField(default=False)


class Code(Table):
    code = models.CharField(max_length=50, primary_key=True, db_collation="C")


class Line(Table):
    """Many for one number, and keyed by a foreign key's column."""

    number = models.ForeignKey(Numbered, on_delete=models.CASCADE, related_name="lines")
    code = models.ForeignKey(Code, on_delete=models.CASCADE, null=True)
    done = models.BooleanField(default=False)


class Unindexed(Table):
    rank = models.IntegerField()
    done = models.BooleanField(default=False)


ALL = (Numbered, Small, Marked, Dated, Measured, Named, Code, Line, Unindexed)


def language_collation() -> str | None:
    """A collation that puts "a" before "B"; None: this server was built without any."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT collname FROM pg_collation WHERE collencoding IN (-1, 6)"
            " AND collname ~ '^(de|en|fr|sv)[-_]' ORDER BY collname LIKE '%-x-icu' DESC, collname"
        )
        return next((name for (name,) in cursor.fetchall()), None)
