"""`/schedules`: recurring jobs."""

from __future__ import annotations

import uuid
from typing import Any, ClassVar

import django_filters
from django_filters.rest_framework import FilterSet
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from jobs import conf, permissions, schedules
from jobs.api.base import CoppiceView
from jobs.api.filters import refuse_unknown
from jobs.api.operating.asking import Body, Flag, GivenMomentField, ListView
from jobs.api.operating.schedule_shapes import (
    HEAVY,
    MOST_RUNS,
    NewScheduleBody,
    NextRunsSerializer,
    ScheduleChangesBody,
    ScheduleLineSerializer,
    SchedulePreviewBody,
    ScheduleSerializer,
    StartedJobSerializer,
)
from jobs.api.pagination import read_number
from jobs.drafts import refuse_internal
from jobs.errors import InvalidInput, NotFound
from jobs.models import Schedule
from jobs.texts import clean

TAGS = ["schedules"]
DEFAULT_RUNS = 5


class ScheduleFilters(FilterSet):
    search = django_filters.CharFilter(
        field_name="name", lookup_expr="icontains", max_length=200, label="In the name."
    )
    type = django_filters.CharFilter(max_length=100)
    queue = django_filters.CharFilter(max_length=60)
    enabled = Flag()


WEEKDAYS = OpenApiExample(
    "Weekdays at eight",
    value={
        "name": "morning report",
        "type": "send_email",
        "payload": {"to": ["anna@example.org"], "subject": "Report", "body": "All is well."},
        "cron": "0 8 * * 1-5",
        "time_zone": "Europe/Berlin",
    },
    request_only=True,
)
LATER = OpenApiExample(
    "An hour later, and on Saturdays too", value={"cron": "0 9 * * 1-6"}, request_only=True
)
SPRING = OpenApiExample(
    "A rule that is not stored",
    value={"cron": "30 2 * * *", "time_zone": "Europe/Berlin", "count": 3},
    request_only=True,
)


class SchedulesView(ListView):
    needs: ClassVar = {"GET": permissions.VIEW, "POST": permissions.EDIT_SCHEDULE}
    serializer_class: ClassVar[Any] = ScheduleLineSerializer
    filterset_class = ScheduleFilters

    def get_queryset(self) -> Any:
        return Schedule.objects.using(conf.get().database).defer(*HEAVY)

    @extend_schema(
        operation_id="list_schedules", tags=TAGS, responses=ScheduleLineSerializer(many=True)
    )
    def get(self, request: Request) -> Response:
        """List schedules, the newest first."""
        return self.answer_list(request)

    @extend_schema(
        operation_id="create_schedule",
        tags=TAGS,
        request=NewScheduleBody,
        responses={201: ScheduleSerializer},
        examples=[WEEKDAYS],
    )
    def post(self, request: Request) -> Response:
        """Store a schedule: `recur_interval`, or `cron` with `time_zone`."""
        refuse_unknown(request)
        asked = NewScheduleBody.read(request)
        refuse_internal(type=asked["type"], metadata=asked.get("metadata"))
        made = schedules.create(**asked, by=self.actor)
        place = request.build_absolute_uri(f"{request.path}/{made.id}")
        return Response(_shown(self, made), status=201, headers={"Location": place})


class ScheduleView(CoppiceView):
    needs: ClassVar = {
        "GET": permissions.VIEW,
        "PATCH": permissions.EDIT_SCHEDULE,
        "DELETE": permissions.EDIT_SCHEDULE,
    }
    serializer_class: ClassVar[Any] = ScheduleSerializer

    @extend_schema(operation_id="get_schedule", tags=TAGS, responses=ScheduleSerializer)
    def get(self, request: Request, schedule_id: str) -> Response:
        """Read a schedule."""
        refuse_unknown(request)
        return Response(_shown(self, _find(schedule_id)))

    @extend_schema(
        operation_id="change_schedule",
        tags=TAGS,
        request=ScheduleChangesBody,
        responses=ScheduleSerializer,
        examples=[LATER],
    )
    def patch(self, request: Request, schedule_id: str) -> Response:
        """Change what is given. A new rule or anchor takes effect with its first slot after now."""
        refuse_unknown(request)
        changes = ScheduleChangesBody.read(request)
        if not changes:
            raise InvalidInput("names nothing to change", field="non_field_errors")
        refuse_internal(type=changes.get("type"), metadata=changes.get("metadata"))
        schedule: Any = schedules.change(_find(schedule_id), by=self.actor, **changes)
        return Response(_shown(self, schedule))

    @extend_schema(
        operation_id="delete_schedule",
        tags=TAGS,
        responses={204: OpenApiResponse(description="It is gone; its jobs stay.")},
    )
    def delete(self, request: Request, schedule_id: str) -> Response:
        """Delete a schedule. Its jobs stay as they are."""
        refuse_unknown(request)
        schedules.delete(_find(schedule_id), by=self.actor)
        return Response(status=204)


class _ActView(CoppiceView):
    needs: ClassVar = {"POST": permissions.EDIT_SCHEDULE}
    serializer_class: ClassVar[Any] = Body
    act: ClassVar[Any]

    def answer(self, request: Request, schedule_id: str) -> Response:
        refuse_unknown(request)
        Body.read(request)
        return Response(_shown(self, type(self).act(_find(schedule_id), by=self.actor)))


class EnableView(_ActView):
    act = staticmethod(schedules.enable)

    @extend_schema(
        operation_id="enable_schedule", tags=TAGS, request=None, responses=ScheduleSerializer
    )
    def post(self, request: Request, schedule_id: str) -> Response:
        """Go on with the first slot after now; those of the time in between are not missed."""
        return self.answer(request, schedule_id)


class DisableView(_ActView):
    act = staticmethod(schedules.disable)

    @extend_schema(
        operation_id="disable_schedule", tags=TAGS, request=None, responses=ScheduleSerializer
    )
    def post(self, request: Request, schedule_id: str) -> Response:
        """Make no more jobs. Those that exist stay as they are."""
        return self.answer(request, schedule_id)


class RunNowView(CoppiceView):
    needs: ClassVar = {"POST": permissions.RUN_SCHEDULE}
    serializer_class: ClassVar[Any] = Body

    @extend_schema(
        operation_id="run_schedule_now",
        tags=TAGS,
        request=None,
        responses={201: StartedJobSerializer},
    )
    def post(self, request: Request, schedule_id: str) -> Response:
        """Make an extra job at once.

        Outside the grid: it takes no slot, and no slot waits for it. Works while disabled, too.
        """
        refuse_unknown(request)
        Body.read(request)
        job = schedules.run_now(_find(schedule_id), by=self.actor)
        return Response({"job_id": str(job.id)}, status=201)


class ScheduleSkipBody(Body):
    slot = GivenMomentField(
        required=False, help_text="The run that is meant; 409 if another one is the next by now."
    )


class SkipNextView(CoppiceView):
    needs: ClassVar = {"POST": permissions.EDIT_SCHEDULE}
    serializer_class: ClassVar[Any] = ScheduleSkipBody

    @extend_schema(
        operation_id="skip_next_run",
        tags=TAGS,
        request=ScheduleSkipBody,
        responses=ScheduleSerializer,
        examples=[OpenApiExample("The next", value={}, request_only=True)],
    )
    def post(self, request: Request, schedule_id: str) -> Response:
        """Pass over the next run: no job is made for it, and it does not count as missed."""
        refuse_unknown(request)
        asked = ScheduleSkipBody.read(request)
        skipped = schedules.skip_next(_find(schedule_id), **asked, by=self.actor)
        return Response(_shown(self, skipped))


COUNT = OpenApiParameter(
    "count",
    {"type": "integer", "minimum": 1, "maximum": MOST_RUNS, "default": DEFAULT_RUNS},
)


class NextRunsView(CoppiceView):
    needs: ClassVar = {"GET": permissions.VIEW}
    serializer_class: ClassVar[Any] = NextRunsSerializer

    @extend_schema(
        operation_id="list_next_runs", tags=TAGS, parameters=[COUNT], responses=NextRunsSerializer
    )
    def get(self, request: Request, schedule_id: str) -> Response:
        """List the runs to come; of a disabled schedule those it would have if enabled now."""
        refuse_unknown(request, ["count"])
        count = read_number(request.query_params.get("count"), "count", DEFAULT_RUNS, MOST_RUNS)
        return Response(_runs(_find(schedule_id), count))


class PreviewView(CoppiceView):
    needs: ClassVar = {"POST": permissions.VIEW}
    serializer_class: ClassVar[Any] = SchedulePreviewBody

    @extend_schema(
        operation_id="preview_schedule",
        tags=TAGS,
        request=SchedulePreviewBody,
        responses=NextRunsSerializer,
        examples=[SPRING],
    )
    def post(self, request: Request) -> Response:
        """List the next runs of a rule that is not stored."""
        refuse_unknown(request)
        rule = SchedulePreviewBody.read(request)
        count = rule.pop("count", DEFAULT_RUNS)
        if not 1 <= count <= MOST_RUNS:
            raise InvalidInput(f"must be from 1 to {MOST_RUNS}", field="count")
        return Response(_runs(schedules.unsaved(**rule), count))


def _find(id: str) -> Schedule:
    """By id alone: a name may look like the id of another."""
    try:
        key = uuid.UUID(id)
    except ValueError:
        raise NotFound("schedule", clean(id, 60)) from None
    return schedules.get(key)


def _shown(view: CoppiceView, schedule: Schedule) -> dict[str, Any]:
    return dict(ScheduleSerializer(schedule, context=view.get_serializer_context()).data)


def _runs(schedule: Schedule, count: int) -> dict[str, Any]:
    return {
        "rule": schedules.describe(schedule),
        "time_zone": schedule.time_zone,
        "runs": [
            {"at": run.at.isoformat(), "local": run.local.isoformat(), "note": run.note}
            for run in schedules.preview(schedule, count)
        ],
    }
