"""A real browser before a real daphne, on a database that tests and server share.

Rows are made in this process, and what happens to them is told through the same Valkey: as if a
worker, or another operator, had done it. A page that breaks the policy, or whose script fails, fails
its test, whatever it was about.

- `server`: one daphne for all of them.
- `browser_page("Operator")`: a page, signed in with the permissions of a group ("" for none, None for
  a superuser).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from tests.browsers import CHROMIUM, chromium
from tests.live.conftest import Server, daphne, live_database, live_redis_url, working_in
from tests.processes.running import eventually

__all__ = ["live_database", "live_redis_url"]

AXE = Path(__file__).resolve().parents[1] / "vendor" / "axe" / "axe.min.js"
WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => {
  window.violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`);
});
"""
KEPT = ("auth_", "django_content_type", "django_migrations")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.browser)
            if not CHROMIUM.exists():
                item.add_marker(pytest.mark.skip(reason="/usr/bin/chromium is not installed"))


@pytest.fixture(scope="module", autouse=True)
def _in_shared_database(
    live_database: str, django_db_setup: None, django_db_blocker: Any
) -> Iterator[None]:
    with working_in(live_database, django_db_blocker):
        yield


@pytest.fixture(scope="session")
def _start_server(
    live_database: str, live_redis_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[], Server]]:
    # DEBUG: style sheets and scripts are served without being collected first.
    environment = {"REDIS_URL": live_redis_url, "COPPICE_ENVIRONMENT": "staging", "DEBUG": "true"}
    environment["COPPICE_LIVE_CONNECTIONS_PER_USER"] = "400"
    environment["COPPICE_WEBHOOK_ALLOW"] = "127.0.0.0/8"
    with ExitStack() as stack:

        def start() -> Server:
            return stack.enter_context(daphne(tmp_path_factory.mktemp("console"), **environment))

        yield cache(start)


@pytest.fixture(scope="module")
def server(_in_shared_database: None, _start_server: Callable[[], Server]) -> Server:
    """One daphne for all browser tests."""
    return _start_server()


@pytest.fixture(scope="module")
def browser(_in_shared_database: None) -> Iterator[Any]:
    from playwright.sync_api import expect

    expect.set_options(timeout=60_000)
    with chromium() as found:
        yield found


@pytest.fixture(autouse=True)
def empty(_in_shared_database: None) -> None:
    """No rows of the test before, and no numbers that were read then."""
    from django.db import connection

    from jobs import publishing

    publishing.install()  # whatever the test before has left of it
    tables = [
        name
        for name in connection.introspection.table_names()
        if name.startswith(("jobs_", "ranges_")) and not name.startswith(KEPT)
    ]
    with connection.cursor() as cursor:
        cursor.execute(f"TRUNCATE {', '.join(tables)} RESTART IDENTITY CASCADE")


def under_a_moving_hand(element: Any, fact: Callable[[], Any], what: str) -> Any:
    """Wait for a fact while the pointer is over the element: one that rests for seconds is nobody's."""
    box = element.bounding_box()
    steps = cycle([0.4, 0.6])

    def moved() -> Any:
        mouse = element.page.mouse
        mouse.move(box["x"] + next(steps) * box["width"], box["y"] + box["height"] / 2)
        return fact()

    return eventually(moved, what)


@dataclass(kw_only=True)
class Person:
    """A browser of one person, and what went wrong in it."""

    context: Any
    origin: str
    username: str
    problems: list[str] = field(default_factory=list)
    pages: list[Any] = field(default_factory=list)

    def open(self, path: str = "/admin/", *, status: int = 200) -> Any:
        page = self.context.new_page()
        page.on("pageerror", lambda error: self.problems.append(f"script: {error}"))
        page.on("console", self._note)
        page.set_default_timeout(60_000)
        self.pages.append(page)
        self.go(page, path, status=status)
        return page

    def go(self, page: Any, path: str, *, status: int = 200) -> None:
        answer = page.goto(f"{self.origin}{path}")
        assert answer.status == status, f"{path}: {answer.status}"

    def serious(self, page: Any, *rules: str) -> list[str]:
        """What axe finds that keeps somebody from using the page; by all of its rules, or these.

        But for the two-sided lists of Django.
        """
        so_far = len(self.problems)
        if not page.evaluate("'axe' in window"):
            page.evaluate(AXE.read_text(encoding="utf-8"))
        options: dict[str, Any] = {"resultTypes": ["violations"], "preload": False}
        if rules:
            options["runOnly"] = {"type": "rule", "values": rules}
        found = page.evaluate(
            "async (options) => (await axe.run({exclude: ['.selector']}, options)).violations",
            options,
        )
        # It tries styles of its own, which the policy refuses.
        page.evaluate("window.violations = []")
        del self.problems[so_far:]
        return [
            f"{each['id']}: {node['target']} {node['failureSummary'][:200]}"
            for each in found
            if each["impact"] in ("serious", "critical")
            for node in each["nodes"]
        ]

    def _note(self, message: Any) -> None:
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.problems.append(f"console: {message.text}")

    def check(self) -> None:
        for page in self.pages:
            if not page.is_closed():
                self.problems += page.evaluate("window.violations ?? []")
        assert self.problems == []


@pytest.fixture
def person(browser: Any, server: Server) -> Iterator[Callable[..., Person]]:
    made: list[Person] = []

    def make(group: str | None = None, **options: Any) -> Person:
        cookie, username = sign_in(group)
        origin = options.pop("origin", server.origin)
        context = browser.new_context(**{"reduced_motion": "reduce", **options})
        context.add_init_script(WATCH)
        context.add_cookies([{**cookie, "url": origin}])
        found = Person(context=context, origin=origin, username=username)
        made.append(found)
        return found

    yield make
    for each in made:
        try:
            each.check()
        finally:
            each.context.close()


def sign_in(group: str | None) -> tuple[dict[str, str], str]:
    """A session of a new member of the staff, as a cookie."""
    from django.conf import settings
    from django.contrib.auth.models import Group, User
    from django.test import Client

    user = User.objects.create_user(
        f"user-{secrets.token_hex(3)}", is_staff=True, is_superuser=group is None
    )
    if group:
        user.groups.add(Group.objects.get(name=group))
    client = Client()
    client.force_login(user)
    name = settings.SESSION_COOKIE_NAME
    return {"name": name, "value": client.cookies[name].value}, user.username
