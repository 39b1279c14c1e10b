"""Signing in, made slow for those who guess.

    AUTHENTICATION_BACKENDS = ["jobs.security.logins.ThrottledBackend"]

While a name or an address is blocked no password is looked at, and the answer is that for a wrong
one. Neither answer tells which names there are: tries count for names that do not exist as well.
"""

from __future__ import annotations

from typing import Any

import structlog
from asgiref.sync import sync_to_async
from django.contrib.auth import get_user_model
from django.contrib.auth.backends import ModelBackend
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest

from jobs.middleware import address_of
from jobs.security import tries

_log = structlog.get_logger("coppice.security")


class ThrottledLogin:
    """To be put before a backend that checks a name and a password."""

    def authenticate(
        self,
        request: HttpRequest | None,
        username: str | None = None,
        password: str | None = None,
        **more: Any,
    ) -> Any:
        name = username if username is not None else more.get(get_user_model().USERNAME_FIELD)
        address = "" if request is None else address_of(request)
        if name is None or password is None:
            return super().authenticate(request, username, password, **more)  # type: ignore[misc]
        keys = tries.keys_of(str(name), address)
        if not tries.count(keys):
            _log.warning("login.blocked", address=address)
            raise PermissionDenied  # no other backend is asked either
        user = super().authenticate(request, username, password, **more)  # type: ignore[misc]
        if user is None:
            _log.warning("login.failed", address=address)
        else:
            tries.take_back(keys)
            _log.info("login.passed", user=user.get_username(), address=address)
        return user

    async def aauthenticate(
        self,
        request: HttpRequest | None,
        username: str | None = None,
        password: str | None = None,
        **more: Any,
    ) -> Any:
        """Django's own would be a way around."""
        return await sync_to_async(self.authenticate)(request, username, password, **more)


class ThrottledBackend(ThrottledLogin, ModelBackend):
    """Django's own backend, throttled."""
