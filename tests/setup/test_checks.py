"""What Django's system checks say of a project's settings."""

from __future__ import annotations

import pytest
from django.core.checks import run_checks
from django.db import connections
from psycopg import IsolationLevel


@pytest.mark.parametrize(
    ("level", "said"),
    [(IsolationLevel.SERIALIZABLE, ["coppice.W001"]), (IsolationLevel.READ_COMMITTED, [])],
)
def test_an_isolation_level_that_hides_what_is_new_is_warned_of(
    monkeypatch: pytest.MonkeyPatch, level: IsolationLevel, said: list[str]
) -> None:
    monkeypatch.setitem(connections.settings["default"], "OPTIONS", {"isolation_level": level})
    found = [str(message.id) for message in run_checks()]
    assert [id for id in found if id.startswith("coppice")] == said
