"""Who may listen: asked before anything is accepted, and again and again afterwards.

The same questions each time, from the database: the session or token, an active user, the
permission. A look never changes a session: there is no answer that could carry a new cookie.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from io import BytesIO
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth import get_user
from django.core.exceptions import DisallowedHost
from django.core.handlers.asgi import ASGIRequest
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest
from django.utils.http import is_same_domain
from rest_framework.exceptions import AuthenticationFailed

from jobs import permissions
from jobs.api.authentication import TokenAuthentication


@dataclass(frozen=True, kw_only=True)
class Person:
    """Who listens, as far as the feed needs to know."""

    user: str
    """The user's primary key."""
    may_see: bool
    """Whether error texts are shown."""
    session: str | None = None
    token: int | None = None


class Refused(Exception):
    """`status` is an HTTP status: 400, 401, 403, 429, or 503 when it cannot be found out."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


def request_of(scope: dict[str, Any]) -> ASGIRequest:
    """Django's view of a connection, also of a WebSocket's. Raises Refused."""
    scheme = {"ws": "http", "wss": "https"}.get(scope.get("scheme", ""), scope.get("scheme"))
    plain = {**scope, "method": scope.get("method", "GET"), "scheme": scheme}
    try:
        return ASGIRequest(plain, BytesIO())
    except UnicodeDecodeError:
        raise Refused(400, "The address is not readable.") from None


def admit(request: HttpRequest, *, is_socket: bool) -> Person:
    """Asks the database. Raises Refused."""
    try:
        return _admit(request, is_socket=is_socket)
    except (OperationalError, InterfaceError):
        raise Refused(503, "The database cannot be reached just now.") from None


def _admit(request: HttpRequest, *, is_socket: bool) -> Person:
    try:
        host = request.get_host()
    except DisallowedHost:
        raise Refused(400, "The host is not allowed.") from None
    token = _token(request)
    if token is not None:
        return _person(token.user, token=token.pk)
    _check_origin(request, host, is_socket=is_socket)
    session = request.COOKIES.get(settings.SESSION_COOKIE_NAME)
    if not session:
        raise Refused(401, "Authentication credentials were not provided.")
    return _person(_user_of(session), session=session)


def _token(request: HttpRequest) -> Any:
    try:
        found = TokenAuthentication().authenticate(request)  # it reads the header and no more
    except AuthenticationFailed as error:
        raise Refused(401, str(error.detail)) from None
    return None if found is None else found[1]


def _person(user: Any, *, session: str | None = None, token: int | None = None) -> Person:
    if not (user.is_authenticated and user.is_active):
        raise Refused(401, "The session has ended.")
    if not user.has_perm(permissions.VIEW):
        raise Refused(403, "You do not have permission to perform this action.")
    return Person(
        user=str(user.pk),
        may_see=user.has_perm(permissions.VIEW_PAYLOAD),
        session=session,
        token=token,
    )


# Sessions


class _Seen(dict[str, Any]):
    """A session's data, to look at: whatever would be stored is not."""

    def flush(self) -> None:
        self.clear()

    def cycle_key(self) -> None:
        return


def _user_of(key: str) -> Any:
    store = import_module(settings.SESSION_ENGINE).SessionStore(key)
    request: Any = HttpRequest()
    request.session = _Seen(store.load())
    return get_user(request)


# Origins


def _check_origin(request: HttpRequest, host: str, *, is_socket: bool) -> None:
    """A session is sent by the browser, whoever asks; the origin tells who did."""
    origin = request.META.get("HTTP_ORIGIN")
    if origin is None:
        # A browser names it for every socket, and not for a page's own GET.
        if is_socket or request.META.get("HTTP_SEC_FETCH_SITE") == "cross-site":
            raise Refused(403, "The origin is not allowed.")
    elif not is_own(origin, host):
        raise Refused(403, "The origin is not allowed.")


def is_own(origin: str, host: str) -> bool:
    """Whether pages of this origin may use sessions: of the site itself, or trusted ones."""
    try:
        parts = urlsplit(origin)
        netloc = parts.netloc.lower()
    except ValueError:
        return False
    if netloc == host.lower() and parts.scheme in ("http", "https"):
        # Where cookies are only sent over https, no page that came over http is ours.
        return parts.scheme == "https" or not settings.SESSION_COOKIE_SECURE
    return any(_is_trusted(parts.scheme, netloc, each) for each in settings.CSRF_TRUSTED_ORIGINS)


def _is_trusted(scheme: str, netloc: str, trusted: str) -> bool:
    """As Django reads CSRF_TRUSTED_ORIGINS: `https://*.example.org` are all below it."""
    wanted = urlsplit(trusted)
    if wanted.scheme != scheme:
        return False
    if wanted.netloc.startswith("*"):
        return bool(is_same_domain(netloc, wanted.netloc.lstrip("*").lower()))
    return netloc == wanted.netloc.lower()
