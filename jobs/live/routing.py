"""How a project mounts the live feed in its `asgi.py`.

    application = application_with(get_asgi_application())

Import it after `get_asgi_application()`, which sets Django up.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import WebsocketDenier
from django.conf import settings
from django.urls import Resolver404, path, re_path, resolve

from jobs.api.charsets import with_known_charsets
from jobs.live.console import Console
from jobs.live.events import EventStream
from jobs.live.gate import request_of
from jobs.live.polling import StreamView

type Scope = dict[str, Any]
type Receive = Callable[[], Awaitable[Any]]
type Send = Callable[[Any], Awaitable[None]]
type Application = Callable[[Scope, Receive, Send], Awaitable[None]]

websocket_urlpatterns = [path("ws/console/", Console.as_asgi())]


def application_with(django: Application) -> ProtocolTypeRouter:
    """The whole ASGI application: Django, the stream of events, and the console's socket."""
    return ProtocolTypeRouter({"http": http(django), "websocket": websocket()})


def http(django: Application) -> Application:
    """Django, but for the stream of events, wherever the project's URLs have it."""
    events = EventStream.as_asgi()

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        chosen = events if _is_stream(scope) else django
        await chosen(scope, receive, send)

    return with_known_charsets(application)


def websocket() -> URLRouter:
    """The console's socket; every other address is refused, where Channels would raise."""
    return URLRouter([*websocket_urlpatterns, re_path("", WebsocketDenier.as_asgi())])


def _is_stream(scope: dict[str, Any]) -> bool:
    if scope["method"] not in ("GET", "HEAD") or not scope["path"].endswith("/stream"):
        return False
    request = request_of(scope)
    if getattr(settings, "SECURE_SSL_REDIRECT", False) and not request.is_secure():
        return False  # Django sends them to https
    try:
        view = resolve(request.path_info).func
    except Resolver404:
        return False
    return getattr(view, "cls", None) is StreamView
