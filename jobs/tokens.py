"""API tokens: made, found, revoked. The key itself is shown once and stored nowhere.

A key is "coppice_" and 40 random characters. What is stored is its SHA-256: with 200 bits of
randomness there is nothing for a slow hash to protect, and a look-up stays one index descent.
"""

from __future__ import annotations

import hashlib
import secrets
from datetime import datetime
from functools import partial
from typing import Any

from django.db import router, transaction
from django.db.models import Q
from django.db.models.functions import Now
from django.dispatch import Signal
from django.utils import timezone

from jobs.errors import InvalidInput
from jobs.models import ApiToken
from jobs.payloads import check_text

START = "coppice_"
LENGTH = 40
SHOWN = 12
USED_EVERY_SECONDS = 60.0
"""`last_used_at` is written no more often."""

revoked = Signal()
"""Sent in this process after a token was revoked, with `token`: its primary key."""

_ALPHABET = "abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"


def create(user: Any, name: str, *, expires_at: datetime | None = None) -> tuple[ApiToken, str]:
    """A new token and its key, which cannot be read again. Raises InvalidInput."""
    name = check_text(name, "name", max_length=100)
    if expires_at is not None and expires_at <= timezone.now():
        raise InvalidInput("must lie in the future", field="expires_at")
    key = START + "".join(secrets.choice(_ALPHABET) for _ in range(LENGTH))
    token = ApiToken.objects.create(
        user=user, name=name, prefix=key[:SHOWN], digest=digest(key), expires_at=expires_at
    )
    return token, key


def find(key: str) -> ApiToken | None:
    """The token of a key, with its user, if it may be used now. Notes the use."""
    if not key.startswith(START) or len(key) != len(START) + LENGTH or not key.isascii():
        return None
    now = timezone.now()
    token = (
        ApiToken.objects.select_related("user")
        .filter(Q(expires_at__isnull=True) | Q(expires_at__gt=now))
        .filter(digest=digest(key), revoked_at__isnull=True, user__is_active=True)
        .first()
    )
    if token is not None and _is_old(token.last_used_at, now):
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=Now())
    return token


def revoke(token: ApiToken) -> bool:
    """Returns whether it was in force before."""
    done = ApiToken.objects.filter(pk=token.pk, revoked_at__isnull=True).update(revoked_at=Now())
    if done:
        tell = partial(revoked.send, ApiToken, token=token.pk)
        transaction.on_commit(tell, using=router.db_for_write(ApiToken), robust=True)
    return bool(done)


def digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def _is_old(used: datetime | None, now: datetime) -> bool:
    return used is None or (now - used).total_seconds() >= USED_EVERY_SECONDS
