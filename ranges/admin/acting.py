"""What may be done to a run: by this person, in this state. What may not is not shown.

The lifecycle locks the run's row and looks again, so a button that came too late changes nothing and
says why.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from jobs.console.words import count, sentence
from jobs.errors import CoppiceError, InvalidInput
from ranges import console_panel, declaring, lifecycle
from ranges.models import RangeFailure, RangeRun
from ranges.states import FailureState, RunStatus

MOST = 100
"""Runs on one page of the list."""
COUNTED = 10_000
"""So far failures are counted for a question."""
ENDED_BADLY = (RunStatus.PARTIALLY_FAILED, RunStatus.FAILED)


@dataclass(frozen=True, kw_only=True)
class Button:
    name: str
    label: str
    icon: str
    states: tuple[RunStatus, ...]
    confirm: str = ""
    """What the second step asks; empty: one step."""
    what: str = ""
    """What the page of the second step says that it does; with `{run}` and `{failures}`."""
    has_page: bool = False
    """The second step is a page of its own, also with script."""
    is_main: bool = False
    is_bad: bool = False
    needs_failures: bool = False
    needs_stuck: bool = False


BUTTONS = (
    Button(name="start", label="Start", icon="running", states=(RunStatus.CREATED,), is_main=True),
    Button(name="resume", label="Resume", icon="running", states=(RunStatus.PAUSED,), is_main=True),
    Button(name="pause", label="Pause", icon="held", states=(RunStatus.RUNNING,)),
    Button(
        name="force_pause",
        label="Force pause…",
        icon="warning",
        states=(RunStatus.RUNNING, RunStatus.PAUSED),
        confirm="Take its jobs from workers without a sign of life?",
        what=(
            "Pauses {run}, and takes its lanes away from workers that show no sign of life. No live"
            " worker has done so. Should one of those still be at work, what it writes is refused and"
            " rolled back."
        ),
        has_page=True,
        is_bad=True,
        needs_stuck=True,
    ),
    Button(
        name="retry_failed",
        label="Retry failed",
        icon="repeat",
        states=(RunStatus.RUNNING, RunStatus.PAUSED, *ENDED_BADLY),
        confirm="Work at all open failures again?",
        what="Works at {failures} of {run} again.",
        needs_failures=True,
    ),
    Button(
        name="again",
        label="Run again",
        icon="plus",
        states=(*ENDED_BADLY, RunStatus.COMPLETED, RunStatus.CANCELLED),
        confirm="Make a new run of the same range?",
        what=(
            "Makes a new run of {run} over the same range, with the same options and params. It is"
            " not started. What is done already is passed over as the job declares it."
        ),
    ),
    Button(
        name="cancel",
        label="Cancel run",
        icon="cancelled",
        states=(RunStatus.CREATED, RunStatus.RUNNING, RunStatus.PAUSED),
        confirm="End this run for good?",
        what="Ends {run} for good. What was done stays done; what is left stays undone.",
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


def offered(
    run: RangeRun, open_failures: int, *, is_stuck: bool, may_control: bool
) -> list[Button]:
    return [
        button
        for button in BUTTONS
        if may_control
        and run.status in button.states
        and (open_failures or not button.needs_failures)
        and (is_stuck or not button.needs_stuck)
    ]


def other_version(run: RangeRun) -> str | None:
    """The version of the class here, if a paused run goes by another; it cannot go on by itself."""
    declared = declaring.find(run.name)
    if run.status != RunStatus.PAUSED or declared is None:
        return None
    return declared.version if declared.version != run.code_version else None


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
        done = _do(request, id, name, by)
    except InvalidInput as error:
        messages.error(request, f"Nothing was changed. {error}")
    except CoppiceError as error:
        messages.warning(request, f"Nothing was changed: {sentence(error)}")
    else:
        if isinstance(done, RangeRun):
            messages.success(request, "This is a new run of the same range. It is not started.")
            return HttpResponseRedirect(admin.address("change", done.id))
        messages.success(request, done)
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
    if call in (lifecycle.cancel, lifecycle.retry_failed) and not confirming.is_confirmed(request):
        return _confirm(admin, request, _about_many(request.POST["action"], chosen, here))
    options = {"by": request.user.get_username()}
    if call in (lifecycle.pause, lifecycle.cancel):
        options["reason"] = confirming.reason(request)
    changed = 0
    for id in chosen:
        try:
            call(id, **options)
        except CoppiceError as error:
            messages.warning(request, str(error))
        else:
            changed += 1
    if changed:
        runs = f"{changed:,} {'run was' if changed == 1 else 'runs were'}"
        messages.success(request, f"{runs} {done}.")
    kept.forget(console_panel.NAME)
    return HttpResponseRedirect(here)


def _about_many(action: str, chosen: list[UUID], here: str) -> Question:
    number = f"{len(chosen):,} {'run' if len(chosen) == 1 else 'runs'}"
    hidden = [("action", action), *(("_selected_action", str(id)) for id in chosen)]
    if action == "retry_failed":
        return Question(
            title=f"Retry what failed in {number}?",
            what=f"Works at {open_failures(chosen)} of {number} again.",
            button="Retry what failed",
            back=here,
            hidden=hidden,
            has_reason=False,
        )
    return Question(
        title=f"Cancel {number}?",
        what=f"Ends {number} for good. What they did stays done.",
        button=f"Cancel {number}",
        back=here,
        hidden=hidden,
        is_dangerous=True,
    )


def open_failures(runs: Sequence[UUID]) -> str:
    """How many there are in these runs: "1 open failure", "10,000+ open failures"."""
    failures = RangeFailure.objects.using(conf.get().database)
    found = failures.filter(run__in=runs, state=FailureState.OPEN).order_by()
    number = found[: COUNTED + 1].count()
    shown = count(min(number, COUNTED), is_least=number > COUNTED)
    return f"{shown} open {'failure' if number == 1 else 'failures'}"


def _do(request: HttpRequest, id: UUID, name: str, by: str) -> str | RangeRun:
    """What was done, in words; or the run that was made. Raises CoppiceError."""
    reason = confirming.reason(request)
    match name:
        case "start":
            lifecycle.start(id, by=by)
            return "The run is started."
        case "pause":
            lifecycle.pause(id, reason=reason, by=by)
            return "The run is paused. Leaves at work go on to their end."
        case "force_pause":
            taken = lifecycle.force_pause(id, reason=reason, by=by)
            jobs = "1 job was" if taken == 1 else f"{taken:,} jobs were"
            return f"The run is paused. {jobs} taken from workers without a sign of life."
        case "resume":
            lifecycle.resume(id, code_version=request.POST.get("code_version"), by=by)
            return "The run goes on where it stopped."
        case "cancel":
            lifecycle.cancel(id, reason=reason, by=by)
            return "The run is cancelled for good. What was done stays done."
        case "again":
            return lifecycle.again(id, by=by)
        case "retry_failed":
            return _again(lifecycle.retry_failed(id, by=by))
        case "retry_one":
            failure = _failure_of(id, request.POST.get("failure", ""))
            return _again(lifecycle.retry_failed(id, failures=[failure.id], by=by))
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
        case "waive_all":
            waived = lifecycle.waive_all(id, reason, by=by)
            return f"{waived:,} {'failure is' if waived == 1 else 'failures are'} waived."
        case _:
            raise InvalidInput("is not known here", field="action")


def _again(number: int) -> str:
    return f"{number:,} {'failure is' if number == 1 else 'failures are'} worked at again."


def _ask(admin: Any, request: HttpRequest, id: UUID, button: Button, here: str) -> HttpResponse:
    """The second step for who has no script, and where a page of its own is due."""
    run = RangeRun.objects.using(conf.get().database).filter(id=id).first()
    if run is None:
        messages.warning(request, "Nothing was changed: there is no such run any more.")
        return HttpResponseRedirect(admin.address("changelist"))
    question = Question(
        title=button.confirm,
        what=button.what.format(run=run.name, failures=open_failures([id])),
        button=button.label.removesuffix("…"),
        back=here,
        hidden=[("action", button.name)],
        has_reason=button.name in ("cancel", "force_pause"),
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
