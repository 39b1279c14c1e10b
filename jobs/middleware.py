"""Middleware of Coppice; works in any Django project, sync and async.

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "jobs.middleware.ClientAddressMiddleware",
    "jobs.middleware.BrowserRulesMiddleware",
    "jobs.middleware.RequestSizeMiddleware",
    ...
]
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse

from jobs import conf
from jobs.addresses import client_of, parse_proxies
from jobs.audit import client_address

PERMISSIONS_POLICY = ", ".join(
    f"{feature}=()"
    for feature in (
        "accelerometer",
        "camera",
        "display-capture",
        "geolocation",
        "gyroscope",
        "magnetometer",
        "microphone",
        "midi",
        "payment",
        "publickey-credentials-get",
        "screen-wake-lock",
        "serial",
        "usb",
        "xr-spatial-tracking",
    )
)


class _Middleware:
    """Looks before and after the rest of the chain, which may be sync or async."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Any) -> None:
        self.get_response = get_response
        self.is_async = iscoroutinefunction(get_response)
        if self.is_async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> Any:
        if self.is_async:
            return self._in_async(request)
        with self.during(request):
            return self.before(request) or self.after(self.get_response(request))

    async def _in_async(self, request: HttpRequest) -> HttpResponseBase:
        with self.during(request):
            return self.before(request) or self.after(await self.get_response(request))

    @contextmanager
    def during(self, request: HttpRequest) -> Iterator[None]:  # noqa: ARG002
        yield

    def before(self, request: HttpRequest) -> HttpResponse | None:  # noqa: ARG002
        return None

    def after(self, response: HttpResponseBase) -> HttpResponseBase:
        return response


class ClientAddressMiddleware(_Middleware):
    """Knows the client's address while the request lasts: for the audit, and for `address_of`."""

    @contextmanager
    def during(self, request: HttpRequest) -> Iterator[None]:
        token = client_address.set(address_of(request))
        try:
            yield
        finally:
            client_address.reset(token)


class RequestSizeMiddleware(_Middleware):
    """Refuses a body that is longer than `COPPICE_MAX_REQUEST_BYTES`, or that does not say how long.

    Django bounds forms only, and reads JSON and files of any size.
    """

    def before(self, request: HttpRequest) -> HttpResponse | None:
        length = request.META.get("CONTENT_LENGTH") or ""
        if not length and request.META.get("HTTP_TRANSFER_ENCODING"):
            return _refused(request, 411, "The request must say its length.")
        if length and not (length.isascii() and length.isdigit()):
            return _refused(request, 400, "The request's length is not a number.")
        if length and int(length[:20]) > conf.get().max_request_bytes:
            return _refused(request, 413, "The request is too large.")
        return None


class BrowserRulesMiddleware(_Middleware):
    """Headers that Django has no setting for, and no caching of what does not ask for it."""

    def after(self, response: HttpResponseBase) -> HttpResponseBase:
        response.headers.setdefault("Cache-Control", "no-store")
        response.headers.setdefault("Permissions-Policy", PERMISSIONS_POLICY)
        response.headers.setdefault("Cross-Origin-Resource-Policy", "same-origin")
        return response


def address_of(request: HttpRequest) -> str:
    """The client's address, past the proxies that `COPPICE_TRUSTED_PROXIES` names; "" if unknown."""
    return client_of(
        request.META.get("REMOTE_ADDR", ""),
        request.META.get("HTTP_X_FORWARDED_FOR", ""),
        parse_proxies(conf.get().trusted_proxies),
    )


def _refused(request: HttpRequest, status: int, detail: str) -> HttpResponse:
    if request.content_type == "application/json":
        return JsonResponse({"detail": detail}, status=status)
    return HttpResponse(f"{detail}\n", status=status, content_type="text/plain; charset=utf-8")
