"""Tests of the console: those here in this process, those below `browser/` in a real browser."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _no_sample_of_another_test() -> None:
    from tests.console.anew import look_anew

    look_anew()


@pytest.fixture
def frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    """What pages share stays as it is, however slow the machine: for those who count questions."""
    from jobs.console import kept, sample

    monkeypatch.setattr(kept, "_is_of", lambda *_: True)
    monkeypatch.setattr(sample, "_is_fresh", lambda _: True)
