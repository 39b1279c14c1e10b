"""Who is told about what happens, by POST and by e-mail."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models.functions import Now

from jobs.ids import new_uuid


class Webhook(models.Model):
    """An address of somebody else's that is told about events. `jobs.webhooks` makes and uses it."""

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    name = models.CharField(max_length=100)
    url = models.CharField(max_length=2_000)
    secret = models.CharField(max_length=100, help_text="Signs; shown once, when it is made.")
    events = models.JSONField(default=list, help_text="Patterns, such as alert.*.")
    enabled = models.BooleanField(default=True)
    created_by = models.CharField(max_length=150, blank=True, default="")
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering: ClassVar = ["-id"]

    def __str__(self) -> str:
        return self.name


class WebhookDelivery(models.Model):
    """One event told to one webhook, by as many attempts as it takes."""

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, db_index=False)
    event = models.CharField(max_length=60)
    body = models.TextField(help_text="What is sent. Never a value of a payload.")
    status = models.CharField(
        max_length=10,
        choices=[(s, s) for s in ("pending", "delivered", "failed")],
        default="pending",
    )
    attempts = models.IntegerField(default=0)
    response_code = models.IntegerField(null=True, blank=True)
    response = models.TextField(blank=True, default="", help_text="Cut.")
    error = models.TextField(blank=True, default="")
    job_id = models.UUIDField(null=True, blank=True)
    created_at = models.DateTimeField(db_default=Now())
    tried_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar = ["-id"]
        indexes: ClassVar = [models.Index(name="delivery_webhook", fields=["webhook", "id"])]

    def __str__(self) -> str:
        return f"{self.event} {self.id}: {self.status}"


class AlertRecipient(models.Model):
    """Somebody who is told about events by e-mail."""

    id = models.BigAutoField(primary_key=True)
    address = models.EmailField(max_length=254, unique=True)
    events = models.JSONField(default=list, help_text="Patterns, such as alert.*.")
    created_by = models.CharField(max_length=150, blank=True, default="")
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering: ClassVar = ["address"]

    def __str__(self) -> str:
        return self.address
