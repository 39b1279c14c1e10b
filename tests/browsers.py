"""The system's Chromium, driven by Playwright."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = Path("/usr/bin/chromium")


@contextmanager
def chromium() -> Iterator[Any]:
    """A running browser. This thread may use Django's database meanwhile.

    Playwright's loop runs in this thread as long as the browser, and where a loop runs Django keeps
    other connections than elsewhere. They are closed in the end: the next browser would find them
    again, still open to the database of these tests.
    """
    from django.db import connections
    from playwright.sync_api import expect, sync_playwright

    with pytest.MonkeyPatch.context() as patch, sync_playwright() as playwright:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
        expect.set_options(timeout=60_000)
        found = playwright.chromium.launch(
            executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        try:
            yield found
        finally:
            found.close()
            connections.close_all()
