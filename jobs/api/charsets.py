"""Requests whose `charset` is no encoding of text, refused in front of Django.

Django looks at the header while it builds the request, before any middleware or view; with a
charset such as "zlib", or one with a NUL in it, that raises, and the server answers 500.
"""

from __future__ import annotations

import codecs
from collections.abc import Awaitable, Callable
from typing import Any

from django.utils.http import parse_header_parameters

type Application = Callable[[Any, Any, Any], Awaitable[None]]

BODY = b'{"detail":"The charset of the request is unknown."}'
HEADERS = [(b"content-type", b"application/json"), (b"content-length", str(len(BODY)).encode())]


def with_known_charsets(application: Application) -> Application:
    """The same ASGI application, for HTTP, without such requests."""

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        if all(_is_text(value) for name, value in scope["headers"] if name == b"content-type"):
            await application(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 415, "headers": HEADERS})
        await send({"type": "http.response.body", "body": BODY})

    return guarded


def _is_text(content_type: bytes) -> bool:
    """Whether the charset is one of text, or unknown to Python: Django passes over that."""
    try:
        _, parameters = parse_header_parameters(content_type.decode("latin-1"))
        charset = parameters.get("charset", "")
        return not charset or codecs.lookup(charset)._is_text_encoding  # noqa: SLF001
    except LookupError:
        return True
    except ValueError:
        return False
