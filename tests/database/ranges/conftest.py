"""Tables to walk, which are no part of the product."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection

from tests.database.ranges import keyed


@pytest.fixture(scope="session")
def _keyed_tables(django_db_setup: None, django_db_blocker: Any) -> None:
    with django_db_blocker.unblock(), connection.schema_editor() as editor:
        for model in keyed.ALL:
            editor.create_model(model)
        if collation := keyed.language_collation():
            editor.execute(
                f'ALTER TABLE keyed_named ALTER COLUMN word TYPE text COLLATE "{collation}"'
            )


@pytest.fixture
def keyed_tables(_keyed_tables: None, db: None) -> None:
    """The tables of `keyed`, empty."""
