"""A reading statement with settings of its own, sent to the database in one message.

    BEGIN; SET LOCAL ...; SELECT ...; ROLLBACK            outside a transaction
    SAVEPOINT; SET LOCAL ...; SELECT ...; ROLLBACK TO     inside one

What is set ends with it, and an error in it leaves the caller's transaction whole. A lane asks once
for each leaf, so five messages would be felt.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

SAVEPOINT = "coppice_ask"


def ask(
    connection: Any, sql: str, params: tuple[Any, ...], settings: Mapping[str, str]
) -> list[Any]:
    """The rows of the statement, on this connection of Django's. `settings` are trusted words."""
    if connection.in_atomic_block or not connection.get_autocommit():
        opening, closing = f"SAVEPOINT {SAVEPOINT}", f"ROLLBACK TO SAVEPOINT {SAVEPOINT}"
        closing += f"; RELEASE SAVEPOINT {SAVEPOINT}"
    else:
        opening, closing = "BEGIN", "ROLLBACK"
    before = [opening, *(f"SET LOCAL {name} = {value}" for name, value in settings.items())]
    with connection.cursor() as cursor:
        # After a ROLLBACK the driver forgets what it has prepared, the statements of a lane too,
        # unless it prepares nothing.
        driver = connection.connection
        usual, driver.prepare_threshold = driver.prepare_threshold, None
        is_over = False
        try:
            if connection.settings_dict["OPTIONS"].get("server_side_binding"):
                # The server takes values with one statement at a time.
                cursor.execute("; ".join(before))
                cursor.execute(sql, params)
                rows: list[Any] = cursor.fetchall()
                is_over = True
                cursor.execute(closing)
                return rows
            cursor.execute("; ".join([*before, sql, closing]), params)
            is_over = True
            for _ in before:
                cursor.nextset()
            return list(cursor.fetchall())
        except BaseException:
            # The answer may hold what the driver cannot read, after all of it was executed. And of a
            # broken connection there is nothing to be put right.
            if not is_over:
                with suppress(Exception):
                    cursor.execute(closing)
            raise
        finally:
            driver.prepare_threshold = usual
