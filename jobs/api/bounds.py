"""How much may come in: the size of a body, and the number of requests."""

from __future__ import annotations

import time
from typing import Any, ClassVar

from django.core.cache import cache
from rest_framework.exceptions import APIException, ParseError, UnsupportedMediaType
from rest_framework.parsers import JSONParser
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle
from rest_framework.views import APIView

from jobs import conf

MINUTE = 60
ASLEEP_SECONDS = 5.0


class TooLarge(APIException):
    status_code = 413
    default_code = "too_large"
    default_detail = "The request is too large."


class BoundedJSONParser(JSONParser):
    """JSON, of no more than `COPPICE_MAX_REQUEST_BYTES`. Deeper than Python can follow is refused."""

    def parse(
        self,
        stream: Any,
        media_type: str | None = None,
        parser_context: dict[str, Any] | None = None,
    ) -> Any:
        request = (parser_context or {}).get("request")
        length = request.META.get("CONTENT_LENGTH") if request is not None else None
        if length and int(length) > conf.get().max_request_bytes:
            raise TooLarge
        if request is not None:
            _require_utf8(request.content_params.get("charset", ""))
        try:
            return super().parse(stream, media_type, parser_context)
        except RecursionError:
            raise ParseError("JSON parse error - nested too deep") from None


def _require_utf8(charset: str) -> None:
    """Another encoding could say what those in front of us read as something else."""
    if charset and charset.lower() not in ("utf-8", "utf8", "us-ascii"):
        raise UnsupportedMediaType(f"application/json; charset={charset[:60]}")


class UserRateThrottle(BaseThrottle):
    """So many requests of one user in each minute: those that read, write, and write in bulk.

    A view whose writes are of many jobs says so with `throttle_scope = "bulk"`. Counted in the
    cache; while that is away nobody is held up, neither by the count nor by waiting for it.
    """

    asleep_until: ClassVar[float] = 0.0

    def allow_request(self, request: Request, view: APIView) -> bool:
        scope = _scope(request, view)
        allowed = _allowed(scope)
        if not allowed or not request.user.is_authenticated:
            return True
        if time.monotonic() < UserRateThrottle.asleep_until:
            return True
        count = _count(
            conf.key(f"coppice:rate:{scope}:{request.user.pk}:{int(time.time() // MINUTE)}")
        )
        if count is None:
            UserRateThrottle.asleep_until = time.monotonic() + ASLEEP_SECONDS
        return count is None or count <= allowed

    def wait(self) -> float:
        return MINUTE - time.time() % MINUTE


def _scope(request: Request, view: APIView) -> str:
    if request.method in SAFE_METHODS:
        return "read"
    return "bulk" if getattr(view, "throttle_scope", "") == "bulk" else "write"


def _allowed(scope: str) -> int:
    settings = conf.get()
    return {
        "read": settings.api_reads_per_minute,
        "write": settings.api_writes_per_minute,
        "bulk": settings.api_bulk_per_minute,
    }[scope]


def _count(key: str) -> int | None:
    """This request's number under the key; None when the cache does not answer."""
    try:
        count = cache.incr(key)
    except ValueError:  # the first of this minute
        cache.add(key, 0, 2 * MINUTE)
        try:
            count = cache.incr(key)
        except ValueError:  # a cache that keeps nothing
            return None
    return count if isinstance(count, int) else None
