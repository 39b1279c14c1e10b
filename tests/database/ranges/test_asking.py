"""A statement that is asked has settings of its own, which end with it, however it ends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.utils import OperationalError, ProgrammingError

from ranges.asking import ask

pytestmark = pytest.mark.django_db(transaction=True)

SHOW = "SELECT current_setting('enable_seqscan'), %s::int"
WALK = {"enable_seqscan": "off"}


@pytest.fixture(params=[False, True], ids=["bound here", "bound by the server"])
def asked(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A connection of its own, whose driver or whose server puts values into statements."""
    other: Any = connection.copy()
    other.settings_dict = {
        **connection.settings_dict,
        "OPTIONS": {**connection.settings_dict["OPTIONS"], "server_side_binding": request.param},
    }
    yield other
    other.close()


def seqscan(asked: Any) -> str:
    with asked.cursor() as cursor:
        cursor.execute("SELECT current_setting('enable_seqscan')")
        return str(cursor.fetchone()[0])


def is_idle(asked: Any) -> bool:
    return bool(asked.connection.info.transaction_status.name == "IDLE")


def test_a_setting_holds_for_the_statement_and_ends_with_it(asked: Any) -> None:
    assert ask(asked, SHOW, (7,), WALK) == [("off", 7)]
    assert is_idle(asked)
    assert seqscan(asked) == "on"


def test_inside_a_transaction_what_was_done_before_stays(asked: Any) -> None:
    asked.set_autocommit(False)
    with asked.cursor() as cursor:
        cursor.execute("CREATE TEMPORARY TABLE kept AS SELECT 1 AS n")
    assert ask(asked, "SELECT n, %s::int FROM kept", (8,), WALK) == [(1, 8)]
    assert seqscan(asked) == "on"
    with pytest.raises(ProgrammingError):
        ask(asked, "SELECT n, %s::int FROM missing", (8,), WALK)
    assert ask(asked, "SELECT n, %s::int FROM kept", (9,), WALK) == [(1, 9)]


def test_a_time_out_ends_the_statement_and_nothing_else(asked: Any) -> None:
    limits = {"statement_timeout": "20"}
    with pytest.raises(OperationalError, match="timeout"):
        ask(asked, "SELECT pg_sleep(%s)", (30,), limits)
    assert is_idle(asked)
    asked.set_autocommit(False)
    with asked.cursor() as cursor:
        cursor.execute("CREATE TEMPORARY TABLE kept AS SELECT 1 AS n")
    with pytest.raises(OperationalError, match="timeout"):
        ask(asked, "SELECT pg_sleep(%s)", (30,), limits)
    assert ask(asked, "SELECT n FROM kept", (), {}) == [(1,)]


def test_a_percent_sign_of_the_statement_is_no_value(asked: Any) -> None:
    assert ask(asked, "SELECT 7 %% 4", (), {}) == [(3,)]


def test_an_atomic_block_goes_on_after_an_error() -> None:
    with transaction.atomic():
        with pytest.raises(ProgrammingError):
            ask(connection, "SELECT n FROM missing", (), {})
        assert ask(connection, "SELECT 1", (), {}) == [(1,)]
