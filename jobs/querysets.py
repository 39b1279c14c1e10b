"""Words about many jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from django.db import models
from django.db.models.functions import Now

from jobs.states import LIVE, Status

if TYPE_CHECKING:
    from jobs.models import Job  # noqa: F401  named in a string below


class JobQuerySet(models.QuerySet["Job"]):
    def pending(self) -> Self:
        """Asks as the index of the pending jobs is declared (`models.job.LISTED`)."""
        return self.filter(status=Status.PENDING, attempt_count__gte=0)

    def ready(self) -> Self:
        """Due, with nothing to wait for: what a worker may claim now."""
        return self.pending().filter(unmet_dependencies=0, due_at__lte=Now())

    def scheduled(self) -> Self:
        """Not due yet, and never failed."""
        return self.pending().filter(
            unmet_dependencies=0, due_at__gt=Now(), next_retry_at__isnull=True
        )

    def retrying(self) -> Self:
        """Not due yet after an attempt that failed, snoozed or was lost."""
        return self.pending().filter(
            unmet_dependencies=0, due_at__gt=Now(), next_retry_at__isnull=False
        )

    def blocked(self) -> Self:
        return self.pending().filter(unmet_dependencies__gt=0)

    def held(self) -> Self:
        return self.pending().filter(unmet_dependencies=0, due_at__isnull=True)

    def waiting(self) -> Self:
        """Blocked, held or after an attempt: as the index `job_waiting` says it."""
        return self.pending().filter(
            models.Q(unmet_dependencies__gt=0)
            | models.Q(due_at__isnull=True)
            | models.Q(next_retry_at__isnull=False)
        )

    def processing(self) -> Self:
        return self.filter(status=Status.PROCESSING)

    def live(self) -> Self:
        return self.filter(status__in=list(LIVE))

    def dead(self) -> Self:
        """The dead-letter queue."""
        return self.filter(status=Status.FAILED)

    def finished(self) -> Self:
        """Ended well or cancelled: what retention may delete."""
        return self.filter(status__in=[Status.COMPLETED, Status.CANCELLED])
