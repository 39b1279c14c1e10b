"""Who asks: a browser with a session and CSRF, or a program with `Authorization: Token ...`."""

from __future__ import annotations

from typing import Any

from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from jobs import tokens
from jobs.models import ApiToken

WORD = b"token"
REFUSED = "The token is unknown, expired or revoked."


class TokenAuthentication(BaseAuthentication):
    """`Authorization: Token coppice_...`. Also named first, so that a refusal is a 401."""

    def authenticate(self, request: Request) -> tuple[Any, ApiToken] | None:
        word, _, key = get_authorization_header(request).partition(b" ")
        if word.lower() != WORD:
            return None
        token = tokens.find(key.strip().decode("latin-1"))
        if token is None:
            raise AuthenticationFailed(REFUSED)
        return token.user, token

    def authenticate_header(self, request: Request) -> str:  # noqa: ARG002
        return 'Token realm="Coppice"'
