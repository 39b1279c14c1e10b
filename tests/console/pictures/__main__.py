"""Pictures of every page of the console: full and empty, light and dark, wide and narrow.

    python -m tests.console.pictures [--only NAME ...] [--site full] [--theme dark] [--width 390]
    python -m tests.console.pictures --publish

Needs nothing prepared but a Chromium on PATH: the servers are of its own, in a temporary folder. The
pictures and `index.html`, to leaf through them, lie in `build/screenshots`. What is wider than its
screen, or makes the browser complain, is said at the end; the exit code is then 1.
"""

from __future__ import annotations

import argparse
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from itertools import product
from pathlib import Path
from typing import Any

from config import embedded
from config.servers import Place, embedded_programs, postgres_url, valkey_url
from tests.console.pictures.browsers import NoBrowser, find_browser

CHECKOUT = Path(__file__).resolve().parents[3]
INTO = CHECKOUT / "build" / "screenshots"
SITES, THEMES, WIDTHS = ("full", "empty"), ("light", "dark"), (1440, 390)


def main() -> int:
    options = read_options()
    try:
        program = find_browser()
    except NoBrowser as error:
        print(error, file=sys.stderr)
        return 2
    with servers() as (place, folder):
        _set_up_django(place)
        from playwright.sync_api import sync_playwright

        from tests.console.pictures.publishing import publish
        from tests.console.pictures.taking import Stage

        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=program, args=["--no-sandbox", "--disable-dev-shm-usage"]
            )
            stage = Stage(place=place, folder=folder, browser=browser)
            stage.prepare()
            problems = publish(stage) if options.publish else take(stage, options)
            browser.close()
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


def take(stage: Any, options: argparse.Namespace) -> list[str]:
    from tests.console.pictures import leafing
    from tests.console.pictures.catalogue import pictures
    from tests.console.pictures.taking import Look

    wanted = [
        picture
        for picture in pictures()
        if not options.only or any(fnmatchcase(picture.name, only) for only in options.only)
    ]
    if not options.only:
        shutil.rmtree(options.into, ignore_errors=True)
    options.into.mkdir(parents=True, exist_ok=True)
    problems: list[str] = []
    for site, width, theme in product(options.site, options.width, options.theme):
        look = Look(site=site, theme=theme, width=width)
        print(f"{site}, {theme}, {width} px", flush=True)
        with stage.site(look) as camera:
            for picture in wanted:
                if site == "full" or picture.is_for_empty:
                    camera.take(picture, options.into)
            problems += camera.problems
    print(f"{leafing.write(options.into)} pictures: {options.into / leafing.INDEX}")
    return problems


@contextmanager
def servers() -> Iterator[tuple[Place, Path]]:
    """PostgreSQL and Valkey without durability, in a folder that vanishes."""
    # In /tmp whatever TMPDIR says: the path of a socket must be short.
    folder = Path(tempfile.mkdtemp(prefix="coppice-pictures-", dir="/tmp"))
    folder.chmod(0o755)  # the servers' account must get through
    place = Place(home=folder / "servers")
    try:
        embedded.start(
            embedded.Wanted(
                place=place, postgres=embedded_programs(), valkey=True, fast=True, temporary=True
            )
        )
        yield place, folder
    finally:
        from django.db import connections

        connections.close_all()
        embedded.release(place)
        shutil.rmtree(folder, ignore_errors=True)


def _set_up_django(place: Place) -> None:
    os.environ |= {
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "DATABASE_URL": postgres_url(place, "postgres"),
        "REDIS_URL": valkey_url(place),
        "SECRET_KEY": secrets.token_urlsafe(60),
        "ALLOWED_HOSTS": "localhost,testserver",
        "DEBUG": "true",  # style sheets are served without being collected first
        "DEMO": "true",
        "HTTPS": "false",
        "LOG_LEVEL": "ERROR",
        "COPPICE_ENVIRONMENT": "staging",
        "COPPICE_LIVE_CONNECTIONS_PER_USER": "400",
        "DJANGO_ALLOW_ASYNC_UNSAFE": "true",  # Playwright keeps a loop in this thread
    }
    import django

    django.setup()
    from tests.console.pictures import shop  # noqa: F401 - its types are known from here on


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.console.pictures", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument(
        "--only", nargs="+", metavar="NAME", help='of these names alone; "job-*" is a pattern'
    )
    parser.add_argument("--site", nargs="+", choices=SITES, default=SITES)
    parser.add_argument("--theme", nargs="+", choices=THEMES, default=THEMES)
    parser.add_argument("--width", nargs="+", type=int, default=WIDTHS, help="in CSS pixels")
    parser.add_argument("--into", type=Path, default=INTO, help="default: %(default)s")
    parser.add_argument(
        "--publish", action="store_true", help="make the few of docs/images anew, and no others"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
