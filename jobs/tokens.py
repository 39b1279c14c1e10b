"""API tokens: made, found, revoked. The key itself is shown once and stored nowhere.

A key is "coppice_" and 40 random characters. What is stored is its SHA-256: with 230 bits of
randomness there is nothing for a slow hash to protect, and a look-up stays one index descent.

Making and revoking leave an audit entry. A token that is refused although it is known leaves a line
in the log, with its beginning and the reason.
"""

from __future__ import annotations

import hashlib
import secrets
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

import structlog
from django.db import IntegrityError, router, transaction
from django.db.models import BooleanField, ExpressionWrapper, Q, QuerySet
from django.db.models.functions import Now
from django.dispatch import Signal
from django.utils import timezone
from django.views.decorators.debug import sensitive_variables

from jobs import audit
from jobs.errors import Conflict, InvalidInput, NotFound
from jobs.ids import new_uuid
from jobs.models import ApiToken
from jobs.payloads import check_text

START = "coppice_"
LENGTH = 40
SHOWN = 12
USED_EVERY_SECONDS = 60.0
"""`last_used_at` is written no more often."""

revoked = Signal()
"""Sent in this process after a token was revoked, with `token`: its primary key."""

IN_FORCE = "in force"

_ALPHABET = "abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"
_EXPIRED = ExpressionWrapper(Q(expires_at__lte=Now()), output_field=BooleanField())
_log = structlog.get_logger("coppice.security")


@sensitive_variables("key")
def create(
    user: Any,
    name: str,
    *,
    expires_at: datetime | None = None,
    by: str = "",
    id: UUID | None = None,
) -> tuple[ApiToken, str]:
    """A new token and its key, which cannot be read again. Raises InvalidInput.

    With an `id` the same request, sent twice, makes one token: the second raises Conflict.
    """
    name = check_text(name, "name", max_length=100)
    if expires_at is not None and expires_at <= timezone.now():
        raise InvalidInput("must lie in the future", field="expires_at")
    if not user.is_active:
        raise InvalidInput(f"{user.get_username()} is not active", field="user")
    key = START + "".join(secrets.choice(_ALPHABET) for _ in range(LENGTH))
    token = ApiToken(
        id=id or new_uuid(),
        user=user,
        name=name,
        prefix=key[:SHOWN],
        digest=digest(key),
        expires_at=expires_at,
    )
    try:
        with transaction.atomic(using=_database()):
            token.save(force_insert=True)
            _record("token.create", token, by)
    except IntegrityError:
        raise Conflict("the token has been made already; its key was shown once") from None
    return token, key


def find(key: str) -> ApiToken | None:
    """The token of a key, with its user, if it may be used now. Notes the use."""
    if not key.startswith(START) or len(key) != len(START) + LENGTH or not key.isascii():
        return None
    token = known().filter(digest=digest(key)).first()
    if token is None:
        return None
    state = state_of(token)
    if state != IN_FORCE:
        name = token.user.get_username()
        _log.warning("token.refused", token=token.prefix, user=name, reason=state)
        return None
    if _is_old(token.last_used_at, timezone.now()):
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=Now())
    return token


def known() -> QuerySet[ApiToken]:
    """All tokens, with what `state_of` asks for."""
    return ApiToken.objects.select_related("user").annotate(is_expired=_EXPIRED)


def state_of(token: ApiToken) -> str:
    """`in force`, or why not, of a token from `known()`."""
    if token.revoked_at is not None:
        return "revoked"
    if getattr(token, "is_expired", False):
        return "expired"
    return IN_FORCE if token.user.is_active else "the user is not active"


def named(text: str) -> ApiToken:
    """The token of an id, or of the beginning of its key. Raises NotFound, or InvalidInput."""
    try:
        found = list(known().filter(pk=UUID(text)))
    except ValueError:
        found = list(known().filter(prefix=text[:SHOWN])[:2])
    if not found:
        raise NotFound("token", text[:60])
    if len(found) > 1:
        raise InvalidInput("is the beginning of more than one key; give the id", field="id")
    return found[0]


def revoke(token: ApiToken, *, by: str = "") -> bool:
    """Returns whether it was not revoked before."""
    with transaction.atomic(using=_database()):
        in_force = ApiToken.objects.filter(pk=token.pk, revoked_at__isnull=True)
        done = bool(in_force.update(revoked_at=Now()))
        if done:
            _record("token.revoke", token, by)
            tell = partial(revoked.send, ApiToken, token=token.pk)
            transaction.on_commit(tell, using=_database(), robust=True)
    return done


def _record(action: str, token: ApiToken, by: str) -> None:
    user = token.user.get_username()
    audit.record(
        action,
        actor=by,
        scope=f"token {token.name} of {user}",
        object_id=str(token.pk),
        changed=1,
        data={"prefix": token.prefix, "user": user, "expires_at": token.expires_at},
    )


def _database() -> str:
    return router.db_for_write(ApiToken)


def digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def _is_old(used: datetime | None, now: datetime) -> bool:
    return used is None or (now - used).total_seconds() >= USED_EVERY_SECONDS
