"""A range run, the strands that make up its tree, and the keys that would not be processed.

Bounds are half-open positions on the run's axis. Ordinal axes (numbers, dates, UUIDs ...) keep them
in the numeric columns, text axes in the `*_key` columns, which compare by code point (COLLATE "C")
whatever the collation of the user's table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from jobs.ids import new_uuid
from ranges.states import FailureState, NodeKind, NodeState, RunStatus

if TYPE_CHECKING:
    from ranges.proof import Verdict


def _position(**options: Any) -> Any:
    return models.DecimalField(max_digits=1000, decimal_places=0, null=True, blank=True, **options)


def _key() -> Any:
    return models.TextField(null=True, blank=True, db_collation="C")


class RangeRun(models.Model):
    """One run of a `RangeJob` over [lo, hi)."""

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    name = models.CharField(max_length=200, help_text="The registered name of the RangeJob.")
    code_version = models.CharField(max_length=100, blank=True, default="")
    job_id = models.UUIDField(null=True, blank=True, help_text="The job that drives the run.")
    status = models.CharField(
        max_length=16,
        choices=[(s.value, s.value) for s in RunStatus],
        default=RunStatus.CREATED,
        db_default=RunStatus.CREATED.value,
    )
    reason = models.TextField(blank=True, default="", db_default="")
    params = models.JSONField(default=dict)
    metadata = models.JSONField(default=dict)
    start_options = models.JSONField(
        default=dict, help_text="scheduled_at and depends_on of the job that start() makes."
    )

    axis = models.JSONField(help_text="The key type and its options.")
    lo = _position()
    hi = _position()
    lo_key = _key()
    hi_key = _key()

    priority = models.SmallIntegerField(default=2)
    queue = models.CharField(max_length=60, default="default")
    concurrency = models.IntegerField(default=1)
    leaf = models.JSONField(default=dict, help_text="Leaf sizes, in rows or width, and seconds.")
    max_depth = models.IntegerField(null=True, blank=True)
    max_attempts = models.IntegerField(default=3)
    failure_threshold = models.FloatField(
        null=True, blank=True, default=5.0, help_text="Per cent of attempted items; NULL: none."
    )
    atomic = models.BooleanField(default=True)

    probing = models.CharField(
        max_length=8,
        choices=[(p, p) for p in ("none", "witness", "filter", "blocks")],
        default="none",
        help_text="How finished work is passed over.",
    )
    probe_timeouts = models.IntegerField(default=0, db_default=0)
    prune_errors = models.BigIntegerField(default=0, db_default=0)
    planned = models.BooleanField(default=False, db_default=False)
    rounds = models.IntegerField(
        default=0, db_default=0, help_text="How often lanes were made; part of their keys."
    )
    sweeps = models.IntegerField(default=0, db_default=0)
    forgiven_items = models.BigIntegerField(
        default=0, db_default=0, help_text="Attempted before the last resume; not in the threshold."
    )
    forgiven_failures = models.BigIntegerField(default=0, db_default=0)
    rows_estimate = models.BigIntegerField(null=True, blank=True)
    verdict = models.JSONField(null=True, blank=True, help_text="What the last verify found.")

    created_at = models.DateTimeField(db_default=Now())
    updated_at = models.DateTimeField(db_default=Now())
    started_at = models.DateTimeField(null=True, blank=True)
    resumed_at = models.DateTimeField(
        null=True, blank=True, help_text="Since when it runs; NULL while it does not."
    )
    finished_at = models.DateTimeField(null=True, blank=True)
    active_seconds = models.FloatField(default=0.0, db_default=0.0)

    class Meta:
        ordering: ClassVar = ["-id"]
        constraints: ClassVar = [
            models.CheckConstraint(name="run_not_inverted", condition=Q(lo__lte=F("hi"))),
            models.CheckConstraint(
                name="run_concurrency_positive", condition=Q(concurrency__gte=1)
            ),
        ]
        indexes: ClassVar = [
            models.Index(name="run_status", fields=["status", "-id"]),
            models.Index(name="run_name", fields=["name", "-id"]),
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.id}"

    # What may be done to it. Each brings this instance up to date.

    def start(self, *, by: str = "") -> Self:
        from ranges import lifecycle

        lifecycle.start(self, by=by)
        return self

    def pause(self, *, reason: str = "", by: str = "") -> Self:
        from ranges import lifecycle

        lifecycle.pause(self, reason=reason, by=by)
        return self

    def force_pause(self, *, reason: str = "", by: str = "") -> int:
        """When its workers show no sign of life, and no other one takes their jobs back."""
        from ranges import lifecycle

        return lifecycle.force_pause(self, reason=reason, by=by)

    def resume(self, *, code_version: str | None = None, by: str = "") -> Self:
        from ranges import lifecycle

        lifecycle.resume(self, code_version=code_version, by=by)
        return self

    def cancel(self, *, reason: str = "", by: str = "") -> Self:
        from ranges import lifecycle

        lifecycle.cancel(self, reason=reason, by=by)
        return self

    def retune(self, *, concurrency: int, by: str = "") -> Self:
        from ranges import lifecycle

        lifecycle.retune(self, concurrency=concurrency, by=by)
        return self

    def retry_failed(self, *, failures: Sequence[int] | None = None, by: str = "") -> int:
        """All that are open, or those with these ids."""
        from ranges import lifecycle

        return lifecycle.retry_failed(self, failures=failures, by=by)

    def waive(self, failure: RangeFailure | int, reason: str, *, by: str = "") -> RangeFailure:
        from ranges import lifecycle

        waived = lifecycle.waive(failure, reason, by=by)
        self.refresh_from_db()
        return waived

    def waive_all(self, reason: str, *, by: str = "") -> int:
        """All that are open."""
        from ranges import lifecycle

        return lifecycle.waive_all(self, reason, by=by)

    def again(self, *, by: str = "") -> RangeRun:
        """A new run over the same range, not started."""
        from ranges import lifecycle

        return lifecycle.again(self, by=by)

    # What there is to be known about it.

    def verify(self) -> Verdict:
        from ranges.proof import verify

        return verify(self)

    def assert_complete(self) -> Verdict:
        from ranges.loading import load
        from ranges.proof import assert_complete

        return assert_complete(self, load(self).source)

    def progress(self) -> Any:
        from ranges.progress import progress

        return progress(self)

    def tree(self, *, depth: int = 4) -> Any:
        from ranges.drawing import tree

        return tree(self, depth)

    def coverage(self, **options: Any) -> Any:
        from ranges.drawing import coverage

        return coverage(self, **options)


class RangeNode(models.Model):
    """A half-open piece of a run. `cur` is how far it is done; `resv` ends the leaf at work.

    Always lo <= cur <= resv <= hi. A node belongs to a lane job under one lease epoch; a commit
    that carries another epoch, or another `cur`, changes nothing.
    """

    id = models.BigAutoField(primary_key=True)
    run = models.ForeignKey(
        RangeRun, on_delete=models.CASCADE, related_name="nodes", db_index=False
    )
    parent = models.ForeignKey(
        "self",
        null=True,
        blank=True,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="children",
    )
    kind = models.CharField(max_length=6, choices=[(k.value, k.value) for k in NodeKind])
    state = models.CharField(
        max_length=7,
        choices=[(s.value, s.value) for s in NodeState],
        default=NodeState.PENDING,
        db_default=NodeState.PENDING.value,
    )
    depth = models.IntegerField(default=0, db_default=0)

    lo = _position()
    hi = _position()
    cur = _position()
    resv = _position()
    lo_key = _key()
    hi_key = _key()
    cur_key = _key()
    resv_key = _key()

    owner_job = models.UUIDField(null=True, blank=True)
    owner_epoch = models.BigIntegerField(null=True, blank=True)
    attempts = models.IntegerField(
        default=0, db_default=0, help_text="Failed attempts of the leaf at work."
    )
    interrupted = models.IntegerField(
        default=0, db_default=0, help_text="How often the leaf at work was lost with its worker."
    )
    next_at = models.DateTimeField(null=True, blank=True)

    rows_ok = models.BigIntegerField(default=0, db_default=0)
    rows_failed = models.BigIntegerField(default=0, db_default=0)
    width_ok = _position(default=0, db_default=0)
    width_skipped = _position(default=0, db_default=0)
    width_failed = _position(default=0, db_default=0)
    leaves = models.BigIntegerField(default=0, db_default=0)
    retries = models.BigIntegerField(default=0, db_default=0)
    fenced = models.BigIntegerField(default=0, db_default=0)
    busy_seconds = models.FloatField(default=0.0, db_default=0.0)
    seconds_per_row = models.FloatField(null=True, blank=True)
    leaf_seconds = models.JSONField(
        default=dict,
        db_default={},
        blank=True,
        help_text="How many leaves took how long, by the bucket of timings.py.",
    )
    cells = models.BinaryField(default=b"", db_default=b"")
    checkpoint = models.JSONField(null=True, blank=True)
    thefts = models.IntegerField(default=0, db_default=0, help_text="How often it lost its tail.")
    cool_until = models.DateTimeField(
        null=True, blank=True, help_text="Until then it is not stolen from again."
    )

    error = models.TextField(blank=True, default="", db_default="")
    traceback = models.TextField(blank=True, default="", db_default="")
    error_fingerprint = models.CharField(max_length=32, blank=True, default="", db_default="")
    created_at = models.DateTimeField(db_default=Now())
    claimed_at = models.DateTimeField(null=True, blank=True)
    progress_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                name="node_in_order",
                condition=Q(lo__lte=F("cur"), cur__lte=F("resv"), resv__lte=F("hi"))
                | Q(lo__isnull=True),
            ),
            models.CheckConstraint(
                name="node_keys_in_order",
                condition=Q(
                    lo_key__lte=F("cur_key"), cur_key__lte=F("resv_key"), resv_key__lte=F("hi_key")
                )
                | Q(lo_key__isnull=True),
            ),
        ]
        indexes: ClassVar = [
            models.Index(name="node_run", fields=["run", "id"]),
            models.Index(
                name="node_pending", fields=["run", "id"], condition=Q(state=NodeState.PENDING)
            ),
            models.Index(
                name="node_running", fields=["run", "id"], condition=Q(state=NodeState.RUNNING)
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.id} of {self.run_id}"


class RangeFailure(models.Model):
    """One key, or one small range, that would not be processed: the range's dead letter."""

    id = models.BigAutoField(primary_key=True)
    run = models.ForeignKey(
        RangeRun, on_delete=models.CASCADE, related_name="failures", db_index=False
    )
    node = models.ForeignKey(
        RangeNode,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="failures",
        db_index=False,
    )
    key = models.TextField(help_text="The key, or the first of the range, in its JSON form.")
    upto = models.TextField(blank=True, default="", help_text="The end of a range; empty: one key.")
    items = models.BigIntegerField(default=1)
    attempts = models.IntegerField()
    error = models.TextField()
    traceback = models.TextField(blank=True, default="", db_default="")
    error_fingerprint = models.CharField(max_length=32, blank=True, default="", db_default="")
    state = models.CharField(
        max_length=8,
        choices=[(s.value, s.value) for s in FailureState],
        default=FailureState.OPEN,
        db_default=FailureState.OPEN.value,
    )
    reason = models.TextField(blank=True, default="", db_default="")
    resolved_by = models.CharField(max_length=150, blank=True, default="", db_default="")
    created_at = models.DateTimeField(db_default=Now())
    resolved_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar = ["id"]
        indexes: ClassVar = [
            models.Index(name="failure_run", fields=["run", "state", "id"]),
            models.Index(name="failure_open", fields=["id"], condition=Q(state=FailureState.OPEN)),
        ]

    def __str__(self) -> str:
        return f"failure {self.id} at {self.key[:80]}"


class RangeSample(models.Model):
    """The sums of a run's nodes at a moment, about every ten seconds: what rates are made of."""

    id = models.BigAutoField(primary_key=True)
    run = models.ForeignKey(
        RangeRun, on_delete=models.CASCADE, related_name="samples", db_index=False
    )
    at = models.DateTimeField(db_default=Now())
    rows_ok = models.BigIntegerField()
    rows_failed = models.BigIntegerField()
    width_done = _position()
    leaves = models.BigIntegerField()
    active_seconds = models.FloatField()
    lanes = models.IntegerField()
    leaf_seconds = models.JSONField(
        null=True,
        blank=True,
        help_text="How many leaves took how long, by the bucket of timings.py; NULL: not known.",
    )

    class Meta:
        indexes: ClassVar = [models.Index(name="sample_run", fields=["run", "at"])]

    def __str__(self) -> str:
        return f"{self.run_id} at {self.at:%H:%M:%S}"
