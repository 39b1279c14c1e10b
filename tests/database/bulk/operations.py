"""Bulk operations as a test sees them."""

from __future__ import annotations

from typing import Any

from jobs import bulk
from jobs.filtering import Filters
from jobs.models import BulkOperation, Job
from jobs.states import Status
from jobs.testing import run_due_jobs

DEAD = Filters(status=Status.FAILED)


def worked(operation: BulkOperation) -> BulkOperation:
    """Have a worker do all that is due, and look again."""
    run_due_jobs()
    return bulk.get(operation.id)


def jobs_of(operation: BulkOperation) -> Any:
    """The job that works on it, if it is there."""
    assert operation.job_id is not None
    return Job.objects.filter(id=operation.job_id)


def statuses(*jobs: Job) -> list[str]:
    found = dict(Job.objects.values_list("id", "status"))
    return [found.get(job.id, "gone") for job in jobs]
