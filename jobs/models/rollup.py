"""Counts of ended attempts, kept so that no page ever has to count jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django.db import models

if TYPE_CHECKING:
    TimingsBase = models.Field[list[int] | None, list[int] | None]
else:
    TimingsBase = models.Field


class Timings(TimingsBase):
    """How long they waited and ran, as `jobs.histograms` packs it. NULL: nobody counted.

    PostgreSQL's own array, without asking projects to install `django.contrib.postgres`.
    """

    def db_type(self, connection: Any) -> str:  # noqa: ARG002
        return "bigint[]"


class Rollup(models.Model):
    """What one completing transaction ended, by minute, queue, type and outcome.

    Insert-only: a shared row that all completions update would halve their rate. The leader folds
    the deltas of past minutes into one row each and adds them to `Total`.
    """

    minute = models.DateTimeField()
    queue = models.CharField(max_length=60)
    type = models.CharField(max_length=100)
    outcome = models.CharField(max_length=11)
    jobs = models.IntegerField()
    wait_seconds = models.FloatField(help_text="Sum of due_at to start.")
    run_seconds = models.FloatField(help_text="Sum of start to end.")
    timings = Timings(null=True, editable=False)
    folded = models.BooleanField(default=False, db_default=False)

    class Meta:
        indexes: ClassVar = [
            models.Index(name="rollup_minute", fields=["minute"]),
            models.Index(
                name="rollup_unfolded", fields=["minute"], condition=models.Q(folded=False)
            ),
        ]

    def __str__(self) -> str:
        return f"{self.minute:%Y-%m-%d %H:%M} {self.queue} {self.type} {self.outcome} {self.jobs}"


class Total(models.Model):
    """The ever-growing sum of folded rollups, for counters that may not fall."""

    pk = models.CompositePrimaryKey("queue", "type", "outcome")
    queue = models.CharField(max_length=60)
    type = models.CharField(max_length=100)
    outcome = models.CharField(max_length=11)
    jobs = models.BigIntegerField()
    wait_seconds = models.FloatField()
    run_seconds = models.FloatField()
    timings = Timings(null=True, editable=False)

    def __str__(self) -> str:
        return f"{self.queue} {self.type} {self.outcome} {self.jobs}"
