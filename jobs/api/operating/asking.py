"""What a request says, in its body and in its address, checked for shape.

What a value means is decided by the function it goes to, so it goes there as it came: "5" is not
quietly taken for a number, nor 1 for true. A name that nobody knows is refused: a filter with a
slip in its name would else let everything through.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

import django_filters
from django import forms
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django_filters.rest_framework import DjangoFilterBackend, FilterSet
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.api.base import CoppiceView
from jobs.api.filters import refuse_unknown
from jobs.api.pagination import CURSOR, LIMIT, KeysetPagination
from jobs.database import DjangoDatabase
from jobs.errors import InvalidInput
from jobs.limits import limited
from jobs.moments import parse_moment
from jobs.texts import clean

LIST_SECONDS = 3.0
_MILLISECONDS = re.compile(r"-?[0-9]{1,17}\Z")
_SPACE_FOR_PLUS = re.compile(r" (?=[0-9]{2}:?[0-9]{2}\Z)")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")

_SHAPES: tuple[tuple[type[serializers.Field[Any, Any, Any, Any]], tuple[type, ...], str], ...] = (
    (serializers.BooleanField, (bool,), "true or false"),
    (serializers.IntegerField, (int,), "a whole number"),
    (serializers.FloatField, (int, float), "a number"),
    (serializers.CharField, (str,), "text"),
    (serializers.ListField, (list,), "a list"),
    (serializers.DictField, (dict,), "an object"),
)


@extend_schema_field(
    {"oneOf": [{"type": "string", "format": "date-time"}, {"type": "integer", "format": "int64"}]}
)
class GivenMomentField(serializers.Field[Any, Any, Any, Any]):
    """ISO 8601 with an offset, or Unix milliseconds."""


class ReasonField(serializers.CharField):
    """Why somebody does it: shown with what was done, and in the audit."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"required": False, "allow_blank": True, "max_length": 1_000, **options})


class Body(serializers.Serializer[Any]):
    """The fields of a request's body, for the document and for what `read` refuses."""

    @classmethod
    def read(cls, request: Request) -> dict[str, Any]:
        """The fields that were given, as they came. Raises InvalidInput."""
        given = request.data
        if not isinstance(given, dict):
            raise InvalidInput("must be an object", field="non_field_errors")
        fields = cls().fields
        for name in given:
            if name not in fields:
                raise InvalidInput("is not a field of this request", field=clean(name, 60))
        for name, field in fields.items():
            if name in given:
                _check(given[name], name, field)
            elif field.required:
                raise InvalidInput("is required", field=name)
        return dict(given)


class ReasonBody(Body):
    reason = ReasonField()


def _check(value: Any, name: str, field: Any) -> None:
    if value is None:
        if not field.allow_null:
            raise InvalidInput("must not be null", field=name)
        return
    for kind, types, words in _SHAPES:
        if isinstance(field, kind) and (
            not isinstance(value, types) or (isinstance(value, bool) and bool not in types)
        ):
            raise InvalidInput(f"must be {words}", field=name)
    if isinstance(field, serializers.ChoiceField) and (
        not isinstance(value, str) or value not in field.choices
    ):
        raise InvalidInput(f"must be one of {', '.join(map(str, field.choices))}", field=name)
    if isinstance(field, serializers.CharField):
        if _UNSTORABLE.search(value):
            raise InvalidInput("contains a character that cannot be stored", field=name)
        if field.max_length is not None and len(value) > field.max_length:
            raise InvalidInput(f"is longer than {field.max_length:,} characters", field=name)


# Filters of lists


@extend_schema_field(bool)
class Flag(django_filters.ChoiceFilter):
    """true or false, and nothing that is quietly taken for neither."""

    def __init__(self, **options: Any) -> None:
        super().__init__(choices=[("true", "true"), ("false", "false")], **options)

    def filter(self, queryset: QuerySet[Any], value: Any) -> QuerySet[Any]:
        found: QuerySet[Any] = super().filter(queryset, {"true": True, "false": False}.get(value))
        return found


class _MomentFormField(forms.CharField):
    def clean(self, value: Any) -> datetime | None:
        text = super().clean(value)
        if not text:
            return None
        try:
            if _MILLISECONDS.match(text):
                return parse_moment(int(text), "time")
            # A "+" that nobody has escaped comes as a space.
            return parse_moment(_SPACE_FOR_PLUS.sub("+", text), "time")
        except InvalidInput as error:
            raise ValidationError(error.message) from None


@extend_schema_field(
    {"oneOf": [{"type": "string", "format": "date-time"}, {"type": "integer", "format": "int64"}]}
)
class Moment(django_filters.Filter):
    """ISO 8601 with an offset, or Unix milliseconds."""

    field_class = _MomentFormField


class ListView(CoppiceView):
    """A list of rows, newest first, with the filters of its `filterset_class`."""

    filter_backends = [DjangoFilterBackend]
    filterset_class: type[FilterSet] | None = None
    pagination_class = KeysetPagination

    def answer_list(self, request: Request) -> Response:
        names = self.filterset_class.base_filters if self.filterset_class else ()
        refuse_unknown(request, (*names, LIMIT, CURSOR))
        with limited(DjangoDatabase(), seconds=LIST_SECONDS):
            rows = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
            assert rows is not None
        return self.get_paginated_response(self.shown(rows))

    def shown(self, rows: list[Any]) -> list[Any]:
        return list(self.get_serializer(rows, many=True).data)
