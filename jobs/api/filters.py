"""The query parameters of lists, and a refusal of those that a list does not know.

A parameter that is ignored would answer a question that nobody asked; so every name, value and
repetition that is not understood is a 400.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, ClassVar, cast

import django_filters
from django import forms
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django_filters.rest_framework import DjangoFilterBackend, FilterSet
from drf_spectacular.utils import extend_schema_field
from rest_framework.request import Request

from jobs import listing
from jobs.errors import InvalidInput
from jobs.filtering import LARGEST, Filters
from jobs.states import State, Status
from jobs.texts import clean

ALWAYS = ("format",)
"""What REST framework itself reads."""

_DIGITS = re.compile(r"-?[0-9]{1,18}\Z")
_SPACE_FOR_PLUS = re.compile(r" (?=[0-9]{2}:?[0-9]{2}\Z)")


def refuse_unknown(request: Request, known: Iterable[str] = ()) -> None:
    """Raises InvalidInput for a parameter of another name, and for one that is given twice."""
    names = {*known, *ALWAYS}
    for name, values in request.query_params.lists():
        shown = clean(name, 60) or "(empty)"
        if name not in names:
            raise InvalidInput("is not a parameter of this address", field=shown)
        if len(values) > 1:
            raise InvalidInput("is given twice", field=shown)


class FilterField(forms.Field):
    """One value of `Filters`, which reads it; text stays as it came, without being trimmed."""

    def __init__(self, *, reads: str, convert: Callable[[str], Any], **options: Any) -> None:
        self.reads = reads
        self.convert = convert
        super().__init__(**options)

    def to_python(self, value: Any) -> Any:
        if value in self.empty_values:
            return None
        try:
            return getattr(Filters.from_json({self.reads: self.convert(str(value))}), self.reads)
        except InvalidInput as error:
            raise ValidationError(error.message) from None


class JobFilter(django_filters.Filter):
    field_class = FilterField


def _number(text: str) -> int | str:
    return int(text) if _DIGITS.match(text) else text


def _moment(text: str) -> int | str:
    """Unix milliseconds, or ISO 8601, whose "+" comes as a space where nobody has escaped it."""
    return int(text) if _DIGITS.match(text) else _SPACE_FOR_PLUS.sub("+", text)


def _truth(text: str) -> bool | str:
    return {"true": True, "false": False}.get(text, text)


def _filter(name: str, schema: dict[str, Any], convert: Callable[[str], Any] = str) -> JobFilter:
    made = JobFilter(reads=name, convert=convert)
    return extend_schema_field(schema)(made)


def _text(name: str, description: str = "") -> JobFilter:
    schema = {"type": "string", "minLength": 1, "maxLength": 200, "description": description}
    return _filter(name, schema)


def _time(name: str) -> JobFilter:
    meant = "at this moment or later" if name.endswith("_after") else "before this moment"
    return _filter(
        name,
        {
            "oneOf": [{"type": "string", "format": "date-time"}, {"type": "integer"}],
            "description": f"ISO 8601 with an offset, or Unix milliseconds: {meant}.",
        },
        _moment,
    )


def _bound(name: str) -> JobFilter:
    return _filter(name, {"type": "integer", "minimum": 0, "maximum": LARGEST}, _number)


class DeadLetterFilters(FilterSet):
    """The parameters of a list of jobs, made into `Filters`."""

    type = _text("type")
    queue = _text("queue")
    priority = _filter("priority", {"type": "integer", "enum": [1, 2, 3]}, _number)
    recur_interval = _filter(
        "recur_interval",
        {
            "type": "string",
            "pattern": r"^every_[1-9][0-9]{0,9}_(second|minute|hour|day)s?$",
            "description": "Jobs of schedules with this interval.",
        },
    )
    schedule = _filter("schedule", {"type": "string", "format": "uuid"})
    recurring = _filter(
        "recurring",
        {"type": "boolean", "description": "Jobs that a schedule made: only, or none."},
        _truth,
    )
    worker = _filter(
        "worker",
        {
            "type": "string",
            "format": "uuid",
            "description": "The worker that runs a job, or ran it last.",
        },
    )
    depends_on = _filter(
        "depends_on",
        {
            "type": "string",
            "format": "uuid",
            "description": "Jobs that wait for this one, or did.",
        },
    )
    error_fingerprint = _text("error_fingerprint", "Jobs that failed with errors of one kind.")
    internal = _filter(
        "internal",
        {
            "type": "boolean",
            "default": False,
            "description": "With the jobs that the product makes for itself, such as range lanes.",
        },
        _truth,
    )

    created_after = _time("created_after")
    created_before = _time("created_before")
    scheduled_after = _time("scheduled_after")
    scheduled_before = _time("scheduled_before")
    started_after = _time("started_after")
    started_before = _time("started_before")
    completed_after = _time("completed_after")
    completed_before = _time("completed_before")
    failed_after = _time("failed_after")
    failed_before = _time("failed_before")
    cancelled_after = _time("cancelled_after")
    cancelled_before = _time("cancelled_before")
    next_retry_after = _time("next_retry_after")
    next_retry_before = _time("next_retry_before")
    updated_after = _time("updated_after")
    updated_before = _time("updated_before")

    min_attempt_count = _bound("min_attempt_count")
    max_attempt_count = _bound("max_attempt_count")
    min_max_retries = _bound("min_max_retries")
    max_max_retries = _bound("max_max_retries")

    fixed: ClassVar[dict[str, Any]] = {"status": Status.FAILED}
    """What the list itself decides."""

    @property
    def asked(self) -> Filters:
        """What a valid request asks for; internal jobs are left out unless it says otherwise."""
        given = {name: value for name, value in self.form.cleaned_data.items() if value is not None}
        internal = None if given.pop("internal", False) else False
        return replace(Filters(internal=internal, **given), **self.fixed)

    def filter_queryset(self, queryset: QuerySet[Any]) -> QuerySet[Any]:  # noqa: ARG002
        return cast("QuerySet[Any]", listing.queryset(self.asked))


class JobFilters(DeadLetterFilters):
    status = _filter("status", {"type": "string", "enum": [each.value for each in Status]})
    state = _filter(
        "state",
        {
            "type": "string",
            "enum": [each.value for each in State],
            "description": "The status, with the kinds of pending told apart.",
        },
    )

    fixed: ClassVar[dict[str, Any]] = {}


class JobFilterBackend(DjangoFilterBackend):
    """django-filter, for lists whose pages come from `listing` and not from a queryset."""

    def filters(self, request: Request, view: Any) -> Filters:
        """Raises ValidationError naming each wrong parameter, and InvalidInput for unknown ones."""
        found = self.get_filterset(request, view.queryset, view)
        refuse_unknown(request, [*found.base_filters, *view.pagination_class.names])
        if not found.is_valid():
            raise django_filters.utils.translate_validation(found.errors)
        return cast("Filters", found.asked)
