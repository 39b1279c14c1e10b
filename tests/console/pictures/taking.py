"""Taking the pictures: a browser before the real server, on rows made for one theme and one width.

The rows are made anew for each: their times are to be those of now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import psycopg

from config.servers import Place, postgres_url, valkey_url
from tests.console.pictures.catalogue import STRANGER, Picture

TALLEST = 8_000
HEIGHTS = {1440: 900, 390: 844}
TEMPLATE = "pictured"
FRAMES = """
() => document.fonts.ready.then(() => new Promise((done) =>
  requestAnimationFrame(() => requestAnimationFrame(() => requestAnimationFrame(done)))))
"""
NOWHERE = "postgresql://nobody@127.0.0.1:9/nowhere"
"""Nothing answers there."""
SECONDS = 15_000


@dataclass(frozen=True, kw_only=True)
class Look:
    """How a picture is taken."""

    site: str
    """full, or empty"""
    theme: str
    width: int

    def file(self, picture: Picture) -> str:
        return f"{picture.name}-{self.site}-{self.theme}-{self.width}.png"


@dataclass(kw_only=True)
class Stage:
    """The servers, and the browser."""

    place: Place
    folder: Path
    browser: Any
    made: int = 0

    def prepare(self) -> None:
        """A database to copy, with the product's tables."""
        from django.core.management import call_command

        self._create(TEMPLATE)
        self._point_django_at(TEMPLATE)
        call_command("migrate", verbosity=0)

    @contextmanager
    def site(self, look: Look) -> Iterator[Camera]:
        """A fresh site and its server."""
        from tests.console.pictures import scene
        from tests.live.conftest import daphne

        self._new_database()
        scene.people()
        things = scene.build() if look.site == "full" else {}
        redis = valkey_url(self.place)
        with ExitStack() as stack:

            def serve(**environment: str) -> str:
                environment = {"REDIS_URL": redis, "DEBUG": "true", **environment}
                started = daphne(self.folder, "tests.console.pictures.site", **environment)
                return stack.enter_context(started).origin

            yield Camera(
                look=look,
                browser=self.browser,
                origin=serve(),
                without_database=cache(lambda: serve(DATABASE_URL=NOWHERE)),
                things=things,
            )

    def _new_database(self) -> None:
        from jobs.live import stream

        self.made += 1
        name = f"{TEMPLATE}_{self.made}"
        self._point_django_at(TEMPLATE)  # leaves the one before, and the template to be copied
        self._create(f"{name} TEMPLATE {TEMPLATE}")
        self._point_django_at(name)
        stream.client().flushall()

    def _create(self, database: str) -> None:
        with psycopg.connect(postgres_url(self.place, "postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {database}".encode())

    def _point_django_at(self, name: str) -> None:
        from django.db import connections

        connections["default"].close()
        connections["default"].settings_dict["NAME"] = name


@dataclass(kw_only=True)
class Camera:
    """Takes pictures of one site in one look."""

    look: Look
    browser: Any
    origin: str
    without_database: Callable[[], str]
    """Where a server answers that has no database."""
    things: dict[str, str]
    contexts: dict[tuple[str, bool], Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def take(self, picture: Picture, into: Path) -> None:
        """Store the picture, with a name that tells its look."""
        try:
            with self._open(picture) as page:
                if picture.is_whole:
                    # What sticks to the window must not stand in the middle of the picture.
                    height = page.evaluate("document.documentElement.scrollHeight")
                    self._resize(picture, page, min(height, TALLEST))
                path = into / self.look.file(picture)
                page.screenshot(path=str(path), animations="disabled", caret="hide")
        except Exception as error:  # noqa: BLE001 - the others are worth seeing all the same
            self._note(picture, str(error).strip().splitlines()[0])

    def see(self, picture: Picture, *, height: int) -> bytes:
        """The upper part of the page, as PNG."""
        with self._open(picture) as page:
            self._resize(picture, page, height)
            found: bytes = page.screenshot(animations="disabled", caret="hide")
            return found

    @contextmanager
    def _open(self, picture: Picture) -> Iterator[Any]:
        """The page as it is to be pictured."""
        from tests.console.pictures import scene

        scene.beat()
        if picture.before is not None:
            picture.before()
        page = self._context(picture).new_page()
        page.set_default_timeout(SECONDS)
        page.on("pageerror", lambda error: self._note(picture, f"script: {error}"))
        page.on("console", lambda message: self._note_console(picture, message))
        try:
            origin = self.without_database() if picture.is_without_database else self.origin
            answer = page.goto(f"{origin}{picture.path(self.things)}")
            if answer.status != picture.status:
                self._note(picture, f"answered {answer.status}, not {picture.status}")
            self._settle(picture, page)
            if picture.then is not None:
                picture.then(page)
                self._settle(picture, page)
            self._measure(picture, page)
            yield page
        finally:
            page.close()

    def _settle(self, picture: Picture, page: Any) -> None:
        """Until the feed is there and what draws has drawn."""
        if not picture.has_script:
            return
        page.wait_for_load_state("load")
        chip = page.locator("#live:not([hidden])")
        if chip.count():
            page.locator('#live[data-state="live"]').wait_for()
        page.evaluate(FRAMES)

    def _measure(self, picture: Picture, page: Any) -> None:
        """A page never scrolls sideways."""
        width = page.evaluate("document.documentElement.scrollWidth")
        if width > self.look.width:
            self._note(picture, f"is {width} px wide on a screen of {self.look.width}")

    def _context(self, picture: Picture) -> Any:
        """The browser of a person."""
        key = (picture.who, picture.has_script)
        if key not in self.contexts:
            context = self.browser.new_context(
                viewport={"width": self.look.width, "height": HEIGHTS.get(self.look.width, 900)},
                color_scheme=self.look.theme,
                reduced_motion="reduce",
                java_script_enabled=picture.has_script,
                locale="en-GB",
                timezone_id="UTC",
            )
            if picture.who != STRANGER:
                context.add_cookies([{**_session(picture.who), "url": self.origin}])
            self.contexts[key] = context
        return self.contexts[key]

    def _resize(self, picture: Picture, page: Any, height: int) -> None:
        page.set_viewport_size({"width": self.look.width, "height": height})
        # Charts and drawings follow with the next frames. Without script nobody is told of a frame.
        page.wait_for_timeout(100)
        if picture.has_script:
            page.evaluate(FRAMES)

    def _note_console(self, picture: Picture, message: Any) -> None:
        if message.type == "error" and "Failed to load resource" not in message.text:
            self._note(picture, f"console: {message.text}")

    def _note(self, picture: Picture, what: str) -> None:
        self.problems.append(f"{self.look.file(picture)}: {what}")


def _session(name: str) -> dict[str, str]:
    from django.conf import settings
    from django.contrib.auth.models import User
    from django.test import Client

    client = Client()
    client.force_login(User.objects.get(username=name))
    cookie = settings.SESSION_COOKIE_NAME
    return {"name": cookie, "value": client.cookies[cookie].value}
