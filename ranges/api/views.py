"""Runs: list, create, plan, read."""

from __future__ import annotations

import uuid
from typing import Any, ClassVar

import django_filters
from django.db import transaction
from django_filters.rest_framework import FilterSet
from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from jobs import conf, permissions
from jobs.api.base import CoppiceView
from jobs.api.filters import refuse_unknown
from jobs.api.job.input import refuse_past
from jobs.api.operating.asking import ListView, Moment
from jobs.errors import NotFound
from jobs.masking import Reader
from jobs.texts import clean
from ranges import declaring
from ranges.api.shapes import (
    STATUSES,
    KeyField,
    NewRangeRunBody,
    RangePlanBody,
    RangeRunLineSerializer,
    RangeRunSerializer,
    its_code,
    job_class,
    line,
    shown,
)
from ranges.models import RangeRun
from ranges.progress import progress, progress_of

TAGS = ["ranges"]
HEAVY = ("params", "metadata", "verdict")

BACKFILL = OpenApiExample(
    "Keys up to 50 million",
    value={
        "job": "geonames.BackfillCells",
        "start": 0,
        "end": 50_000_000,
        "max_range_size": 1_000,
        "concurrency": 10,
        "start_now": True,
    },
    request_only=True,
)
DRY = OpenApiExample("All keys", value={"job": "geonames.BackfillCells"}, request_only=True)


class RunFilters(FilterSet):
    status = django_filters.ChoiceFilter(choices=[(name, name) for name in STATUSES])
    job = django_filters.CharFilter(field_name="name", max_length=200)
    queue = django_filters.CharFilter(max_length=60)
    created_after = Moment(field_name="created_at", lookup_expr="gte")
    created_before = Moment(field_name="created_at", lookup_expr="lt")


class RunsView(ListView):
    needs: ClassVar = {"GET": permissions.VIEW, "POST": permissions.CONTROL_RUN}
    queryset = RangeRun.objects.none()
    serializer_class: ClassVar[Any] = RangeRunLineSerializer
    filterset_class = RunFilters

    def get_queryset(self) -> Any:
        return RangeRun.objects.using(conf.get().database).defer(*HEAVY)

    def shown(self, rows: list[Any]) -> list[Any]:
        known = progress_of(rows)
        # One may have been deleted between the two statements.
        return [line(run, known[str(run.id)]) for run in rows if str(run.id) in known]

    @extend_schema(
        operation_id="list_range_runs", tags=TAGS, responses=RangeRunLineSerializer(many=True)
    )
    def get(self, request: Request) -> Response:
        """List range runs, the newest first."""
        return self.answer_list(request)

    @extend_schema(
        operation_id="create_range_run",
        tags=TAGS,
        request=NewRangeRunBody,
        responses={201: RangeRunSerializer},
        examples=[BACKFILL],
    )
    def post(self, request: Request) -> Response:
        """Create a run, and start it at once with `start_now`.

        What is left out is as the range job declares it.
        """
        refuse_unknown(request)
        asked = NewRangeRunBody.read(request)
        job = job_class(asked.pop("job"))
        start_now = asked.pop("start_now", False)
        refuse_past([asked.get("scheduled_at")])
        with its_code(job.name), transaction.atomic(using=conf.get().database):
            run = job.create(**asked, by=self.actor)
            if start_now:
                run.start(by=self.actor)
        place = request.build_absolute_uri(f"{request.path}/{run.id}")
        return Response(read(run.id, self.reader), status=201, headers={"Location": place})


class RunView(CoppiceView):
    needs: ClassVar = {"GET": permissions.VIEW}
    serializer_class: ClassVar[Any] = RangeRunSerializer

    @extend_schema(operation_id="get_range_run", tags=TAGS, responses=RangeRunSerializer)
    def get(self, request: Request, run_id: str) -> Response:
        """Read a run: how far it is, how fast it goes, and when it will be done."""
        refuse_unknown(request)
        return Response(read(run_id, self.reader))


class RangeJobSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(help_text="For `job` of a new run.")
    queue = serializers.CharField()
    concurrency = serializers.IntegerField()
    failure_threshold = serializers.FloatField(allow_null=True)
    version = serializers.CharField()


class RangeJobsSerializer(serializers.Serializer[Any]):
    jobs = RangeJobSerializer(many=True)


class RangeJobsView(CoppiceView):
    needs: ClassVar = {"GET": permissions.VIEW}
    serializer_class: ClassVar[Any] = RangeJobsSerializer

    @extend_schema(operation_id="list_range_jobs", tags=TAGS, responses=RangeJobsSerializer)
    def get(self, request: Request) -> Response:
        """List the range jobs that this code declares."""
        refuse_unknown(request)
        found = [declaring.find(name) for name in declaring.names()]
        names = ("name", "queue", "concurrency", "failure_threshold", "version")
        shown = [{name: getattr(job, name) for name in names} for job in found if job]
        return Response({"jobs": shown})


class RangeIndexSerializer(serializers.Serializer[Any]):
    probing = serializers.CharField()
    index = serializers.CharField(allow_null=True)
    ddl = serializers.ListField(child=serializers.CharField(), help_text="What would help.")
    warning = serializers.CharField()


class RangePlanSerializer(serializers.Serializer[Any]):
    """Figures of a run that has not been made. Null: not known."""

    job = serializers.CharField()
    counts = serializers.ChoiceField(choices=["rows", "width"], help_text="What `items` counts.")
    lo = KeyField(allow_null=True)
    hi = KeyField(allow_null=True)
    width = serializers.CharField(allow_null=True)
    items = serializers.IntegerField(allow_null=True)
    share = serializers.FloatField(allow_null=True, help_text="Of the items, that needs work.")
    items_left = serializers.IntegerField(allow_null=True)
    null_keys = serializers.IntegerField(allow_null=True)
    leaf_size = serializers.IntegerField()
    leaves = serializers.IntegerField(allow_null=True)
    strands = serializers.IntegerField()
    concurrency = serializers.IntegerField()
    index = RangeIndexSerializer(allow_null=True)
    seconds_per_item = serializers.FloatField(allow_null=True)
    seconds = serializers.FloatField(
        allow_null=True, help_text="From the last run of the same job."
    )
    warnings = serializers.ListField(child=serializers.CharField())


class PlanView(CoppiceView):
    needs: ClassVar = {"POST": permissions.CONTROL_RUN}
    serializer_class: ClassVar[Any] = RangePlanBody

    @extend_schema(
        operation_id="plan_range_run",
        tags=TAGS,
        request=RangePlanBody,
        responses=RangePlanSerializer,
        examples=[DRY],
    )
    def post(self, request: Request) -> Response:
        """Say what a run would do, without doing it: rows, leaves, the index it wants, seconds."""
        refuse_unknown(request)
        asked = RangePlanBody.read(request)
        job = job_class(asked.pop("job"))
        with its_code(job.name):
            plan = job.plan(asked.pop("start", None), asked.pop("end", None), **asked)
        return Response(plan.as_json())


def find(run_id: object) -> RangeRun:
    """Raises NotFound, also for what cannot be an id."""
    try:
        wanted = uuid.UUID(str(run_id))
    except ValueError:
        wanted = None
    runs = RangeRun.objects.using(conf.get().database)
    found = None if wanted is None else runs.filter(id=wanted).first()
    if found is None:
        raise NotFound("range run", clean(str(run_id), 60))
    return found


def read(run_id: object, reader: Reader) -> dict[str, Any]:
    """The run as it stands now."""
    run = find(run_id)
    return shown(run, progress(run), reader)
