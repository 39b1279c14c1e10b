"""What programs are told where Django would send a page: addresses that do not exist, and faults.

A project names them in its root URLs: `handler404 = "jobs.api.faults.not_found"`.
"""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views import defaults

PREFIX = "/api/"


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _told(request, 400, "Bad request.") or defaults.bad_request(request, exception)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _told(request, 404, "Not found.") or defaults.page_not_found(request, exception)


def server_error(request: HttpRequest, *_: Any) -> HttpResponse:
    return _told(request, 500, "A fault of the server.") or defaults.server_error(request)


def _told(request: HttpRequest, status: int, detail: str) -> HttpResponse | None:
    """None for a page of the site."""
    if not request.path_info.startswith(PREFIX):
        return None
    return JsonResponse({"detail": detail}, status=status)
