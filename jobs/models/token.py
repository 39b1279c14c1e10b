"""Keys with which programs sign in, and what an interrupted request may repeat."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models.functions import Now

from jobs.ids import new_uuid


class ApiToken(models.Model):
    """A program's key to the API, with the permissions of its user. Only its digest is stored.

    `jobs.tokens` creates, finds and revokes them.
    """

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="coppice_tokens"
    )
    name = models.CharField(max_length=100, help_text="Who or what uses it.")
    prefix = models.CharField(
        max_length=12, editable=False, help_text="The beginning of the key, to recognise it by."
    )
    digest = models.CharField(max_length=64, unique=True, editable=False)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    expires_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(
        null=True, blank=True, editable=False, help_text="Exact to a minute."
    )
    revoked_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        ordering: ClassVar = ["-id"]
        verbose_name = "API token"

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"


class IdempotencyKey(models.Model):
    """The answer to a POST that carried `Idempotency-Key`, given again for a day."""

    id = models.BigAutoField(primary_key=True)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE)
    key = models.CharField(max_length=200)
    request_digest = models.CharField(
        max_length=64, help_text="SHA-256 of method, path and body: the key is for that alone."
    )
    status_code = models.SmallIntegerField(null=True, blank=True)
    response = models.JSONField(null=True, blank=True)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(name="idempotency_key_of_user", fields=["user", "key"])
        ]
        indexes: ClassVar = [models.Index(name="idempotency_age", fields=["created_at"])]

    def __str__(self) -> str:
        return self.key


class LoginFailure(models.Model):
    """How often signing in failed lately for a name, or from an address."""

    key = models.CharField(primary_key=True, max_length=80)
    failures = models.IntegerField(default=0, db_default=0)
    first_at = models.DateTimeField(db_default=Now())
    blocked_until = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"{self.key}: {self.failures}"
