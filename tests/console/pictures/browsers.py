"""Which Chromium there is."""

from __future__ import annotations

import shutil

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


class NoBrowser(Exception):
    def __init__(self) -> None:
        super().__init__(
            f"Pictures need a Chromium, and none of {', '.join(NAMES)} is on PATH. Where apt is, "
            "`make packages` installs one."
        )


def find_browser() -> str:
    """The path of its program. Raises NoBrowser."""
    for name in NAMES:
        if found := shutil.which(name):
            return found
    raise NoBrowser
