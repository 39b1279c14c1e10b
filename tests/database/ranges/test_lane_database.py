"""A lane's statements share the handler's transaction, and cost less than Django's."""

from __future__ import annotations

import pytest
from django.db import connection, transaction
from django.db.transaction import TransactionManagementError
from django.db.utils import DataError, IntegrityError, ProgrammingError

from jobs.models import Queue
from ranges.asking import ask
from ranges.lane_database import LaneDatabase

pytestmark = pytest.mark.django_db(transaction=True)

LIMITS = "SELECT current_setting('lock_timeout'), current_setting('statement_timeout')"


def limits() -> tuple[str, str]:
    with connection.cursor() as cursor:
        cursor.execute(LIMITS)
        lock, statement = cursor.fetchone()
        return lock, statement


def names() -> list[str]:
    return list(Queue.objects.order_by("name").values_list("name", flat=True))


def test_statements_of_a_leaf_have_its_limits_and_those_behind_it_do_not() -> None:
    database, before = LaneDatabase(), limits()
    with database.leaf(lock_seconds=3, statement_seconds=40):
        assert limits() == ("3s", "40s")
        with transaction.atomic():
            assert limits() == ("3s", "40s")
    assert limits() == before


def test_limits_hold_also_where_the_transaction_has_an_isolation_level_of_its_own() -> None:
    database = LaneDatabase()
    connection.ensure_connection()
    connection.connection.isolation_level = 3
    try:
        with database.leaf(lock_seconds=3, statement_seconds=0):
            assert limits() == ("3s", "0")
            with connection.cursor() as cursor:
                cursor.execute("SHOW transaction_isolation")
                assert cursor.fetchone()[0] == "repeatable read"
    finally:
        connection.connection.isolation_level = None


def test_what_the_lane_and_the_handler_write_in_a_leaf_is_one_transaction() -> None:
    database = LaneDatabase()
    with database.leaf(lock_seconds=1, statement_seconds=0):
        Queue.objects.create(name="by the handler")
        assert not database.is_untouched
        database.run("INSERT INTO jobs_queue (name) VALUES (%(name)s)", {"name": "by the lane"})
        assert names() == ["by the handler", "by the lane"]
        transaction.set_rollback(True)
    assert names() == []


def test_a_leaf_without_a_statement_has_no_transaction() -> None:
    database = LaneDatabase()
    database.rows("SELECT 1", {})
    with database.leaf(lock_seconds=1, statement_seconds=0):
        assert database.is_untouched
        transaction.on_commit(lambda: None)
        assert not database.is_untouched


def test_a_leaf_that_must_roll_back_takes_no_statement_of_the_lane() -> None:
    database = LaneDatabase()
    with database.leaf(lock_seconds=1, statement_seconds=0):
        transaction.set_rollback(True)
        assert not database.is_untouched
        with pytest.raises(TransactionManagementError):
            database.rows("SELECT 1", {})


def test_errors_are_those_of_django_and_its_connection_hears_of_them() -> None:
    database = LaneDatabase()
    with pytest.raises(DataError):
        database.rows("SELECT 1 / %(by)s", {"by": 0})
    with pytest.raises(ProgrammingError):
        database.rows("SELECT * FROM nowhere", {})
    assert connection.errors_occurred
    Queue.objects.create(name="once")
    with pytest.raises(IntegrityError):
        database.run("INSERT INTO jobs_queue (name) VALUES (%(name)s)", {"name": "once"})
    assert names() == ["once"]


@pytest.mark.parametrize("threshold", [None, 2])
def test_a_statement_is_prepared_once_whatever_django_does_between(threshold: int | None) -> None:
    database = LaneDatabase()
    connection.ensure_connection()
    usual = connection.connection.prepare_threshold
    connection.connection.prepare_threshold = threshold
    try:
        for number in range(4):
            with database.leaf(lock_seconds=1, statement_seconds=0):
                Queue.objects.create(name=f"queue {number}")
                ask(connection, "SELECT count(*) FROM jobs_queue", (), {"jit": "off"})
                assert database.rows("SELECT %(n)s::int + 41", {"n": number}) == [(number + 41,)]
        assert connection.connection.prepare_threshold == threshold
    finally:
        connection.connection.prepare_threshold = usual
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT generic_plans + custom_plans FROM pg_prepared_statements"
            " WHERE statement LIKE '%+ 41'"
        )
        assert cursor.fetchall() == [(4,)]


def test_a_connection_that_was_closed_is_opened_again() -> None:
    database = LaneDatabase()
    assert database.rows("SELECT 1", {}) == [(1,)]
    connection.close()
    assert database.rows("SELECT 2", {}) == [(2,)]
