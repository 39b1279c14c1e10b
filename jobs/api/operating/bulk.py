"""`/bulk-operations`: one action on all jobs that match, worked through by a worker."""

from __future__ import annotations

from typing import Any, ClassVar

import django_filters
from django_filters.rest_framework import FilterSet
from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import serializers
from rest_framework.exceptions import PermissionDenied
from rest_framework.request import Request
from rest_framework.response import Response

from jobs import bulk, conf, permissions
from jobs.api.base import CoppiceView
from jobs.api.filters import refuse_unknown
from jobs.api.job.output import HIDDEN, JobSummarySerializer, MomentField, summaries
from jobs.api.operating.asking import Body, ListView, ReasonBody, ReasonField
from jobs.filtering import Filters
from jobs.models import BulkOperation

TAGS = ["bulk operations"]
ACTIONS = list(bulk.ACTIONS)
STATUSES = ["pending", "running", "paused", "completed", "aborted", "failed"]
PRIVATE = ("failures", "error")
SEARCHES = {"payload", "error"}
FILTERS_HELP = (
    "The filters of `GET /jobs` by name, such as `type`, `queue`, `error_fingerprint` or "
    "`failed_before`; times as there. Empty: all jobs that the action can be done to."
)


class BulkOperationSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    action = serializers.ChoiceField(choices=ACTIONS)
    filters = serializers.DictField()
    in_words = serializers.CharField(
        allow_null=True, help_text="What it is about, as a person reads it."
    )
    arguments = serializers.DictField()
    before = MomentField(help_text="Jobs that came to match later are left alone.")
    cap = serializers.IntegerField(allow_null=True, help_text="The most jobs to change.")
    status = serializers.ChoiceField(choices=STATUSES)
    waits_for = serializers.UUIDField(
        allow_null=True, help_text="An older operation that could meet the same jobs."
    )
    matched = serializers.IntegerField(help_text="How many matched at the start.")
    matched_is_capped = serializers.BooleanField(help_text="`matched` is a least number.")
    changed = serializers.IntegerField()
    skipped = serializers.IntegerField(help_text="Jobs that had moved on meanwhile.")
    skipped_reasons = serializers.DictField(child=serializers.IntegerField())
    failed = serializers.IntegerField(help_text="Jobs that the database would not change.")
    failures = serializers.ListField(
        child=serializers.JSONField(), allow_null=True, help_text="The first of them."
    )
    error = serializers.CharField(allow_null=True)
    share = serializers.FloatField(
        allow_null=True,
        help_text="How much of it is done, from 0 to 1; null while only the least is known.",
    )
    per_second = serializers.FloatField(allow_null=True)
    seconds_left = serializers.FloatField(allow_null=True)
    reason = serializers.CharField()
    created_by = serializers.CharField()
    job_id = serializers.UUIDField(allow_null=True, help_text="The job that works on it.")
    created_at = MomentField()
    started_at = MomentField(allow_null=True)
    updated_at = MomentField()
    finished_at = MomentField(allow_null=True)
    hidden = HIDDEN


class BulkChoiceBody(Body):
    action = serializers.ChoiceField(choices=ACTIONS)
    filters = serializers.DictField(required=False, help_text=FILTERS_HELP)


class NewBulkOperationBody(BulkChoiceBody):
    arguments = serializers.DictField(
        required=False,
        help_text='`{"priority": 1}` for change_priority, `{"queue": "mail"}` for move_queue.',
    )
    cap = serializers.IntegerField(required=False, allow_null=True, min_value=1)
    reason = ReasonField()


class BulkPreviewSerializer(serializers.Serializer[Any]):
    action = serializers.ChoiceField(choices=ACTIONS)
    in_words = serializers.CharField()
    count = serializers.IntegerField(help_text="How many match now.")
    is_capped = serializers.BooleanField(help_text="There are at least `count`.")
    oldest = MomentField(
        allow_null=True, help_text="Dead letters: when they died; others: when they were made."
    )
    newest = MomentField(allow_null=True)
    sample = JobSummarySerializer(many=True, help_text="The newest of them.")


class BulkFilters(FilterSet):
    status = django_filters.ChoiceFilter(choices=[(name, name) for name in STATUSES])
    action = django_filters.ChoiceFilter(choices=[(name, name) for name in ACTIONS])
    created_by = django_filters.CharFilter(max_length=150)


RETRY = OpenApiExample(
    "Retry what one type has left",
    value={
        "action": "retry",
        "filters": {"type": "send_email", "failed_after": "2026-03-01T00:00:00Z"},
        "cap": 5_000,
        "reason": "the mail provider is back",
    },
    request_only=True,
)


class BulkOperationsView(ListView):
    needs: ClassVar = {"GET": permissions.VIEW, "POST": permissions.VIEW}
    throttle_scope = "bulk"
    serializer_class: ClassVar[Any] = BulkOperationSerializer
    filterset_class = BulkFilters

    def get_queryset(self) -> Any:
        return BulkOperation.objects.using(conf.get().database)

    def shown(self, rows: list[Any]) -> list[Any]:
        return [_shown(self, operation) for operation in rows]

    @extend_schema(
        operation_id="list_bulk_operations", tags=TAGS, responses=BulkOperationSerializer(many=True)
    )
    def get(self, request: Request) -> Response:
        """List bulk operations, the newest first."""
        return self.answer_list(request)

    @extend_schema(
        operation_id="create_bulk_operation",
        tags=TAGS,
        request=NewBulkOperationBody,
        responses={202: BulkOperationSerializer},
        examples=[RETRY],
    )
    def post(self, request: Request) -> Response:
        """Have an action done to all jobs that match now.

        A worker works through them in batches. Needs the permission of the action: `jobs.retry_job`,
        `jobs.cancel_job`, `jobs.edit_job`, `jobs.purge_job`, or `jobs.purge_all_dead` to purge
        without any filter.
        """
        refuse_unknown(request)
        asked = NewBulkOperationBody.read(request)
        action, filters = _chosen(self, asked)
        made = bulk.create(
            action,
            filters,
            arguments=asked.get("arguments"),
            cap=asked.get("cap"),
            reason=asked.get("reason", ""),
            by=self.actor,
        )
        place = request.build_absolute_uri(f"{request.path}/{made.id}")
        return Response(_shown(self, made), status=202, headers={"Location": place})


class PreviewView(CoppiceView):
    needs: ClassVar = {"POST": permissions.VIEW}
    serializer_class: ClassVar[Any] = BulkChoiceBody

    @extend_schema(
        operation_id="preview_bulk_operation",
        tags=TAGS,
        request=BulkChoiceBody,
        responses=BulkPreviewSerializer,
        examples=[
            OpenApiExample(
                "What would be retried",
                value={"action": "retry", "filters": {"type": "send_email"}},
                request_only=True,
            )
        ],
    )
    def post(self, request: Request) -> Response:
        """Count what an operation would change, with a sample, and change nothing."""
        refuse_unknown(request)
        asked = BulkChoiceBody.read(request)
        filters = Filters.from_json(asked.get("filters", {}))
        self.check_search(filters)
        found = bulk.preview(asked["action"], filters)
        shown = {
            "action": found.action,
            "in_words": found.in_words,
            "count": found.count,
            "is_capped": found.is_capped,
            "oldest": _time(found.oldest),
            "newest": _time(found.newest),
            "sample": summaries(found.sample, found.now, self.reader),
        }
        return Response(shown)


class BulkOperationView(CoppiceView):
    needs: ClassVar = {"GET": permissions.VIEW}
    serializer_class: ClassVar[Any] = BulkOperationSerializer

    @extend_schema(operation_id="get_bulk_operation", tags=TAGS)
    def get(self, request: Request, operation_id: str) -> Response:
        """Read how far an operation is."""
        refuse_unknown(request)
        return Response(_shown(self, bulk.get(operation_id)))


class _ActView(CoppiceView):
    """Needs what the operation itself needs."""

    needs: ClassVar = {"POST": permissions.VIEW}
    serializer_class: ClassVar[Any] = ReasonBody
    act: ClassVar[Any]

    def answer(self, request: Request, operation_id: str) -> Response:
        refuse_unknown(request)
        reason = ReasonBody.read(request).get("reason", "")
        known = bulk.get(operation_id)
        _require(self, known.action, Filters.from_json(known.filters))
        return Response(_shown(self, type(self).act(operation_id, by=self.actor, reason=reason)))


class PauseView(_ActView):
    act = staticmethod(bulk.pause)

    @extend_schema(
        operation_id="pause_bulk_operation", tags=TAGS, responses=BulkOperationSerializer
    )
    def post(self, request: Request, operation_id: str) -> Response:
        """Stop after the batch in hand, until it is resumed."""
        return self.answer(request, operation_id)


class ResumeView(_ActView):
    act = staticmethod(bulk.resume)

    @extend_schema(
        operation_id="resume_bulk_operation", tags=TAGS, responses=BulkOperationSerializer
    )
    def post(self, request: Request, operation_id: str) -> Response:
        """Go on behind the last batch."""
        return self.answer(request, operation_id)


class AbortView(_ActView):
    act = staticmethod(bulk.abort)

    @extend_schema(
        operation_id="abort_bulk_operation", tags=TAGS, responses=BulkOperationSerializer
    )
    def post(self, request: Request, operation_id: str) -> Response:
        """End it after the batch in hand. What was changed stays changed."""
        return self.answer(request, operation_id)


def _chosen(view: CoppiceView, asked: dict[str, Any]) -> tuple[str, Filters]:
    """The action and its filters, if the user may do that. Raises InvalidInput."""
    filters = Filters.from_json(asked.get("filters", {}))
    _require(view, asked["action"], filters)
    view.check_search(filters)
    return asked["action"], filters


def _require(view: CoppiceView, action: str, filters: Filters) -> None:
    if not view.may(bulk.permission_of(action, filters)):
        raise PermissionDenied


def _shown(view: CoppiceView, operation: BulkOperation) -> dict[str, Any]:
    shown = {**bulk.as_json(operation), "hidden": []}
    reader = view.reader
    if not reader.reads:
        for name in PRIVATE:
            if shown[name]:
                shown["hidden"].append(name)
                shown[name] = None
    # A filter may quote what is looked for in payloads and errors.
    filters = dict(shown["filters"])
    for name in SEARCHES & filters.keys():
        quoted = filters[name]
        filters[name] = reader.value(filters.get("type", ""), quoted)
        if filters[name] != quoted:
            shown["hidden"] += [f"filters.{name}", "in_words"]
            shown["in_words"] = None
    return {**shown, "filters": filters}


def _time(moment: Any) -> str | None:
    return None if moment is None else moment.isoformat()
