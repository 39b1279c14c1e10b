"""Rows that lie on another database than the jobs are walked where they lie."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.db import connections, transaction
from django.db.models import Q

from ranges.guard import judge
from ranges.querying import QuerySource
from tests.database.ranges.keyed import Numbered


@pytest.fixture
def other_database(
    database_url: str, django_db_setup: None, django_db_blocker: Any
) -> Iterator[str]:
    """The alias of a database of its own, with the table of `Numbered`."""
    name = f"elsewhere_{secrets.token_hex(6)}"
    with psycopg.connect(database_url, autocommit=True) as server:
        server.execute(f'CREATE DATABASE "{name}"'.encode())
    connections.settings[name] = {**connections.settings["default"], "NAME": name}
    with django_db_blocker.unblock():
        try:
            with connections[name].schema_editor() as editor:
                editor.create_model(Numbered)
            yield name
        finally:
            connections[name].close()
            del connections[name]
            del connections.settings[name]


def test_rows_on_another_database_are_walked_there(other_database: str) -> None:
    rows = Numbered.objects.using(other_database)
    rows.bulk_create(Numbered(id=id, done=id < 5) for id in range(1, 21))
    source = QuerySource(rows.all(), todo=Q(done=False))
    assert source.alias == other_database
    assert source.limits() == (1, 21)
    leaves, cur = [], 1
    while found := source.next_leaf(cur, 21, 4):
        leaves.append((found.first, found.upto))
        assert isinstance(found.upto, int)
        cur = found.upto
    met = [row.id for leaf in leaves for row in source.leaf_queryset(*leaf)]
    assert met == list(range(5, 21))
    assert source.median(1, 21) == 13
    assert source.keys(1, 21, 2) == [5, 6]
    assert source.boundaries(1, 21, 4)
    assert judge(source).probing == "filter"
    with transaction.atomic(using=other_database):
        source.leaf_queryset(1, 21).update(done=True)
        assert source.next_leaf(1, 21, 5) is None


class ReadsFromACopy:
    def db_for_read(self, model: Any, **hints: Any) -> str:
        return "copy"

    def db_for_write(self, model: Any, **hints: Any) -> str:
        return "default"


def test_the_writers_database_is_asked_where_readers_have_another(settings: Any) -> None:
    settings.DATABASE_ROUTERS = [ReadsFromACopy()]
    assert Numbered.objects.all().db == "copy"
    assert QuerySource(Numbered.objects.all()).alias == "default"
