"""Who works, and who leads."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models.functions import Now


class Worker(models.Model):
    """One incarnation of one worker process. A restart, or a declared death, makes a new one.

    Liveness is judged by observation: a rescuer watches `beats` stand still for a time of its own
    clock. `beat_at` is for people. `lock_key` is the advisory lock that the supervisor's session
    holds, NULL without a direct connection.
    """

    id = models.UUIDField(primary_key=True, editable=False)
    name = models.CharField(max_length=200)
    host = models.CharField(max_length=200)
    pid = models.IntegerField()
    queues = models.JSONField(default=list, help_text="Empty: all.")
    types = models.JSONField(default=list)
    concurrency = models.IntegerField()
    version = models.CharField(max_length=40, default="")
    state = models.CharField(
        max_length=8,
        choices=[(s, s) for s in ("running", "draining", "stopped", "dead")],
        default="running",
    )
    waiting = models.BooleanField(
        default=False, db_default=False, help_text="Idle: enqueue wakes it by NOTIFY."
    )
    lock_key = models.BigIntegerField(null=True, blank=True)
    beats = models.BigIntegerField(default=0, db_default=0)
    beat_at = models.DateTimeField(db_default=Now())
    started_at = models.DateTimeField(db_default=Now())
    stop_requested_at = models.DateTimeField(
        null=True, blank=True, help_text="Asked to drain; its supervisor does not replace it."
    )
    quiet_requested_at = models.DateTimeField(
        null=True, blank=True, help_text="Asked to claim nothing until it is resumed."
    )
    quiet_at = models.DateTimeField(
        null=True, blank=True, help_text="Since when it does so; NULL: it claims."
    )
    clock_skew_seconds = models.FloatField(
        null=True,
        blank=True,
        help_text="How far its machine's clock is ahead of the database's; NULL: not measured.",
    )
    clock_skew_uncertainty_seconds = models.FloatField(
        null=True, blank=True, help_text="By how much that may be more or less."
    )
    stopped_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar = ["-started_at"]
        permissions: ClassVar = [("control_worker", "Can stop workers")]

    def __str__(self) -> str:
        return self.name


class Leader(models.Model):
    """Who leads, where no session lock can be had: a row with a term."""

    name = models.CharField(primary_key=True, max_length=40)
    holder = models.UUIDField()
    term = models.BigIntegerField(default=1)
    until = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.name}: {self.holder} (term {self.term})"
