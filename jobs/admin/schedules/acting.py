"""What the buttons of a schedule do: each says what has really changed."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.utils.html import format_html

from jobs import clocks, permissions, schedules
from jobs.console.confirming import Question
from jobs.console.words import count
from jobs.models import Schedule

NEEDS = {
    "enable": permissions.EDIT_SCHEDULE,
    "disable": permissions.EDIT_SCHEDULE,
    "skip": permissions.EDIT_SCHEDULE,
    "delete": permissions.EDIT_SCHEDULE,
    "run": permissions.RUN_SCHEDULE,
}


def require(request: HttpRequest, action: str) -> None:
    """Raises PermissionDenied, also for what is no action."""
    if action not in NEEDS or not request.user.has_perm(NEEDS[action]):
        raise PermissionDenied


def act(request: HttpRequest, schedule: Schedule, action: str, job_address: Any) -> None:
    """Raises CoppiceError."""
    by, name = request.user.get_username(), schedule.name
    match action:
        case "enable" if schedule.enabled and schedule.next_slot:
            messages.warning(request, f"Nothing was changed: {name} was enabled before.")
        case "enable":
            now = schedules.enable(schedule, by=by)
            messages.success(request, f"{name} is enabled. Its next run: {_said(now.next_slot)}.")
        case "disable" if not schedule.enabled:
            messages.warning(request, f"Nothing was changed: {name} was disabled before.")
        case "disable":
            schedules.disable(schedule, by=by)
            messages.success(
                request, f"{name} is disabled. Jobs that it has made stay as they are."
            )
        case "skip":
            slot = request.POST.get("slot") or None
            before = schedule.next_slot
            now = schedules.skip_next(schedule, slot=slot, by=by)
            messages.success(
                request,
                f"The run of {_said(before)} is skipped. The next one: {_said(now.next_slot)}.",
            )
        case "delete":
            schedules.delete(schedule, by=by)
            messages.success(request, f"{name} is deleted. Jobs that it has made stay as they are.")
        case "run":
            job = schedules.run_now(schedule, by=by)
            text = '{} runs now, as <a href="{}">job {}</a>. Its next run stays where it was.'
            link = format_html(text, name, job_address(job.id), str(job.id)[-8:])
            messages.success(request, link)


def question(schedule: Schedule, back: str, next_page: str) -> Question:
    """Before it is deleted."""
    facts = [
        ("Schedule", schedule.name),
        ("Type", schedule.type),
        ("When", schedules.describe(schedule)),
        ("Next run", _said(schedule.next_slot)),
        ("Missed so far", count(schedule.missed_count)),
    ]
    return Question(
        title=f"Delete {schedule.name}",
        what="Deletes the schedule for good. It makes no more jobs.",
        button="Delete the schedule",
        back=back,
        facts=facts,
        hidden=[("action", "delete"), ("next", next_page)],
        notes=[
            "Jobs that it has made stay as they are, also those that wait or run.",
            "To stop it for a while, disable it instead.",
        ],
        has_reason=False,
        is_dangerous=True,
    )


def _said(at: datetime | None) -> str:
    return clocks.said(at) if at else "none"
