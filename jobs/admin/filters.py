"""Filters of the list of jobs. None of them reads the table to know its choices."""

# ruff: noqa: ARG002 - Django hands over more than is needed.

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.db.models import Model, QuerySet
from django.http import HttpRequest

from jobs import listing
from jobs.models import Job
from jobs.querysets import JobQuerySet
from jobs.states import Status

PRIORITIES = {1: "high", 2: "medium", 3: "low"}


class TextFilter(admin.ListFilter):
    """A filter by a word that is typed: a list of all values would have to read the table."""

    template = "admin/jobs/text_filter.html"
    parameter_name = ""

    def __init__(
        self, request: HttpRequest, params: dict[str, Any], model: type[Model], model_admin: Any
    ) -> None:
        super().__init__(request, params, model, model_admin)
        value = params.pop(self.parameter_name, None)
        self.value: str = (value[-1] if isinstance(value, list) else value) or ""
        if self.value:
            self.used_parameters[self.parameter_name] = self.value

    def has_output(self) -> bool:
        return True

    def expected_parameters(self) -> list[str | None]:
        return [self.parameter_name]

    def choices(self, changelist: ChangeList) -> Iterator[Any]:
        others = [
            (key, value)
            for key, value in changelist.get_filters_params().items()
            if key != self.parameter_name
        ]
        if changelist.query:
            others.append(("q", changelist.query))
        yield {
            "name": self.parameter_name,
            "value": self.value,
            "others": [(k, v[-1] if isinstance(v, list) else v) for k, v in others],
            "clear": changelist.get_query_string(remove=[self.parameter_name]),
        }

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if not self.value or "\x00" in self.value:
            return queryset.none() if self.value else queryset
        return queryset.filter(**{self.parameter_name: self.value})


class TypeFilter(TextFilter):
    title = "type"
    parameter_name = "type"


class QueueFilter(TextFilter):
    title = "queue"
    parameter_name = "queue"


class StatusFilter(admin.SimpleListFilter):
    title = "status"
    parameter_name = "status"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        words = {Status.FAILED: "failed (dead letters)"}
        return [(status.value, words.get(status, status.value)) for status in Status]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Job]) -> QuerySet[Job]:
        value = self.value()
        if value not in set(Status):
            return queryset
        return listing.of_status(cast(JobQuerySet, queryset), value)


class PriorityFilter(admin.SimpleListFilter):
    title = "priority"
    parameter_name = "priority"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(str(number), f"{number} {word}") for number, word in PRIORITIES.items()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Job]) -> QuerySet[Job]:
        known = {str(number): number for number in PRIORITIES}
        number = known.get(self.value() or "")
        return queryset if number is None else queryset.filter(priority=number)
