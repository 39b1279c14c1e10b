"""Tests of the console: those here in this process, those below `browser/` in a real browser."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _no_sample_of_another_test() -> None:
    from tests.console.anew import look_anew

    look_anew()
