"""The keys that would not be processed."""

from __future__ import annotations

from typing import Any, ClassVar

import django_filters
from django.db.models import DateTimeField
from django_filters.rest_framework import FilterSet
from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from jobs import conf, permissions
from jobs.api.base import CoppiceView
from jobs.api.filters import refuse_unknown
from jobs.api.job.output import HIDDEN, MomentField
from jobs.api.operating.asking import Body, ListView, ReasonField
from jobs.errors import NotFound
from jobs.texts import clean
from ranges import lifecycle
from ranges.api.views import TAGS, find
from ranges.models import RangeFailure
from ranges.states import FailureState

ERROR_LENGTH = 500
DIGITS = 18


class RangeFailureSerializer(serializers.ModelSerializer[RangeFailure]):
    """A key, or a small range, that would not be processed."""

    serializer_field_mapping = {
        **serializers.ModelSerializer.serializer_field_mapping,
        DateTimeField: MomentField,
    }
    hideable: ClassVar[tuple[str, ...]] = ("error", "traceback")

    upto = serializers.CharField(
        help_text="The end of a range, itself not in it; empty: one key alone."
    )
    error = serializers.CharField(allow_null=True)
    traceback = serializers.CharField(allow_null=True)
    hidden = HIDDEN

    class Meta:
        model = RangeFailure
        fields: ClassVar[Any] = (
            "id", "key", "upto", "items", "attempts", "error", "traceback", "error_fingerprint",
            "state", "reason", "resolved_by", "created_at", "resolved_at", "hidden",
        )  # fmt: skip
        read_only_fields: ClassVar[Any] = fields

    def to_representation(self, instance: RangeFailure) -> dict[str, Any]:
        failure = dict(super().to_representation(instance))
        failure["hidden"] = []
        if not self.context["view"].reader.reads:
            for name in self.hideable:
                if failure.get(name):
                    failure["hidden"].append(name)
                    failure[name] = None
        return failure


class RangeFailureLineSerializer(RangeFailureSerializer):
    """A failure in a list: without its traceback."""

    traceback = None

    class Meta(RangeFailureSerializer.Meta):
        fields: ClassVar[Any] = tuple(
            name for name in RangeFailureSerializer.Meta.fields if name != "traceback"
        )
        read_only_fields: ClassVar[Any] = fields

    def to_representation(self, instance: RangeFailure) -> dict[str, Any]:
        failure = super().to_representation(instance)
        failure["error"] = failure["error"] and clean(failure["error"], ERROR_LENGTH)
        return failure


class FailureFilters(FilterSet):
    state = django_filters.ChoiceFilter(
        choices=[(state.value, state.value) for state in FailureState]
    )
    error_fingerprint = django_filters.CharFilter(max_length=32)


class RangeWaiveBody(Body):
    reason = ReasonField(required=True, allow_blank=False, help_text="Kept with it.")


class FailuresView(ListView):
    needs: ClassVar = {"GET": permissions.VIEW}
    queryset = RangeFailure.objects.none()
    serializer_class: ClassVar[Any] = RangeFailureLineSerializer
    filterset_class = FailureFilters

    def get_queryset(self) -> Any:
        failures = RangeFailure.objects.using(conf.get().database)
        return failures.filter(run=find(self.kwargs["run_id"])).defer("traceback")

    @extend_schema(
        operation_id="list_range_run_failures",
        tags=TAGS,
        responses=RangeFailureLineSerializer(many=True),
    )
    def get(self, request: Request, run_id: str) -> Response:  # noqa: ARG002
        """List what failed in a run, the newest first."""
        return self.answer_list(request)


class FailureView(CoppiceView):
    needs: ClassVar = {"GET": permissions.VIEW}
    serializer_class: ClassVar[Any] = RangeFailureSerializer

    @extend_schema(
        operation_id="get_range_run_failure", tags=TAGS, responses=RangeFailureSerializer
    )
    def get(self, request: Request, run_id: str, failure: str) -> Response:
        """Read a failure, with its traceback."""
        refuse_unknown(request)
        return Response(self.get_serializer(_failure(run_id, failure)).data)


class WaiveView(CoppiceView):
    needs: ClassVar = {"POST": permissions.CONTROL_RUN}
    serializer_class: ClassVar[Any] = RangeWaiveBody

    @extend_schema(
        operation_id="waive_range_run_failure",
        tags=TAGS,
        request=RangeWaiveBody,
        responses=RangeFailureSerializer,
        examples=[
            OpenApiExample("Why", value={"reason": "the row is a test's"}, request_only=True)
        ],
    )
    def post(self, request: Request, run_id: str, failure: str) -> Response:
        """Close a failure by decision.

        With the last open one, a run that failed is judged again.
        """
        refuse_unknown(request)
        reason = RangeWaiveBody.read(request)["reason"]
        found = lifecycle.waive(_failure(run_id, failure), reason, by=self.actor)
        context = self.get_serializer_context()
        return Response(RangeFailureSerializer(found, context=context).data)


def _failure(run_id: str, number: str) -> RangeFailure:
    failures = RangeFailure.objects.using(conf.get().database).filter(run=find(run_id))
    known = number.isascii() and number.isdecimal() and len(number) <= DIGITS
    found = failures.filter(id=int(number)).first() if known else None
    if found is None:
        raise NotFound("failure", clean(number, 60))
    return found
