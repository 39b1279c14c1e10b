"""What the tests of bulk operations share."""

from __future__ import annotations

import pytest

from jobs.bulk import running


@pytest.fixture(autouse=True)
def _no_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "REST", 0.0)


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "BATCH", 3)
