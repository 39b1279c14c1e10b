"""What people did, and what is being done for them to many jobs at once."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models.functions import Now

from jobs.ids import new_uuid


class AuditEntry(models.Model):
    """One action of a person or program. Append-only; written in the action's own transaction."""

    at = models.DateTimeField(db_default=Now())
    actor = models.CharField(max_length=150)
    address = models.CharField(max_length=45, blank=True, default="", db_default="")
    action = models.CharField(max_length=40, help_text="Such as job.retry or queue.pause.")
    scope = models.CharField(
        max_length=500, blank=True, default="", help_text="To what, in words: an id, or a filter."
    )
    object_id = models.CharField(
        max_length=100, blank=True, default="", help_text="The one row it was about, if one."
    )
    changed = models.BigIntegerField(default=0, help_text="How many rows changed.")
    reason = models.TextField(blank=True, default="")
    data = models.JSONField(default=dict, help_text="What was before and after; no payloads.")

    class Meta:
        ordering: ClassVar = ["-id"]
        verbose_name_plural = "audit entries"
        default_permissions: ClassVar = []
        permissions: ClassVar = [("view_audit", "Can read the audit")]
        indexes: ClassVar = [
            models.Index(name="audit_object", fields=["object_id", "id"]),
            models.Index(name="audit_actor", fields=["actor", "id"]),
            models.Index(name="audit_action", fields=["action", "id"]),
        ]

    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%d %H:%M:%S} {self.actor} {self.action} {self.scope}"


class BulkOperation(models.Model):
    """One action on all jobs that match a filter, worked through by a worker in batches."""

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    action = models.CharField(max_length=20)
    filters = models.JSONField(default=dict)
    arguments = models.JSONField(default=dict, help_text="Such as the new priority.")
    before = models.DateTimeField(help_text="Only jobs that were so before this moment.")
    cap = models.BigIntegerField(null=True, blank=True, help_text="The most jobs to change.")
    matched = models.BigIntegerField(default=0, help_text="How many matched at the start.")
    matched_is_capped = models.BooleanField(default=False, help_text="`matched` is a least number.")
    reason = models.TextField(blank=True, default="")
    created_by = models.CharField(max_length=150)
    address = models.CharField(max_length=45, blank=True, default="")
    audit_id = models.BigIntegerField(
        null=True, blank=True, help_text="The audit entry, whose count grows with each batch."
    )
    status = models.CharField(
        max_length=10,
        choices=[
            (s, s) for s in ("pending", "running", "paused", "completed", "aborted", "failed")
        ],
        default="pending",
    )
    job_id = models.UUIDField(null=True, blank=True, help_text="The job that works on it.")
    place = models.CharField(
        max_length=100, blank=True, default="", help_text="Behind which to go on."
    )
    changed = models.BigIntegerField(default=0)
    skipped = models.BigIntegerField(default=0)
    skipped_reasons = models.JSONField(default=dict, help_text="Reason to count.")
    failed = models.BigIntegerField(default=0, help_text="Jobs that the database would not change.")
    failures = models.JSONField(default=list, help_text="The first of them, with their errors.")
    error = models.TextField(blank=True, default="")
    created_at = models.DateTimeField(db_default=Now())
    started_at = models.DateTimeField(null=True, blank=True)
    worked_seconds = models.FloatField(default=0, help_text="Without pauses and waiting.")
    updated_at = models.DateTimeField(db_default=Now())
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar = ["-id"]
        indexes: ClassVar = [
            models.Index(
                name="bulk_live",
                fields=["id"],
                condition=models.Q(status__in=["pending", "running", "paused"]),
            )
        ]

    def __str__(self) -> str:
        return f"{self.action} {self.id}: {self.status}"
