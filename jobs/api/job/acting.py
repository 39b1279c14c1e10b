"""Routes that do something to one job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from jobs import lifecycle, permissions
from jobs.api.base import CoppiceView
from jobs.api.filters import refuse_unknown
from jobs.api.job.input import ReasonSerializer, reason_of
from jobs.api.job.output import JobSerializer
from jobs.api.job.single import shown
from jobs.api.schema import REASON
from jobs.lifecycle import CancelResult

TAGS = ["jobs"]
DEAD_TAGS = ["dead letters"]


class _Acting(CoppiceView):
    serializer_class: ClassVar[Any] = ReasonSerializer

    def act(self, request: Request, job_id: str, action: Callable[..., Any]) -> Response:
        """Do it, and answer with the job as it then stands."""
        refuse_unknown(request)
        asked = ReasonSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        reason = reason_of(asked.validated_data.get("reason"))
        result = action(job_id, by=self.actor, reason=reason)
        status = 202 if result is CancelResult.REQUESTED else 200
        return Response(shown(job_id, self.reader), status=status)


class RunNowView(_Acting):
    needs: ClassVar = {"POST": permissions.EDIT}

    @extend_schema(
        operation_id="run_job_now", tags=TAGS, request=ReasonSerializer, responses=JobSerializer
    )
    def post(self, request: Request, job_id: str) -> Response:
        """Make a scheduled, retrying or held job due at once."""
        return self.act(request, job_id, lifecycle.run_now)


class CancelView(_Acting):
    needs: ClassVar = {"POST": permissions.CANCEL}

    @extend_schema(
        operation_id="cancel_job",
        tags=TAGS,
        request=ReasonSerializer,
        responses={
            200: OpenApiResponse(JobSerializer, description="It was pending and is cancelled."),
            202: OpenApiResponse(JobSerializer, description="It runs and was asked to stop."),
        },
    )
    def post(self, request: Request, job_id: str) -> Response:
        """Cancel a job. One that runs sees the request within two seconds."""
        return self.act(request, job_id, lifecycle.cancel)


class MarkLostView(_Acting):
    needs: ClassVar = {"POST": permissions.CANCEL}

    @extend_schema(
        operation_id="mark_job_lost",
        tags=TAGS,
        request=ReasonSerializer,
        responses=JobSerializer,
    )
    def post(self, request: Request, job_id: str) -> Response:
        """Take a job away from its worker, when it goes on although it was asked to stop.

        Only after `COPPICE_GRACE_SECONDS`, when it ends cancelled; or if its worker shows no sign of
        life, when it is due again or dead. What its handler still writes about it is refused.
        """
        return self.act(request, job_id, lifecycle.mark_lost)


class RetryView(_Acting):
    needs: ClassVar = {"POST": permissions.RETRY}

    @extend_schema(
        operation_id="retry_job",
        tags=DEAD_TAGS,
        request=ReasonSerializer,
        responses=JobSerializer,
    )
    def post(self, request: Request, job_id: str) -> Response:
        """Run a dead letter again, from its first attempt. Its history stays."""
        return self.act(request, job_id, lifecycle.retry)


class ReleaseView(_Acting):
    needs: ClassVar = {"POST": permissions.EDIT}

    @extend_schema(
        operation_id="release_job", tags=TAGS, request=ReasonSerializer, responses=JobSerializer
    )
    def post(self, request: Request, job_id: str) -> Response:
        """Let a held job run: at its time if that is still to come, else at once."""
        return self.act(request, job_id, lifecycle.release)


class PurgeView(CoppiceView):
    needs: ClassVar = {"DELETE": permissions.PURGE}
    serializer_class: ClassVar[Any] = ReasonSerializer

    @extend_schema(
        operation_id="purge_job",
        tags=DEAD_TAGS,
        parameters=[REASON],
        responses={204: OpenApiResponse(description="It is gone, with its attempts and its log.")},
    )
    def delete(self, request: Request, job_id: str) -> Response:
        """Delete a dead letter for good. Jobs that wait for it are cancelled."""
        refuse_unknown(request, ["reason"])
        reason = reason_of(request.query_params.get("reason"))
        lifecycle.purge(job_id, by=self.actor, reason=reason)
        return Response(status=204)
