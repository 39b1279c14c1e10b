"""What is done to the jobs that are selected, and to all that match.

A selection is changed at once, each row checked again under its lock. "All that match" is never
changed in the request: it becomes a bulk operation, which a worker carries out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

from jobs import bulk
from jobs.admin.ledger import reading
from jobs.admin.ledger.actions import Action
from jobs.bulk.actions import Family
from jobs.console import confirming, sample
from jobs.console.confirming import Field, Question
from jobs.console.moments import localised
from jobs.console.words import PRIORITIES, count
from jobs.errors import Conflict, CoppiceError, InvalidInput
from jobs.filtering import Filters
from jobs.models import BulkOperation
from jobs.templatetags.console import moment

SELECTED = "_selected_action"
MOST = 500
"""The most jobs that one form may name."""
SAMPLE = 10
BULK_NOTE = (
    "A worker does it in batches; you can pause or abort it meanwhile. Jobs that come to match "
    "later, and those that Coppice made for itself, are left alone."
)


def act_on_selection(request: HttpRequest, action: Action, back: str) -> HttpResponse | Question:
    """Do it, or ask first. Afterwards one is where one was."""
    try:
        ids = _selected(request)
        arguments = _arguments(request, action)
    except InvalidInput as error:
        messages.error(request, f"Nothing was changed. {error}")
        return HttpResponseRedirect(back)
    if not ids:
        messages.warning(request, "Nothing was changed: no job was selected.")
        return HttpResponseRedirect(back)
    word = f"purge {len(ids):,}" if action.name == "purge" and len(ids) > 1 else ""
    if not _may_go_ahead(request, action, ids, word) or (action.argument and not arguments):
        return _about_selection(request, action, ids, back, word)
    try:
        by = request.user.get_username()
        changed = action.call(ids, by=by, reason=confirming.reason(request), **arguments)
    except CoppiceError as error:
        messages.error(request, f"Nothing was changed: {error}")
    else:
        level = messages.SUCCESS if changed.done else messages.WARNING
        messages.add_message(request, level, f"{changed.sentence(action.done)}.")
    return HttpResponseRedirect(back)


def about_all(
    request: HttpRequest,
    action: Action,
    filters: Filters,
    back: str,
    arguments: Mapping[str, Any] | None = None,
) -> Question:
    """The page before a bulk operation; `arguments` are what its fields begin with.

    Raises InvalidInput and TooBroad, and Conflict when nothing matches.
    """
    preview = bulk.preview(action.name, localised(filters))
    if not preview.count:
        raise Conflict("No job matches.")
    number = count(preview.count, is_least=preview.is_capped)
    dates = "died" if action.does.family is Family.DEAD else "created"
    facts: list[tuple[str, Any]] = [("Matching", preview.in_words), ("Jobs", number)]
    if preview.oldest and preview.newest:
        facts.append((f"Oldest {dates}", moment(preview.oldest)))
        facts.append((f"Newest {dates}", moment(preview.newest)))
    word = f"purge {number}" if action.name == "purge" else ""
    return Question(
        title=f"{action.imperative.rstrip(':')} all that match",
        what=action.sentence.format(jobs=f"all {_jobs(preview.count, number)} that match"),
        button=f"{action.imperative} {_jobs(preview.count, number)}",
        back=back,
        facts=facts,
        hidden=[("action", action.name)],
        fields=_fields(request, action, arguments or {}),
        sample=reading.rows_of([job.id for job in preview.sample]),
        more=preview.count - len(preview.sample),
        notes=[*action.notes, BULK_NOTE],
        type=word,
        is_dangerous=action.is_dangerous,
        problem=_not_typed(request, word),
    )


def asked(action: Action, operation: BulkOperation) -> str:
    """ "A worker was asked: it retries 1,039 jobs." """
    number = count(operation.matched, is_least=operation.matched_is_capped)
    sentence = action.sentence.format(jobs=_jobs(operation.matched, number))
    return f"A worker was asked: it {sentence[0].lower()}{sentence[1:]}"


def begin_bulk(request: HttpRequest, action: Action, filters: Filters) -> BulkOperation:
    """The bulk operation, created. Raises CoppiceError and PermissionDenied."""
    if not request.user.has_perm(bulk.permission_of(action.name, filters)):
        raise PermissionDenied
    return bulk.create(
        action.name,
        filters,
        arguments=_arguments(request, action),
        reason=confirming.reason(request),
        by=request.user.get_username(),
    )


def _selected(request: HttpRequest) -> list[UUID]:
    """The ids that were ticked. Raises InvalidInput."""
    given = dict.fromkeys(request.POST.getlist(SELECTED))
    if len(given) > MOST:
        raise InvalidInput(f"at most {MOST:,} at once; act on all that match instead", field="jobs")
    try:
        return [UUID(each) for each in given]
    except ValueError:
        raise InvalidInput("is not a job's id", field="jobs") from None


def _may_go_ahead(request: HttpRequest, action: Action, ids: list[UUID], word: str) -> bool:
    if action.name in ("retry", "run_now") and len(ids) == 1:
        return True
    return confirming.is_confirmed(request) and (not word or confirming.typed(request, word))


def _about_selection(
    request: HttpRequest, action: Action, ids: list[UUID], back: str, word: str
) -> Question:
    sample_of = reading.rows_of(ids[:SAMPLE])
    jobs = _jobs(len(ids))
    return Question(
        title=f"{action.imperative} {jobs}",
        what=action.sentence.format(jobs=f"the {jobs} that you have selected"),
        button=f"{action.imperative} {jobs}",
        back=back,
        hidden=[("action", action.name), ("next", back), *((SELECTED, str(id)) for id in ids)],
        fields=_fields(request, action, {}),
        sample=sample_of,
        more=max(0, len(ids) - len(sample_of)),
        notes=action.notes,
        type=word,
        is_dangerous=action.is_dangerous,
        problem=_not_typed(request, word),
    )


def _not_typed(request: HttpRequest, word: str) -> str:
    asked_before = word and confirming.is_confirmed(request)
    if not asked_before or confirming.typed(request, word):
        return ""
    return f"Nothing was changed: type {word} to confirm."


def _arguments(request: HttpRequest, action: Action) -> dict[str, Any]:
    """What the lifecycle function is given besides. Raises InvalidInput."""
    given = request.POST.get(action.argument, "").strip() if action.argument else ""
    if not given:
        return {}
    value: Any = int(given) if action.argument == "priority" and given.isdecimal() else given
    return {action.argument: action.does.check(value)}


def _fields(request: HttpRequest, action: Action, arguments: Mapping[str, Any]) -> list[Field]:
    before = str(arguments.get(action.argument, ""))
    match action.argument:
        case "priority":
            choices = [(str(number), word) for number, word in PRIORITIES.items()]
            chosen = request.POST.get("priority", before or "2")
            return [Field(name="priority", label="New priority", choices=choices, value=chosen)]
        case "queue":
            queues = [queue["name"] for queue in sample.current().get("jobs", {}).get("queues", [])]
            chosen = request.POST.get("queue", before)
            return [Field(name="queue", label="New queue", suggestions=queues, value=chosen)]
        case _:
            return []


def _jobs(number: int, shown: str = "") -> str:
    return "1 job" if number == 1 and not shown.endswith("+") else f"{shown or f'{number:,}'} jobs"
