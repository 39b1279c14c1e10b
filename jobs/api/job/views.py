"""Routes of many jobs: list, create, statistics, dead letters."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse

from jobs import bulk, lifecycle, listing, permissions
from jobs.api.base import CoppiceView
from jobs.api.filters import DeadLetterFilters, JobFilterBackend, JobFilters, refuse_unknown
from jobs.api.job import examples
from jobs.api.job.figures import StatsSerializer, figures
from jobs.api.job.input import (
    NewJobSerializer,
    NewJobsSerializer,
    job_options,
    job_specs,
    reason_of,
)
from jobs.api.job.output import (
    DeletedSerializer,
    IdsSerializer,
    JobSerializer,
    JobSummarySerializer,
    summaries,
)
from jobs.api.job.pages import JobPagination
from jobs.api.job.single import address, shown
from jobs.api.schema import REASON
from jobs.enqueueing import enqueue, enqueue_jobs
from jobs.models import Job
from jobs.states import Status

TAGS = ["jobs"]
DEAD_TAGS = ["dead letters"]


class _Listed(CoppiceView):
    """A list of jobs with filters."""

    queryset = Job.objects.none()
    serializer_class: ClassVar[Any] = JobSummarySerializer
    filter_backends: ClassVar = [JobFilterBackend]
    pagination_class: ClassVar[Any] = JobPagination

    def answer_list(self, request: Request) -> Response:
        filters = JobFilterBackend().filters(request, self)
        pages: Any = self.paginator
        page = pages.read(filters, request)
        return self.get_paginated_response(summaries(page.jobs, page.now, self.reader))


class JobsView(_Listed):
    needs: ClassVar = {"GET": permissions.VIEW, "POST": permissions.CREATE}
    filterset_class = JobFilters

    def get_serializer_class(self) -> Any:
        return NewJobSerializer if self.request.method == "POST" else JobSummarySerializer

    @extend_schema(
        operation_id="list_jobs",
        tags=TAGS,
        responses=JobSummarySerializer(many=True),
        examples=[examples.PAGE],
    )
    def get(self, request: Request) -> Response:
        """List jobs, the newest first.

        Dead letters alone (`status=failed`) come by the time of their death. Payloads, metadata and
        results are not in lists, and errors are cut. A search that takes more than 3 seconds is
        stopped and refused with the code `too_broad`.
        """
        return self.answer_list(request)

    @extend_schema(
        operation_id="create_job",
        tags=TAGS,
        request=NewJobSerializer,
        responses={
            201: JobSerializer,
            200: OpenApiResponse(
                JobSerializer, description="A live job has this `unique_key` already: that one."
            ),
        },
        examples=[examples.NEW_JOB],
    )
    def post(self, request: Request) -> Response:
        """Create a job."""
        refuse_unknown(request)
        asked = NewJobSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        job = enqueue(**job_options(asked.validated_data))
        # A job that was just made has columns that nobody has read; one that was found has none.
        status = 201 if job.get_deferred_fields() else 200
        place = address(request, job.id)
        return Response(shown(job.id, self.reader), status=status, headers={"Location": place})


class BulkJobsView(CoppiceView):
    needs: ClassVar = {"POST": permissions.CREATE}
    throttle_scope = "bulk"
    serializer_class: ClassVar[Any] = NewJobsSerializer

    @extend_schema(
        operation_id="create_jobs",
        tags=TAGS,
        request=NewJobsSerializer,
        responses={201: IdsSerializer},
        examples=[examples.NEW_JOBS],
    )
    def post(self, request: Request) -> Response:
        """Create up to 10,000 jobs, all or none.

        Where one is refused the answer is 400 with the errors by its index:
        `{"jobs": {"17": {"priority": ["..."]}}}`.
        """
        refuse_unknown(request)
        return Response({"ids": enqueue_jobs(job_specs(request.data))}, status=201)


class StatsView(CoppiceView):
    needs: ClassVar = {"GET": permissions.VIEW}
    serializer_class: ClassVar[Any] = StatsSerializer

    @extend_schema(
        operation_id="job_stats", tags=TAGS, responses=StatsSerializer, examples=[examples.STATS]
    )
    def get(self, request: Request) -> Response:
        """How many jobs there are, by status.

        Exact up to 10,000 of a status; `estimated` names those that are not.
        """
        refuse_unknown(request)
        return Response(figures())


class DeadLettersView(_Listed):
    needs: ClassVar = {"GET": permissions.VIEW, "DELETE": permissions.PURGE_ALL}
    throttle_scope = "bulk"
    filterset_class = DeadLetterFilters

    @extend_schema(
        operation_id="list_dead_letters",
        tags=DEAD_TAGS,
        responses=JobSummarySerializer(many=True),
    )
    def get(self, request: Request) -> Response:
        """List dead letters: jobs that failed for good, the last ones first."""
        return self.answer_list(request)

    @extend_schema(
        operation_id="empty_dead_letters",
        tags=DEAD_TAGS,
        parameters=[REASON],
        responses=examples.EMPTIED,
    )
    def delete(self, request: Request) -> Response:
        """Delete all dead letters for good: those that are dead when the request comes.

        More than 10,000 are deleted by a worker: the answer is 202 with that bulk operation.
        """
        return empty(self, request)


class EmptyDeadLettersView(CoppiceView):
    needs: ClassVar = {"DELETE": permissions.PURGE_ALL}
    throttle_scope = "bulk"
    serializer_class: ClassVar[Any] = DeletedSerializer

    @extend_schema(
        operation_id="empty_dlq",
        tags=DEAD_TAGS,
        parameters=[REASON],
        responses=examples.EMPTIED,
    )
    def delete(self, request: Request) -> Response:
        """The same as `DELETE /jobs/dlq`."""
        return empty(self, request)


def empty(view: CoppiceView, request: Request) -> Response:
    refuse_unknown(request, ["reason"])
    reason = reason_of(request.query_params.get("reason"))
    dead = listing.Filters(status=Status.FAILED, internal=False)
    if listing.count(dead).exact is not None:
        deleted = lifecycle.empty_dead_letters(by=view.actor, reason=reason)
        return Response({"deleted": deleted})
    operation = bulk.create("purge", dead, reason=reason, by=view.actor)
    place = reverse(
        "coppice-bulk-operation", kwargs={"operation_id": str(operation.id)}, request=request
    )
    return Response(bulk.as_json(operation), status=202, headers={"Location": place})
