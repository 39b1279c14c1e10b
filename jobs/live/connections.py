"""Who is connected to this process: how many, whose, and who is sent away at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from django.contrib.auth.signals import user_logged_out
from django.dispatch import receiver

from jobs import conf
from jobs.live.gate import Person, Refused
from jobs.tokens import revoked

SESSION_ENDED = 4401
PERMISSION_GONE = 4403


class Connection(Protocol):
    person: Person

    def end(self, code: int) -> None:
        """Close it soon. From any thread."""
        ...


_open: set[Connection] = set()


def enter(connection: Connection) -> None:
    """Raises Refused if there are too many."""
    settings = conf.get()
    if len(_open) >= settings.live_connections:
        raise Refused(429, "Too many live connections to this process.")
    user = connection.person.user
    if sum(one.person.user == user for one in _open) >= settings.live_connections_per_user:
        raise Refused(429, "Too many live connections of this user.")
    _open.add(connection)


def leave(connection: Connection) -> None:
    _open.discard(connection)


def count() -> int:
    return len(_open)


def end_those(test: Callable[[Person], bool], code: int) -> None:
    for one in list(_open):
        if test(one.person):
            one.end(code)


@receiver(user_logged_out, dispatch_uid="coppice-live-logout")
def _end_session(*, request: Any = None, **_: Any) -> None:
    key = getattr(getattr(request, "session", None), "session_key", None)
    if key:
        end_those(lambda person: person.session == key, SESSION_ENDED)


@receiver(revoked, dispatch_uid="coppice-live-revoked")
def _end_token(*, token: int, **_: Any) -> None:
    end_those(lambda person: person.token == token, SESSION_ENDED)
