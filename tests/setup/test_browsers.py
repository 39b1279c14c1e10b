"""The browser that tests are given."""

from __future__ import annotations

import pytest
from django.db import connection

from tests.browsers import CHROMIUM, chromium


@pytest.mark.browser
@pytest.mark.skipif(not CHROMIUM.exists(), reason="/usr/bin/chromium is not installed")
@pytest.mark.django_db(transaction=True)
def test_a_browser_leaves_no_connection_to_a_database_behind() -> None:
    connection.ensure_connection()
    outside = connection.connection
    with chromium():
        connection.ensure_connection()
        assert connection.connection is not outside
    with chromium():
        assert connection.connection is None
    assert connection.connection is outside
