"""Queues that have been paused; others need no row."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models.functions import Now


class Queue(models.Model):
    """A queue that somebody has paused, or once did. Queues without a row are not paused."""

    name = models.CharField(primary_key=True, max_length=60)
    paused = models.BooleanField(default=False, db_default=False)
    paused_until = models.DateTimeField(
        null=True,
        blank=True,
        help_text="When the pause is over by itself; NULL: when somebody resumes it.",
    )
    reason = models.TextField(blank=True, default="", db_default="")
    changed_by = models.CharField(max_length=150, blank=True, default="", db_default="")
    changed_at = models.DateTimeField(db_default=Now())

    class Meta:
        permissions: ClassVar = [
            ("pause_queue", "Can pause and resume queues"),
            ("tune_queue", "Can change the limits of queues"),
        ]

    def __str__(self) -> str:
        return self.name
