"""Every button and form of the console, for each group: what one may do is there and works without
JavaScript, what one may not do is not there, and is refused all the same.

`controls.py` is the whole of it: a control that is missing there fails.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.test import Client
from django.urls import Resolver404, resolve

from jobs import tokens
from tests.console.controls import INCOMPLETE, LADDER, LOWEST, Control
from tests.console.everything import TYPE, everything
from tests.console.people import client_of
from tests.console.reading import Form, Page

pytestmark = pytest.mark.django_db

OTHERS = ("auth_", "geonames_", "logout", "login", "password_change")
"""Pages of Django's own, and those of the example."""
TOLD_APART = ("action", "state", "type")
"""Addresses that differ in other parts of the query show the same buttons."""

type Sent = tuple[Form, tuple[str, str]]


@dataclass
class Visit:
    """What somebody finds who follows every link, and reads every form."""

    client: Client
    seen: set[Any] = field(default_factory=set)
    wrong: list[str] = field(default_factory=list)
    controls: dict[Control, Sent] = field(default_factory=dict)
    searches: dict[str, Form] = field(default_factory=dict)

    def go(self) -> Visit:
        waiting = ["/admin/"]
        while waiting:
            waiting.sort(key=len, reverse=True)
            url = waiting.pop()
            kind = _kind(url)
            if kind is None or kind in self.seen:
                continue
            self.seen.add(kind)
            response: Any = self.client.get(url)
            if response.status_code not in (200, 302):
                self.wrong.append(f"a link leads to {url}: {response.status_code}")
            elif not response.streaming and response["Content-Type"].startswith("text/html"):
                page = Page(response.content.decode(), url)
                waiting += page.links
                if kind == ("jobs_job_add", ()):
                    waiting.append(f"{url}?type={TYPE}")
                for form in page.forms:
                    self._read(form)
        return self

    def _read(self, form: Form) -> None:
        name = _name(form.action)
        if form.method == "get":
            self.searches.setdefault(name, form)
        elif not name.startswith(OTHERS):
            for button in form.buttons:
                self._note(name, form, button)

    def _note(self, name: str, form: Form, button: tuple[str, str]) -> None:
        chosen = form.choices.get("action", []) if button[0] == "index" else []
        for action in filter(None, chosen):
            fields = [pair for pair in form.fields if pair[0] != "action"]
            picked = replace(form, fields=[*fields, ("action", action)])
            self.controls.setdefault((name, action), (picked, button))
        if button[0] != "index":
            self.controls.setdefault((name, _label(form, button)), (form, button))

    @cached_property
    def token(self) -> str:
        """What the forms of this person carry."""
        self.client.get("/admin/password_change/")
        return str(self.client.cookies["csrftoken"].value)

    def send(self, sent: Sent) -> tuple[int, Any]:
        """Press a button, of one's own or somebody else's form: the answer, and how much there is
        of everything then. What it did is undone.
        """
        form, button = sent
        data = form.data(button, csrfmiddlewaretoken=self.token, **_filled(form))
        data |= {name: [value] for name, value in form.unticked if name == "_selected_action"}
        with transaction.atomic():
            response: Any = self.client.post(form.action, data)
            if response.status_code == 200 and not response.streaming:
                page = Page(response.content.decode(), form.action)
                if asked := next(filter(_asks, page.forms), None):
                    response = self._answer(asked, page)
            standing = _standing()
            transaction.set_rollback(True)
        return response.status_code, standing

    def _answer(self, asked: Form, page: Page) -> Any:
        """The page that asks once more is answered as it wants to be."""
        words = page.text.partition("To confirm, type ")[2].split("\n")[0].strip()
        typed = _filled(asked) | ({"typed": words} if "typed" in asked.wanted else {})
        data = asked.data(asked.buttons[-1], csrfmiddlewaretoken=self.token, **typed)
        return self.client.post(asked.action, data)


def _filled(form: Form) -> dict[str, str]:
    """What must be filled in, with a word that is right in some places."""
    return dict.fromkeys(form.wanted, "mail")


def _asks(form: Form) -> bool:
    return form.method == "post" and form.value("confirmed") == "yes"


def _name(url: str) -> str:
    try:
        return str(resolve(urlsplit(url).path).url_name)
    except Resolver404:
        return ""


def _kind(url: str) -> Any:
    """Addresses of one kind show the same things; None: it is not one of the console's pages."""
    parts = urlsplit(url)
    name = _name(url)
    if parts.netloc or not parts.path.startswith("/admin/") or name.startswith(OTHERS):
        return None
    query = dict(parse_qsl(parts.query))
    told = tuple((each, query[each]) for each in TOLD_APART if each in query)
    if name != "jobs_job_add":
        told = tuple(pair for pair in told if pair[0] != "type")
    return parts.path if name.endswith("_change") else name, told


def _label(form: Form, button: tuple[str, str]) -> str:
    name, value = button
    if name in ("", "_save"):
        return form.value("action")
    return value.partition(":")[0] if name in ("action", "one", "do", "step") else name


def _standing() -> Any:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT (SELECT count(*) FROM jobs_auditentry), (SELECT count(*) FROM jobs_job),"
            " (SELECT count(*) FROM jobs_bulkoperation), (SELECT count(*) FROM jobs_webhook),"
            " (SELECT count(*) FROM jobs_schedule), (SELECT count(*) FROM ranges_rangerun)"
        )
        return cursor.fetchone()


@pytest.mark.usefixtures("redis_url")  # the newest events are those of no other test
def test_each_group_finds_what_it_may_do_and_nothing_else() -> None:
    everything()
    visits = {}
    for group in LADDER:
        signed_in = client_of("" if group == "anybody" else group)
        tokens.create(User.objects.get(username=signed_in.username), "mine")  # type: ignore[attr-defined]
        client = Client(enforce_csrf_checks=True)
        client.cookies = signed_in.cookies
        visits[group] = Visit(client=client).go()
    wrong = [f"{group}: {each}" for group, visit in visits.items() for each in visit.wrong]
    before, everybodys = _standing(), visits[LADDER[-1]].controls
    for group, visit in visits.items():
        may = {
            control for control, lowest in LOWEST.items() if group in LADDER[LADDER.index(lowest) :]
        }
        wrong += [f"{group}: {each} is not there" for each in sorted(may - set(visit.controls))]
        wrong += [f"{group}: {each} is there" for each in sorted(set(visit.controls) - may)]
        for control in sorted(set(everybodys) - may):
            answer, after = visit.send(everybodys[control])
            is_djangos = everybodys[control][1][0] == "index"  # it passes over what is not offered
            if (answer != 403 and not (is_djangos and answer == 200)) or after != before:
                wrong.append(f"{group}: {control} is answered {answer}")
    for control, lowest in LOWEST.items():
        if control in visits[lowest].controls:
            answer, _ = visits[lowest].send(visits[lowest].controls[control])
            if answer not in ((422,) if control in INCOMPLETE else (200, 302)):
                wrong.append(f"{lowest}: {control} is answered {answer}")
    for name, form in visits[LADDER[-1]].searches.items():
        found = visits[LADDER[-1]].client.get(form.action, form.data(("", "")))
        if found.status_code != 200:
            wrong.append(f"the search of {name} is answered {found.status_code}")
    assert wrong == [], "\n".join(wrong)
