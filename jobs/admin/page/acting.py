"""What is done to one job from its page, if the row is still the one that was looked at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpRequest
from django.utils import timezone

from jobs import audit, conf, lifecycle, permissions
from jobs.admin.page import buttons
from jobs.console import confirming, moments
from jobs.console.words import ago, sentence
from jobs.drafts import refuse_internal
from jobs.enqueueing import enqueue
from jobs.errors import Conflict, CoppiceError, InvalidInput, NotFound
from jobs.lifecycle import CancelResult
from jobs.models import Job, JobLog, Worker
from jobs.states import Status
from jobs.templatetags.console import short

SEEN = "seen"


class Changed(Conflict):
    """Somebody else was faster."""


@contextmanager
def as_seen(id: UUID, seen: str) -> Iterator[Job]:
    """A transaction that holds the row, which is as the page showed it. Raises Changed, NotFound."""
    alias = conf.get().database
    with transaction.atomic(using=alias):
        job = Job.objects.using(alias).select_for_update(no_key=True).filter(id=id).first()
        if job is None:
            raise NotFound("job", id)
        if seen and seen != seen_of(job):
            raise Changed(_what_happened(job))
        yield job


def seen_of(job: Job) -> str:
    return f"{job.updated_at.isoformat()}~{job.lease_epoch}~{job.status}"


def _what_happened(job: Job) -> str:
    """Who did what just now: "changed 2 s ago (retried by anna)", "... (completed by worker-3)"."""
    alias = conf.get().database
    line = JobLog.objects.using(alias).filter(job=job).order_by("-id").first()
    if line is None:
        return "the job has changed since you looked at it"
    by = line.data.get("by") if isinstance(line.data, dict) else None
    if by is None and line.worker_id is not None:
        found = Worker.objects.using(alias).filter(id=line.worker_id)
        by = found.values_list("name", flat=True).first()
    what = f"{line.event.replace('_', ' ')}{f' by {by}' if by else ''}"
    when = ago(line.at, timezone.now())
    return f"the job was changed {'just now' if when == 'now' else when} ({what})"


def act(request: HttpRequest, id: UUID, name: str) -> str | UUID:
    """Do what a button says, and tell. Returns the id of a copy, "purged", or ""."""
    button = buttons.BY_NAME.get(name)
    if button is None or not all(request.user.has_perm(each) for each in button.needs):
        raise PermissionDenied
    by, reason = request.user.get_username(), confirming.reason(request)
    try:
        with as_seen(id, request.POST.get(SEEN, "")) as job:
            done, answer = _do(job, name, by, reason)
    except Changed as error:
        messages.warning(
            request, f"Nothing was done: {error}. Look again, and repeat it if you still want it."
        )
        return ""
    except CoppiceError as error:
        messages.warning(request, f"Nothing was changed: {sentence(error)}")
        return ""
    messages.success(request, done)
    return answer


def _do(job: Job, name: str, by: str, reason: str) -> tuple[str, str | UUID]:
    match name:
        case "retry":
            lifecycle.retry(job, by=by, reason=reason)
            return "Retried: it is due now, with all its attempts before it.", ""
        case "run_now":
            lifecycle.run_now(job, by=by, reason=reason)
            return "It is due now.", ""
        case "release":
            lifecycle.release(job, by=by, reason=reason)
            return "Released.", ""
        case "cancel":
            if lifecycle.cancel(job, by=by, reason=reason) is CancelResult.REQUESTED:
                return "Asked to stop. The handler sees it within two seconds.", ""
            return "Cancelled.", ""
        case "mark_lost":
            if lifecycle.mark_lost(job, by=by, reason=reason) == Status.CANCELLED:
                return "Taken away from its worker: it is cancelled.", ""
            return "Taken away from its worker.", ""
        case "purge":
            lifecycle.purge(job, by=by, reason=reason)
            return f"Purged {job.type} {short(job.id)} with its attempts and log.", "purged"
        case _:
            made = copy(job)
            scope = f"job {made.id} ({made.type})"
            data = {"copy_of": str(job.id)}
            audit.record(
                "job.copy", actor=by, scope=scope, object_id=str(made.id), changed=1, data=data
            )
            return "This is a new job with the same payload.", made.id


def copy(job: Job) -> Job:
    """A new job like this one, due now.

    Raises InvalidInput for a type that is not known here, or is Coppice's own.
    """
    refuse_internal(type=job.type)
    return enqueue(
        job.type,
        job.payload,
        queue=job.queue,
        priority=job.priority,
        max_attempts=job.max_attempts,
        metadata={**_without_internal(job.metadata), "copy_of": str(job.id)},
    )


def _without_internal(metadata: Any) -> dict[str, Any]:
    found = metadata if isinstance(metadata, dict) else {}
    return {key: value for key, value in found.items() if key != "internal"}


def change(request: HttpRequest, id: UUID) -> None:
    """Another priority, queue or time, and tell."""
    if not request.user.has_perm(permissions.EDIT):
        raise PermissionDenied
    try:
        wanted = _wanted(request)
        with as_seen(id, request.POST.get(SEEN, "")) as job:
            changed = lifecycle.change(
                job,
                **wanted,
                by=request.user.get_username(),
                reason=confirming.reason(request),
            )
    except Changed as error:
        messages.warning(
            request, f"Nothing was done: {error}. Look again, and repeat it if you still want it."
        )
    except CoppiceError as error:
        messages.error(request, f"Nothing was changed. {error}")
    else:
        names = ", ".join(name.removesuffix("_at").replace("_", " ") for name in changed)
        said = f"Changed: {names}." if changed else "Nothing to change: it is so already."
        messages.add_message(request, messages.SUCCESS if changed else messages.INFO, said)


def _wanted(request: HttpRequest) -> dict[str, Any]:
    priority, queue = request.POST.get("priority", ""), request.POST.get("queue", "").strip()
    found: dict[str, Any] = {}
    if priority:
        if not priority.isdecimal():
            raise InvalidInput("must be high, medium or low", field="priority")
        found["priority"] = int(priority)
    if queue:
        found["queue"] = queue
    at = request.POST.get("scheduled_at", "").strip()
    if at:
        found["scheduled_at"] = moments.given(at, "scheduled_at")
    return found
