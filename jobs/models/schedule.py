"""The rules of recurring jobs."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from jobs.ids import new_uuid
from jobs.states import OnParentFailure


class Schedule(models.Model):
    """The rule of a recurring job. Each slot (schedule and nominal time) makes one job at most.

    Either `interval_seconds` (slots on the grid of `anchor_at`) or `cron` with `time_zone`.
    `next_slot` is the next nominal time not yet decided about, NULL while disabled.
    """

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    name = models.CharField(max_length=200, unique=True)
    type = models.CharField(max_length=100)
    queue = models.CharField(max_length=60, default="default")
    payload = models.JSONField(default=dict)
    metadata = models.JSONField(default=dict)
    priority = models.SmallIntegerField(default=2)
    max_attempts = models.IntegerField(default=3)
    on_parent_failure = models.CharField(max_length=6, default=OnParentFailure.WAIT)

    recur_interval = models.CharField(
        max_length=60, blank=True, default="", help_text="The interval as it was asked for."
    )
    interval_seconds = models.BigIntegerField(null=True, blank=True)
    cron = models.CharField(max_length=200, blank=True, default="")
    time_zone = models.CharField(max_length=64, default="UTC")
    anchor_at = models.DateTimeField(db_default=Now())
    misfire = models.CharField(
        max_length=4,
        choices=[("skip", "skip"), ("once", "once"), ("each", "each")],
        default="once",
        help_text="What to do about slots that passed while nobody ran.",
    )
    allow_overlap = models.BooleanField(
        default=False, help_text="Start a slot although the last one's job is still live."
    )

    enabled = models.BooleanField(default=True)
    last_slot = models.DateTimeField(null=True, blank=True)
    next_slot = models.DateTimeField(null=True, blank=True)
    missed_count = models.BigIntegerField(default=0, db_default=0)
    last_job_id = models.UUIDField(null=True, blank=True)
    last_error = models.TextField(blank=True, default="", db_default="")
    created_at = models.DateTimeField(db_default=Now())
    updated_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering: ClassVar = ["name"]
        permissions: ClassVar = [
            ("edit_schedule", "Can add, change and disable schedules"),
            ("run_schedule", "Can run a schedule now"),
        ]
        constraints: ClassVar = [
            models.CheckConstraint(
                name="schedule_one_rule",
                condition=(Q(interval_seconds__gte=1) & Q(cron=""))
                | (Q(interval_seconds__isnull=True) & ~Q(cron="")),
            ),
        ]
        indexes: ClassVar = [
            models.Index(
                name="schedule_due",
                fields=["next_slot"],
                condition=Q(enabled=True, next_slot__isnull=False),
            )
        ]

    def __str__(self) -> str:
        return self.name
