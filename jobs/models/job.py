"""A job and the edges to the jobs it waits for."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from jobs.ids import new_uuid
from jobs.querysets import JobQuerySet
from jobs.states import TERMINAL, EdgeKind, OnParentFailure, State, Status, derive_state

READY = Q(status=Status.PENDING, unmet_dependencies=0, due_at__isnull=False)
"""What the claim index holds; `due_at` says from when on."""


LISTED = Q(status=Status.PENDING, attempt_count__gte=0)
"""What the index of all pending jobs holds. The second half is always true: it keeps the planner
from using that index for a claim, which it would while the table is small, and then go on with
that plan, cached, when a million jobs that are not due lie in it. A list asks for it by name.
"""

WAITING = Q(status=Status.PENDING) & (
    Q(unmet_dependencies__gt=0) | Q(due_at__isnull=True) | Q(next_retry_at__isnull=False)
)
"""Pending for another reason than a time to come: blocked, held or after an attempt. Rare."""


class Job(models.Model):
    """One piece of work, one row, from submission to a terminal status.

    `due_at` is the greater of `scheduled_at` and `next_retry_at`, NULL while the job is held.
    `lease_epoch` is the fencing token: it grows at every claim and takeover, never falls, and
    every write of an attempt carries it. Attempt numbers cannot fence, since hand-backs lower them.
    """

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    type = models.CharField(max_length=100)
    queue = models.CharField(max_length=60, default="default", db_default="default")
    payload = models.JSONField(default=dict)
    metadata = models.JSONField(default=dict, db_default={})
    status = models.CharField(
        max_length=10,
        choices=[(status.value, status.value) for status in Status],
        default=Status.PENDING,
        db_default=Status.PENDING.value,
    )
    priority = models.SmallIntegerField(default=2, db_default=2)
    attempt_count = models.IntegerField(default=0, db_default=0)
    max_attempts = models.IntegerField(default=3, db_default=3)
    scheduled_at = models.DateTimeField(db_default=Now())
    next_retry_at = models.DateTimeField(null=True, blank=True)
    due_at = models.DateTimeField(null=True, blank=True, db_default=Now())
    hold_reason = models.TextField(blank=True, default="", db_default="")

    unmet_dependencies = models.IntegerField(default=0, db_default=0)
    has_dependents = models.BooleanField(
        default=False, db_default=False, help_text="Set by settling: somebody waits for this job."
    )
    on_parent_failure = models.CharField(
        max_length=6,
        choices=[(choice.value, choice.value) for choice in OnParentFailure],
        default=OnParentFailure.WAIT,
        db_default=OnParentFailure.WAIT.value,
    )
    parent = models.ForeignKey(
        "self",
        null=True,
        blank=True,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="children",
        help_text="The job whose WaitFor made this one.",
    )
    child_key = models.CharField(max_length=200, null=True, blank=True)  # noqa: DJ001
    wait_count = models.IntegerField(default=0, db_default=0)
    snooze_count = models.IntegerField(default=0, db_default=0)
    lost_count = models.IntegerField(
        default=0, db_default=0, help_text="A job once lost runs alone in a process of its own."
    )

    schedule = models.ForeignKey(
        "jobs.Schedule",
        null=True,
        blank=True,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="jobs",
    )
    schedule_slot = models.DateTimeField(null=True, blank=True)
    unique_key = models.CharField(max_length=200, null=True, blank=True)  # noqa: DJ001

    progress_done = models.BigIntegerField(null=True, blank=True)
    progress_total = models.BigIntegerField(null=True, blank=True)
    result = models.JSONField(null=True, blank=True)
    last_error = models.TextField(blank=True, default="", db_default="")
    error_fingerprint = models.CharField(max_length=32, blank=True, default="", db_default="")

    created_at = models.DateTimeField(db_default=Now())
    updated_at = models.DateTimeField(db_default=Now())
    started_at = models.DateTimeField(null=True, blank=True)
    completed_at = models.DateTimeField(null=True, blank=True)
    failed_at = models.DateTimeField(null=True, blank=True)
    cancelled_at = models.DateTimeField(null=True, blank=True)
    cancel_requested_at = models.DateTimeField(null=True, blank=True)

    worker_id = models.UUIDField(null=True, blank=True)
    lease_epoch = models.BigIntegerField(default=0, db_default=0)

    objects: ClassVar[JobQuerySet] = JobQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        ordering: ClassVar = ["-id"]
        permissions: ClassVar = [
            ("view_payload", "Can read payloads, results and errors"),
            ("retry_job", "Can retry dead letters"),
            ("cancel_job", "Can cancel jobs"),
            ("edit_job", "Can change priority, queue, time and payload"),
            ("purge_job", "Can purge dead letters"),
            ("purge_all_dead", "Can empty the dead-letter queue"),
            ("control_run", "Can start, pause, resume, cancel and retry range runs"),
            ("manage_alerts", "Can change alerts and webhooks"),
        ]
        constraints: ClassVar = [
            models.CheckConstraint(
                name="job_status_known", condition=Q(status__in=[s.value for s in Status])
            ),
            models.CheckConstraint(name="job_priority_known", condition=Q(priority__in=[1, 2, 3])),
            models.CheckConstraint(
                name="job_processing_has_lease",
                condition=~Q(status=Status.PROCESSING) | Q(worker_id__isnull=False),
            ),
            models.CheckConstraint(
                name="job_ends_have_times",
                condition=(Q(completed_at__isnull=False) | ~Q(status=Status.COMPLETED))
                & (Q(failed_at__isnull=False) | ~Q(status=Status.FAILED))
                & (Q(cancelled_at__isnull=False) | ~Q(status=Status.CANCELLED)),
            ),
            models.CheckConstraint(
                name="job_counts_not_negative",
                condition=Q(attempt_count__gte=0)
                & Q(unmet_dependencies__gte=0)
                & Q(max_attempts__gte=1),
            ),
            models.UniqueConstraint(
                name="job_unique_key_live",
                fields=["unique_key"],
                condition=Q(
                    unique_key__isnull=False, status__in=[Status.PENDING, Status.PROCESSING]
                ),
            ),
            models.UniqueConstraint(
                name="job_schedule_slot",
                fields=["schedule", "schedule_slot"],
                condition=Q(schedule__isnull=False),
            ),
            models.UniqueConstraint(
                name="job_parent_child_key",
                fields=["parent", "child_key"],
                condition=Q(parent__isnull=False),
            ),
        ]
        indexes: ClassVar = [
            models.Index(
                name="job_ready",
                fields=["queue", "type", "priority", "due_at", "id"],
                condition=READY,
            ),
            models.Index(
                name="job_processing",
                fields=["worker_id"],
                condition=Q(status=Status.PROCESSING),
            ),
            models.Index(name="job_waiting", fields=["id"], condition=WAITING),
            models.Index(name="job_pending", fields=["id"], condition=LISTED),
            models.Index(name="job_completed", fields=["id"], condition=Q(status=Status.COMPLETED)),
            models.Index(name="job_cancelled", fields=["id"], condition=Q(status=Status.CANCELLED)),
            models.Index(
                name="job_dead", fields=["failed_at", "id"], condition=Q(status=Status.FAILED)
            ),
            models.Index(
                name="job_dead_group",
                fields=["type", "error_fingerprint", "failed_at", "id"],
                include=["queue"],
                condition=Q(status=Status.FAILED),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.type} {self.id}"

    @property
    def is_terminal(self) -> bool:
        return self.status in TERMINAL

    def state_at(self, now: float) -> State:
        """What an operator reads, at a moment of the database's clock (epoch seconds)."""
        return derive_state(
            status=self.status,
            is_due=self.due_at is not None and self.due_at.timestamp() <= now,
            is_held=self.due_at is None,
            unmet_dependencies=self.unmet_dependencies,
            has_next_retry=self.next_retry_at is not None,
            cancel_requested=self.cancel_requested_at is not None,
        )


class JobDependency(models.Model):
    """An edge: `child` waits until `parent` is completed, or ended.

    `settled` says that the parent knows of it (`Job.has_dependents`), so that the transaction that
    ends the parent closes it. Edges are written unsettled and settled right after the commit.
    """

    pk = models.CompositePrimaryKey("child_id", "parent_id")
    child = models.ForeignKey(
        Job,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="parent_edges",
    )
    parent = models.ForeignKey(
        Job,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="child_edges",
    )
    kind = models.CharField(
        max_length=9,
        choices=[(kind.value, kind.value) for kind in EdgeKind],
        default=EdgeKind.COMPLETED,
        db_default=EdgeKind.COMPLETED.value,
    )
    state = models.CharField(
        max_length=9,
        choices=[("open", "open"), ("satisfied", "satisfied")],
        default="open",
        db_default="open",
    )
    settled = models.BooleanField(default=False, db_default=False)

    class Meta:
        verbose_name_plural = "job dependencies"
        constraints: ClassVar = [
            models.CheckConstraint(name="dependency_not_itself", condition=~Q(child=F("parent"))),
            models.CheckConstraint(
                name="dependency_state_known", condition=Q(state__in=["open", "satisfied"])
            ),
        ]
        indexes: ClassVar = [
            # Those that are open apart, however many have been met: they are what a job holds up.
            models.Index(name="dependency_open", fields=["parent"], condition=Q(state="open")),
            models.Index(name="dependency_parent", fields=["parent", "child"]),
            models.Index(name="dependency_unsettled", fields=["child"], condition=Q(settled=False)),
        ]

    def __str__(self) -> str:
        return f"{self.child_id} waits for {self.parent_id}"
