"""One of each kind of person, and the tables of what each is answered."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.test import Client
from rest_framework.test import APIClient

from jobs import tokens
from tests.security.people import person

STRANGERS = ("anonymous", "inactive", "revoked")
PEOPLE = ("no-group", "Viewer", "Operator", "Supervisor", "superuser")
EVERYBODY = (*PEOPLE, *STRANGERS)

type Answers = dict[str, str]


def table(text: str, strangers: str) -> dict[tuple[str, str], Answers]:
    """The answers by route and method; `strangers` where a line does not say otherwise."""
    found: dict[tuple[str, str], Answers] = {}
    for line in text.strip().splitlines():
        pattern, method, *answers = line.split()
        theirs = answers[5].split(",") if len(answers) == 6 else [strangers]
        assert len(answers) in (5, 6), line
        assert len(theirs) in (1, 3), line
        assert (pattern, method) not in found, f"twice: {line}"
        found[pattern, method] = dict(zip(PEOPLE, answers, strict=False)) | dict(
            zip(STRANGERS, theirs * (3 // len(theirs)), strict=True)
        )
    return found


class Crowd:
    """One of each, with a client that is signed in as each would be."""

    def __init__(self, client: type[Client]) -> None:
        self.clients: dict[str, Client] = {"anonymous": client(), "inactive": client()}
        inactive = person("Supervisor", "inactive")
        self.clients["inactive"].force_login(inactive)
        User.objects.filter(pk=inactive.pk).update(is_active=False)
        token, key = tokens.create(person("Supervisor", "revoked"), "test")
        tokens.revoke(token)
        self.clients["revoked"] = client(headers={"Authorization": f"Token {key}"})
        for name in PEOPLE:
            group = name if name in ("Viewer", "Operator", "Supervisor") else None
            user = person(group, f"the-{name}", superuser=name == "superuser")
            if client is APIClient:
                _, key = tokens.create(user, "test")
                self.clients[name] = client(headers={"Authorization": f"Token {key}"})
            else:
                self.clients[name] = client()
                self.clients[name].force_login(user)

    def ask(self, who: str, method: str, path: str, **more: Any) -> str:
        """The status, or "login" for the way to the sign-in page; what was done is undone."""
        client = self.clients[who]
        cookies = {name: cookie.value for name, cookie in client.cookies.items()}
        with transaction.atomic():
            response = client.generic(method, path, **more)
            transaction.set_rollback(True)
        client.cookies.clear()
        client.cookies.load(cookies)
        if response.status_code == 302 and "/login/?next=" in response["Location"]:
            return "login"
        return str(response.status_code)


def differences(
    expected: dict[tuple[str, str], Answers], found: dict[tuple[str, str], Answers]
) -> list[str]:
    """What is not as it should be, one line each."""
    lines = []
    for place in sorted(expected.keys() | found.keys()):
        wanted, given = expected.get(place), found.get(place)
        for who in (given or wanted or {}) if wanted != given else ():
            one, other = (wanted or {}).get(who, "no row"), (given or {}).get(who, "not answered")
            if one != other:
                lines.append(f"{' '.join(place)} {who}: {other}, not {one}")
    return lines
