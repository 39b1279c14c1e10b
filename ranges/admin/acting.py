"""What may be done to a run: by this person, in this state. What may not is not shown.

The lifecycle locks the run's row and looks again, so a button that came too late changes nothing and
says why.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

from jobs import conf, permissions
from jobs.console import confirming, kept
from jobs.console.confirming import Question
from jobs.console.pages import back_to
from jobs.errors import CoppiceError, InvalidInput
from ranges import console_panel, lifecycle
from ranges.models import RangeFailure, RangeRun
from ranges.states import FailureState, RunStatus

MOST = 100
"""Runs on one page of the list."""
ENDED_BADLY = (RunStatus.PARTIALLY_FAILED, RunStatus.FAILED)


@dataclass(frozen=True, kw_only=True)
class Button:
    name: str
    label: str
    icon: str
    states: tuple[RunStatus, ...]
    does: Callable[..., Any]
    done: str
    """What people are told afterwards."""
    confirm: str = ""
    """What the second step asks; empty: one step."""
    is_main: bool = False
    is_bad: bool = False
    needs_failures: bool = False


BUTTONS = (
    Button(
        name="start",
        label="Start",
        icon="running",
        states=(RunStatus.CREATED,),
        does=lifecycle.start,
        done="The run is started.",
        is_main=True,
    ),
    Button(
        name="resume",
        label="Resume",
        icon="running",
        states=(RunStatus.PAUSED,),
        does=lifecycle.resume,
        done="The run goes on where it stopped.",
        is_main=True,
    ),
    Button(
        name="pause",
        label="Pause",
        icon="held",
        states=(RunStatus.RUNNING,),
        does=lifecycle.pause,
        done="The run is paused. Leaves at work go on to their end.",
    ),
    Button(
        name="retry_failed",
        label="Retry failed",
        icon="repeat",
        states=(RunStatus.RUNNING, RunStatus.PAUSED, *ENDED_BADLY),
        does=lifecycle.retry_failed,
        done="",
        confirm="Work at all open failures again?",
        needs_failures=True,
    ),
    Button(
        name="cancel",
        label="Cancel run",
        icon="cancelled",
        states=(RunStatus.CREATED, RunStatus.RUNNING, RunStatus.PAUSED),
        does=lifecycle.cancel,
        done="The run is cancelled for good. What was done stays done.",
        confirm="End this run for good?",
        is_bad=True,
    ),
)
BY_NAME = {button.name: button for button in BUTTONS}

OF_MANY: dict[str, tuple[str, Callable[..., Any] | None, str]] = {
    "pause_runs": ("Pause", lifecycle.pause, "paused"),
    "resume_runs": ("Resume", lifecycle.resume, "resumed"),
    "retry_failed": ("Retry what failed", lifecycle.retry_failed, "set to retry what failed"),
    "cancel_runs": ("Cancel", lifecycle.cancel, "cancelled"),
}


def offered(run: RangeRun, open_failures: int, *, may_control: bool) -> list[Button]:
    return [
        button
        for button in BUTTONS
        if may_control
        and run.status in button.states
        and (open_failures or not button.needs_failures)
    ]


def act(admin: Any, request: HttpRequest, id: UUID) -> HttpResponse:
    """A button on the page of a run was pressed."""
    here = admin.address("change", id)
    if request.method != "POST":
        return HttpResponseRedirect(here)
    if not admin.may(request, permissions.CONTROL_RUN):
        raise PermissionDenied
    name = request.POST.get("action", "")
    button = BY_NAME.get(name)
    if button is not None and button.confirm and not confirming.is_confirmed(request):
        return _ask(admin, request, id, button, here)
    by = request.user.get_username()
    try:
        messages.success(request, _do(request, id, name, by))
    except InvalidInput as error:
        messages.error(request, f"Nothing was changed. {error}")
    except CoppiceError as error:
        messages.warning(request, f"Nothing was changed: {error}.")
    kept.forget(console_panel.NAME)
    return back_to(request, here)


def act_on_selection(admin: Any, request: HttpRequest) -> HttpResponse:
    """Each run by itself: one that refuses does not keep the others from it."""
    here = request.get_full_path()
    if not admin.may(request, permissions.CONTROL_RUN):
        raise PermissionDenied
    _, call, done = OF_MANY.get(request.POST.get("action", ""), ("", None, ""))
    chosen = [id for id in map(_uuid, request.POST.getlist("_selected_action")[:MOST]) if id]
    if call is None or not chosen:
        messages.warning(request, "Nothing was changed: tick runs, and say what to do with them.")
        return HttpResponseRedirect(here)
    if call is lifecycle.cancel and not confirming.is_confirmed(request):
        number = f"{len(chosen):,} {'run' if len(chosen) == 1 else 'runs'}"
        question = Question(
            title=f"Cancel {number}?",
            what=f"Ends {number} for good. What they did stays done.",
            button=f"Cancel {number}",
            back=here,
            hidden=[("action", "cancel_runs"), *(("_selected_action", str(id)) for id in chosen)],
            is_dangerous=True,
        )
        return _confirm(admin, request, question)
    options = {"by": request.user.get_username()}
    if call in (lifecycle.pause, lifecycle.cancel):
        options["reason"] = confirming.reason(request)
    count = 0
    for id in chosen:
        try:
            call(id, **options)
        except CoppiceError as error:
            messages.warning(request, str(error))
        else:
            count += 1
    if count:
        messages.success(request, f"{count:,} {'run was' if count == 1 else 'runs were'} {done}.")
    kept.forget(console_panel.NAME)
    return HttpResponseRedirect(here)


def _do(request: HttpRequest, id: UUID, name: str, by: str) -> str:
    """What was done, in words. Raises CoppiceError."""
    reason = confirming.reason(request)
    match name:
        case "pause" | "cancel":
            BY_NAME[name].does(id, reason=reason, by=by)
            return BY_NAME[name].done
        case "start" | "resume":
            BY_NAME[name].does(id, by=by)
            return BY_NAME[name].done
        case "retry_failed":
            count = lifecycle.retry_failed(id, by=by)
            return f"{count:,} {'failure is' if count == 1 else 'failures are'} worked at again."
        case "retune":
            lanes = _whole(request.POST.get("concurrency", ""), "concurrency")
            lifecycle.retune(id, concurrency=lanes, by=by)
            return (
                f"Up to {lanes:,} {'lane works' if lanes == 1 else 'lanes work'} at it from now on."
            )
        case "waive":
            failure = _failure_of(id, request.POST.get("failure", ""))
            lifecycle.waive(failure, reason, by=by)
            return f"Key {failure.key[:80]} is waived: it counts as settled."
        case _:
            raise InvalidInput("is not known here", field="action")


def _ask(admin: Any, request: HttpRequest, id: UUID, button: Button, here: str) -> HttpResponse:
    """The second step for who has no script."""
    run = RangeRun.objects.using(conf.get().database).filter(id=id).first()
    if run is None:
        messages.warning(request, "Nothing was changed: there is no such run any more.")
        return HttpResponseRedirect(admin.address("changelist"))
    failures = RangeFailure.objects.using(conf.get().database)
    open_ones = failures.filter(run=run, state=FailureState.OPEN).count()
    what = {
        "cancel": f"Ends {run.name} for good. What was done stays done; what is left stays undone.",
        "retry_failed": f"Works at {open_ones:,} open failures of {run.name} again.",
    }[button.name]
    question = Question(
        title=button.confirm,
        what=what,
        button=button.label,
        back=here,
        hidden=[("action", button.name)],
        has_reason=button.name == "cancel",
        is_dangerous=button.is_bad,
    )
    return _confirm(admin, request, question)


def _confirm(admin: Any, request: HttpRequest, question: Question) -> HttpResponse:
    context = {"title": question.title, "question": question}
    return cast("HttpResponse", admin.page(request, "admin/console/confirm.html", context))


def _failure_of(run_id: UUID, text: str) -> RangeFailure:
    failures = RangeFailure.objects.using(conf.get().database)
    found = failures.filter(run_id=run_id, id=_whole(text, "failure")).first()
    if found is None:
        raise InvalidInput("is not a failure of this run", field="failure")
    return found


def _whole(text: str, field: str) -> int:
    text = text.strip()
    if not (text.isascii() and text.isdecimal() and len(text) <= 18):
        raise InvalidInput("must be a whole number", field=field)
    return int(text)


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
