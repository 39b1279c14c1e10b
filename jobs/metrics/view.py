"""`/metrics`: for who may see jobs, and for a scraper with a token of its own."""

from __future__ import annotations

import secrets
from typing import Any, ClassVar

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.authentication import (
    BaseAuthentication,
    SessionAuthentication,
    get_authorization_header,
)
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request

from jobs import conf, permissions
from jobs.api.authentication import TokenAuthentication
from jobs.api.base import CoppiceView
from jobs.metrics.gathering import exposition

WORD = b"bearer"


class Scraper:
    """Who came with `COPPICE_METRICS_TOKEN`: nobody in the database, who may see metrics."""

    is_authenticated = is_active = True
    is_superuser = is_staff = False
    pk = None

    def has_perm(self, permission: str, obj: Any = None) -> bool:  # noqa: ARG002
        return permission == permissions.VIEW

    def get_username(self) -> str:
        return "metrics"


class ScraperAuthentication(BaseAuthentication):
    """`Authorization: Bearer`, with the token of the setting."""

    def authenticate(self, request: Request) -> tuple[Scraper, None] | None:
        word, _, key = get_authorization_header(request).partition(b" ")
        if word.lower() != WORD:
            return None
        wanted = conf.get().metrics_token.encode()
        if not wanted or not secrets.compare_digest(key.strip(), wanted):
            raise AuthenticationFailed("The token is not that of this service.")
        return Scraper(), None


class AnyForm(BaseContentNegotiation):
    """The answer is what Prometheus reads, whatever else a client would rather have."""

    def select_parser(self, request: Request, parsers: Any) -> Any:  # noqa: ARG002
        return parsers[0]

    def select_renderer(
        self,
        request: Request,  # noqa: ARG002
        renderers: Any,
        format_suffix: str | None = None,  # noqa: ARG002
    ) -> Any:
        return renderers[0], renderers[0].media_type


@extend_schema(exclude=True)
class MetricsView(CoppiceView):
    needs: ClassVar = {"GET": permissions.VIEW}
    # The first names what is wanted in a 401.
    authentication_classes: ClassVar = [
        TokenAuthentication,
        ScraperAuthentication,
        SessionAuthentication,
    ]
    renderer_classes: ClassVar = [JSONRenderer]
    content_negotiation_class = AnyForm
    throttle_classes: ClassVar = []

    def get(self, request: Request) -> HttpResponse:
        text, content_type = exposition(request.headers.get("Accept", ""))
        return HttpResponse(text, content_type=content_type)
