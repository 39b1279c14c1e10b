"""Routes of one job: read it, its attempts and its log, and change it."""

from __future__ import annotations

import uuid
from typing import Any, ClassVar

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse

from jobs import conf, lifecycle, permissions
from jobs.api.base import CoppiceView
from jobs.api.filters import refuse_unknown
from jobs.api.job import examples
from jobs.api.job.input import JobChangesSerializer
from jobs.api.job.output import (
    AttemptSerializer,
    JobSerializer,
    LogSerializer,
    detail,
    running_attempt,
)
from jobs.api.pagination import CURSOR, KeysetPagination
from jobs.database import DjangoDatabase
from jobs.errors import InvalidInput, NotFound
from jobs.masking import Reader
from jobs.models import Attempt, Job, JobLog
from jobs.states import Status
from jobs.texts import clean

TAGS = ["jobs"]
NOW = "SELECT extract(epoch FROM clock_timestamp())::float8"


def find(job_id: object) -> Job:
    """Raises NotFound, also for what cannot be an id."""
    try:
        job = Job.objects.using(conf.get().database).filter(id=uuid.UUID(str(job_id))).first()
    except ValueError:
        job = None
    if job is None:
        raise NotFound("job", clean(str(job_id), 60))
    return job


def shown(job_id: object, reader: Reader) -> dict[str, Any]:
    """The job as it stands now."""
    job = find(job_id)
    now = float(DjangoDatabase().rows(NOW, {})[0][0])
    return detail(job, now, reader)


def address(request: Request, job_id: object) -> str:
    return str(reverse("coppice-job", kwargs={"job_id": str(job_id)}, request=request))


class JobView(CoppiceView):
    needs: ClassVar = {"GET": permissions.VIEW, "PATCH": permissions.EDIT}
    serializer_class: ClassVar[Any] = JobSerializer

    @extend_schema(
        operation_id="get_job", tags=TAGS, responses=JobSerializer, examples=[examples.JOB]
    )
    def get(self, request: Request, job_id: str) -> Response:
        """Read a job: its payload and result, what it waits for, and why it is not running."""
        refuse_unknown(request)
        return Response(shown(job_id, self.reader))

    @extend_schema(
        operation_id="change_job",
        tags=TAGS,
        request=JobChangesSerializer,
        responses=JobSerializer,
        examples=[examples.CHANGES],
    )
    def patch(self, request: Request, job_id: str) -> Response:
        """Change a pending job's priority, queue or time, or the payload of a dead letter."""
        refuse_unknown(request)
        asked = JobChangesSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        change(job_id, asked.validated_data, by=self.actor)
        return Response(shown(job_id, self.reader))


def change(job_id: str, changes: dict[str, Any], *, by: str) -> None:
    """Either what decides when it runs, or what it is about: no job may have both changed."""
    if not changes:
        raise InvalidInput("names nothing to change", field="non_field_errors")
    if "payload" not in changes:
        lifecycle.change(job_id, **changes, by=by)
    elif len(changes) > 1:
        raise InvalidInput("cannot be changed together with anything else", field="payload")
    else:
        lifecycle.edit_payload(job_id, changes["payload"], by=by)


class AttemptPages(KeysetPagination):
    ordering = "lease_epoch"


class AttemptsView(CoppiceView):
    needs: ClassVar = {"GET": permissions.VIEW}
    queryset = Attempt.objects.none()
    serializer_class: ClassVar[Any] = AttemptSerializer
    pagination_class: ClassVar[Any] = AttemptPages

    @extend_schema(
        operation_id="list_attempts",
        tags=TAGS,
        responses=AttemptSerializer(many=True),
        examples=[examples.ATTEMPT],
    )
    def get(self, request: Request, job_id: str) -> Response:
        """List the attempts of a job, the last one first. One that runs is the first of all."""
        job = find(job_id)
        rows = _page(self, request, Attempt.objects.filter(job_id=job.id))
        if job.status == Status.PROCESSING and CURSOR not in request.query_params:
            rows = [running_attempt(job), *rows]
        return _answer(self, rows)


class LogsView(CoppiceView):
    needs: ClassVar = {"GET": permissions.VIEW}
    queryset = JobLog.objects.none()
    serializer_class: ClassVar[Any] = LogSerializer
    pagination_class: ClassVar[Any] = KeysetPagination

    @extend_schema(
        operation_id="list_logs",
        tags=TAGS,
        responses=LogSerializer(many=True),
        examples=[examples.LOG],
    )
    def get(self, request: Request, job_id: str) -> Response:
        """List what happened to a job, the last line first."""
        job = find(job_id)
        return _answer(self, _page(self, request, JobLog.objects.filter(job_id=job.id)))


def _page(view: CoppiceView, request: Request, rows: QuerySet[Any]) -> list[Any]:
    pages: Any = view.paginator
    refuse_unknown(request, pages.names)
    found: list[Any] = pages.paginate_queryset(rows.using(conf.get().database), request, view)
    return found


def _answer(view: CoppiceView, rows: list[Any]) -> Response:
    serializer: Any = view.serializer_class
    return view.get_paginated_response(
        serializer(rows, many=True, context={"reader": view.reader}).data
    )
