"""Rows for tests, made as directly as possible: no handler, no check, no event."""

# Types of factory-boy are not complete.
# mypy: disable-error-code="no-untyped-call, attr-defined, type-arg"

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from itertools import count
from typing import Any, cast

import factory
from django.utils import timezone

from jobs import registry
from jobs.filtering import id_at
from jobs.ids import new_uuid
from jobs.models import Attempt, Job, JobDependency, JobLog, Queue, Schedule, Worker
from jobs.states import Status

_ids = count()


def ago(**length: float) -> datetime:
    """That long before now: `ago(days=8)`."""
    return timezone.now() - timedelta(**length)


class WorkerFactory(factory.django.DjangoModelFactory):
    class Meta:
        model = Worker

    id = factory.LazyFunction(new_uuid)
    name = factory.Sequence(lambda n: f"host:{n}")
    host = "host"
    pid = factory.Sequence(lambda n: 1_000 + n)
    concurrency = 4
    types = factory.LazyFunction(lambda: ["test", *registry.types()])
    queues = factory.LazyFunction(list)


class JobFactory(factory.django.DjangoModelFactory):
    """A job in any status, with the times that the status needs."""

    class Meta:
        model = Job

    id = factory.LazyAttribute(lambda made: id_made_at(getattr(made, "created_at", None)))
    type = "test"
    payload = factory.LazyFunction(lambda: {"n": 1})

    class Params:
        processing = factory.Trait(
            status=Status.PROCESSING,
            worker_id=factory.LazyFunction(new_uuid),
            attempt_count=1,
            lease_epoch=1,
            started_at=factory.LazyFunction(timezone.now),
        )
        completed = factory.Trait(
            status=Status.COMPLETED,
            attempt_count=1,
            lease_epoch=1,
            completed_at=factory.LazyFunction(timezone.now),
        )
        dead = factory.Trait(
            status=Status.FAILED,
            attempt_count=3,
            lease_epoch=3,
            failed_at=factory.LazyFunction(timezone.now),
            last_error="ValueError: bad",
            error_fingerprint="0123456789abcdef",
        )
        cancelled = factory.Trait(
            status=Status.CANCELLED, cancelled_at=factory.LazyFunction(timezone.now)
        )
        scheduled = factory.Trait(
            scheduled_at=factory.LazyFunction(lambda: timezone.now() + timedelta(hours=1)),
            due_at=factory.SelfAttribute("scheduled_at"),
        )
        retrying = factory.Trait(
            attempt_count=1,
            lease_epoch=1,
            next_retry_at=factory.LazyFunction(lambda: timezone.now() + timedelta(hours=1)),
            due_at=factory.SelfAttribute("next_retry_at"),
        )
        held = factory.Trait(due_at=None, hold_reason="waits for a person")


class ScheduleFactory(factory.django.DjangoModelFactory):
    class Meta:
        model = Schedule

    name = factory.Sequence(lambda n: f"schedule {n}")
    type = "test"
    recur_interval = "every_1_minute"
    interval_seconds = 60


class QueueFactory(factory.django.DjangoModelFactory):
    class Meta:
        model = Queue

    name = factory.Sequence(lambda n: f"queue{n}")


def id_made_at(created_at: datetime | None) -> uuid.UUID:
    """An id as it would have been made then: it begins with its time, and ids ascend."""
    id = new_uuid()
    if created_at is None:
        return id
    return uuid.UUID(int=id_at(created_at).int | next(_ids) << 48 | id.int % 2**48)


def make_job(*traits: str, **columns: Any) -> Job:
    """A stored job: `make_job("dead", unique_key="a")`."""
    return cast("Job", JobFactory(**dict.fromkeys(traits, True), **columns))


def make_edge(
    child: Job, parent: Job, *, kind: str = "completed", state: str = "open"
) -> JobDependency:
    """A settled edge, with the child's counter and the parent's flag as settling leaves them."""
    edge = JobDependency.objects.create(
        child=child, parent=parent, kind=kind, state=state, settled=True
    )
    Job.objects.filter(id=parent.id).update(has_dependents=True)
    if state == "open":
        child.refresh_from_db()
        child.unmet_dependencies += 1
        child.save(update_fields=["unmet_dependencies"])
    return edge


def make_history(job: Job, *, attempts: int = 1, error: str = "") -> None:
    """Ended attempts and a log line for each."""
    for number in range(1, attempts + 1):
        Attempt.objects.create(
            job=job,
            lease_epoch=number,
            number=number,
            started_at=ago(minutes=attempts - number + 1),
            outcome="failed" if error else "succeeded",
            error=error,
            traceback=f"Traceback\n{error}" if error else "",
        )
        JobLog.objects.create(job=job, event="started", attempt=number)


def make_worker(**columns: Any) -> Worker:
    """A stored worker; by default running, just seen, and knowing the type "test"."""
    return cast("Worker", WorkerFactory(**columns))


def make_schedule(**columns: Any) -> Schedule:
    return cast("Schedule", ScheduleFactory(**columns))


def make_queue(**columns: Any) -> Queue:
    return cast("Queue", QueueFactory(**columns))
