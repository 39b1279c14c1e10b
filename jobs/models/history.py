"""What happened to a job: one row per attempt, one per log line.

Neither has a foreign key in the database: the check would cost each completion a look-up, and
purge and retention delete these rows together with their job.
"""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models.functions import Now

from jobs.models.job import Job
from jobs.states import Outcome


class Attempt(models.Model):
    """One ended run of a job. A running attempt is shown from its Job row."""

    pk = models.CompositePrimaryKey("job_id", "lease_epoch")
    job = models.ForeignKey(
        Job,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="attempts",
    )
    lease_epoch = models.BigIntegerField()
    number = models.IntegerField()
    worker_id = models.UUIDField(null=True, blank=True)
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField(db_default=Now())
    outcome = models.CharField(max_length=11, choices=[(o.value, o.value) for o in Outcome])
    error = models.TextField(blank=True, default="", db_default="")
    traceback = models.TextField(blank=True, default="", db_default="")

    def __str__(self) -> str:
        return f"attempt {self.number} of {self.job_id}: {self.outcome}"


class JobLog(models.Model):
    """A change of status, an action of a person, or a line that a handler logged."""

    job = models.ForeignKey(
        Job, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="logs"
    )
    at = models.DateTimeField(db_default=Now())
    event = models.CharField(max_length=30, help_text="An arrow's event, an action, or 'log'.")
    from_status = models.CharField(max_length=10, blank=True, default="", db_default="")
    to_status = models.CharField(max_length=10, blank=True, default="", db_default="")
    attempt = models.IntegerField(null=True, blank=True)
    worker_id = models.UUIDField(null=True, blank=True)
    level = models.CharField(max_length=8, default="info", db_default="info")
    message = models.TextField(blank=True, default="", db_default="")
    data = models.JSONField(null=True, blank=True)

    class Meta:
        indexes: ClassVar = [
            models.Index(name="joblog_job", fields=["job", "id"]),
            # Few lines are in it, and those that are not cost nothing more.
            models.Index(
                name="joblog_loud",
                fields=["id"],
                condition=models.Q(level__in=["warning", "error", "critical"]),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%d %H:%M:%S} {self.event} {self.message}".rstrip()
