"""Bulk operations as a test sees them."""

from __future__ import annotations

from typing import Any, cast

from django.db.models import F

from jobs import bulk
from jobs.answers import JobCancelled
from jobs.bulk import running
from jobs.filtering import Filters
from jobs.ids import new_uuid
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


class Attempt:
    """One attempt of an operation's job, as its handler sees it."""

    def __init__(self, operation: BulkOperation) -> None:
        jobs_of(operation).update(
            status="processing", worker_id=new_uuid(), lease_epoch=F("lease_epoch") + 1
        )
        self.lease_epoch = jobs_of(operation).get().lease_epoch
        self.job_id = str(operation.job_id)
        self.stop_reason = ""
        self.should_yield = False

    def check_cancelled(self) -> None:
        if self.stop_reason:
            raise JobCancelled

    def progress(self, done: int, total: int | None) -> None:
        pass

    def work(self, operation: BulkOperation) -> Any:
        return running.Run(str(operation.id), cast("Any", self)).work()
