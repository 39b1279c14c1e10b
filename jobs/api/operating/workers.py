"""`/workers`: who works, on what; quiet, stop, recover and forget."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Any, ClassVar
from uuid import UUID

from drf_spectacular.utils import (
    OpenApiExample,
    OpenApiParameter,
    OpenApiResponse,
    extend_schema,
)
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from jobs import lifecycle, permissions, workers
from jobs.api.base import CoppiceView
from jobs.api.filters import refuse_unknown
from jobs.api.job.input import reason_of
from jobs.api.job.output import MomentField
from jobs.api.operating.asking import Body, ReasonBody
from jobs.api.pagination import (
    CURSOR,
    DEFAULT_LIMIT,
    LARGEST_LIMIT,
    LIMIT,
    KeysetPagination,
    read_cursor,
    read_number,
)
from jobs.api.schema import REASON
from jobs.database import DjangoDatabase
from jobs.errors import InvalidInput
from jobs.models import Worker
from jobs.workers import WorkerState

TAGS = ["workers"]
STATES = [state.value for state in WorkerState]


class HeldJobSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    type = serializers.CharField()
    queue = serializers.CharField()
    priority = serializers.IntegerField()
    attempt = serializers.IntegerField()
    started_at = MomentField()
    seconds = serializers.FloatField(help_text="Since it was claimed.")
    cancelling = serializers.BooleanField(help_text="It was asked to stop.")


class WorkerSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    name = serializers.CharField()
    host = serializers.CharField()
    pid = serializers.IntegerField()
    version = serializers.CharField()
    queues = serializers.ListField(child=serializers.CharField(), help_text="Empty: all.")
    concurrency = serializers.IntegerField(help_text="Its slots.")
    state = serializers.ChoiceField(
        choices=STATES,
        help_text="`stale`: it says that it runs, but has not been heard of for too long.",
    )
    heartbeat_age_seconds = serializers.FloatField()
    beat_at = MomentField()
    started_at = MomentField()
    stop_requested_at = MomentField(allow_null=True)
    stopped_at = MomentField(allow_null=True)
    quiet_requested_at = MomentField(
        allow_null=True, help_text="Since when it is asked to claim nothing."
    )
    quiet_at = MomentField(allow_null=True, help_text="Since when it does so; null: it claims.")
    clock_skew_seconds = serializers.FloatField(
        allow_null=True,
        help_text="How far its machine's clock is ahead of the database's; below 0: behind it.",
    )
    clock_skew_uncertainty_seconds = serializers.FloatField(
        allow_null=True, help_text="By how much that may be more or less."
    )
    held = serializers.IntegerField(help_text="Jobs that it has claimed.")
    busy = serializers.IntegerField(help_text="Of its slots.")
    jobs = HeldJobSerializer(
        many=True, help_text="The first of those it holds: they run, or will in a moment."
    )


class WorkerDetailSerializer(WorkerSerializer):
    types = serializers.ListField(child=serializers.CharField(), help_text="That it can run.")


class WorkerPagination(KeysetPagination):
    """By start and id, downwards."""

    def read(self, request: Request) -> list[workers.WorkerFacts]:
        self.request = request
        given = request.query_params
        limit = read_number(given.get(LIMIT), LIMIT, DEFAULT_LIMIT, LARGEST_LIMIT)
        state, host = given.get("state", ""), given.get("host", "")
        if state and state not in STATES:
            raise InvalidInput(f"must be one of {', '.join(STATES)}", field="state")
        if "\x00" in host:
            raise InvalidInput("contains a NUL character", field="host")
        cursor = given.get(CURSOR)
        found = workers.listed(
            DjangoDatabase(),
            state=state,
            host=host,
            before=_place(cursor) if cursor else None,
            limit=limit + 1,
        )
        self.more = len(found) > limit
        found = found[:limit]
        self.last = f"{found[-1].started_at.isoformat()}~{found[-1].id}" if found else None
        return found


class WorkersView(CoppiceView):
    needs: ClassVar = {"GET": permissions.VIEW}
    queryset = Worker.objects.none()  # the browsable page of a list asks for one
    serializer_class: ClassVar[Any] = WorkerSerializer
    pagination_class: ClassVar[Any] = WorkerPagination

    @extend_schema(
        operation_id="list_workers",
        tags=TAGS,
        parameters=[
            OpenApiParameter("state", {"type": "string", "enum": STATES}),
            OpenApiParameter("host", str, description="Exactly."),
        ],
        responses=WorkerSerializer(many=True),
    )
    def get(self, request: Request) -> Response:
        """List worker processes, those started last first.

        Those that have stopped, or were found dead, stay in the list for some days."""
        refuse_unknown(request, ("state", "host", LIMIT, CURSOR))
        pages = WorkerPagination()
        found = pages.read(request)
        shown = [dict(WorkerSerializer(asdict(worker)).data) for worker in found]
        return pages.get_paginated_response(shown)


class WorkerView(CoppiceView):
    needs: ClassVar = {"GET": permissions.VIEW, "DELETE": permissions.CONTROL_WORKER}
    serializer_class: ClassVar[Any] = WorkerDetailSerializer

    @extend_schema(operation_id="get_worker", tags=TAGS, responses=WorkerDetailSerializer)
    def get(self, request: Request, worker_id: str) -> Response:
        """Read how a worker process is, and what it holds."""
        refuse_unknown(request, ())
        return Response(_shown(worker_id))

    @extend_schema(
        operation_id="forget_worker",
        tags=TAGS,
        parameters=[REASON],
        responses={204: OpenApiResponse(description="Its row is gone.")},
    )
    def delete(self, request: Request, worker_id: str) -> Response:
        """Forget a worker process that is dead and owns no job any more.

        Its row would go by itself after the retention time.
        """
        refuse_unknown(request, ["reason"])
        reason = reason_of(request.query_params.get("reason"))
        lifecycle.forget_worker(worker_id, reason=reason, by=self.actor)
        return Response(status=204)


WHY = OpenApiExample("Why", value={"reason": "the host is to be replaced"}, request_only=True)


class StopView(CoppiceView):
    needs: ClassVar = {"POST": permissions.CONTROL_WORKER}
    serializer_class: ClassVar[Any] = ReasonBody

    @extend_schema(
        operation_id="stop_worker",
        tags=TAGS,
        responses={202: WorkerDetailSerializer},
        examples=[WHY],
    )
    def post(self, request: Request, worker_id: str) -> Response:
        """Ask a worker process to stop.

        It claims nothing more, ends what runs within its graceful time-out, hands back the rest
        and is not replaced. Its supervisor hears of it with its next beat; with its last process it
        ends itself. Asking again changes nothing.
        """
        refuse_unknown(request)
        reason = ReasonBody.read(request).get("reason", "")
        lifecycle.stop_worker(worker_id, reason=reason, by=self.actor)
        return Response(_shown(worker_id), status=202)


class QuietView(CoppiceView):
    needs: ClassVar = {"POST": permissions.CONTROL_WORKER}
    serializer_class: ClassVar[Any] = ReasonBody

    @extend_schema(
        operation_id="quiet_worker",
        tags=TAGS,
        responses={202: WorkerDetailSerializer},
        examples=[WHY],
    )
    def post(self, request: Request, worker_id: str) -> Response:
        """Ask a worker process to claim nothing until it is resumed.

        What it runs goes on; what it holds that has not begun is handed back. `quiet_at` says since
        when it does so. Asking again changes nothing.
        """
        refuse_unknown(request)
        reason = ReasonBody.read(request).get("reason", "")
        lifecycle.quiet_worker(worker_id, reason=reason, by=self.actor)
        return Response(_shown(worker_id), status=202)


class ResumeView(CoppiceView):
    needs: ClassVar = {"POST": permissions.CONTROL_WORKER}
    serializer_class: ClassVar[Any] = Body

    @extend_schema(
        operation_id="resume_worker",
        tags=TAGS,
        request=None,
        responses={202: WorkerDetailSerializer},
    )
    def post(self, request: Request, worker_id: str) -> Response:
        """Let a worker process claim again."""
        refuse_unknown(request)
        Body.read(request)
        lifecycle.resume_worker(worker_id, by=self.actor)
        return Response(_shown(worker_id), status=202)


class WorkerRecoveredSerializer(WorkerDetailSerializer):
    recovered = serializers.IntegerField(help_text="Jobs that were taken back.")


class RecoverView(CoppiceView):
    needs: ClassVar = {"POST": permissions.CONTROL_WORKER}
    serializer_class: ClassVar[Any] = ReasonBody

    @extend_schema(
        operation_id="recover_worker",
        tags=TAGS,
        responses=WorkerRecoveredSerializer,
        examples=[
            OpenApiExample("Why", value={"reason": "the host is gone"}, request_only=True),
        ],
    )
    def post(self, request: Request, worker_id: str) -> Response:
        """Declare a silent worker process dead, and take back its jobs.

        A live worker does so by itself within seconds; this is for when none lives. Only of one that
        is `stale`. Should it be at work after all, what it writes is refused.
        """
        refuse_unknown(request)
        reason = ReasonBody.read(request).get("reason", "")
        recovered = lifecycle.recover_worker(worker_id, reason=reason, by=self.actor)
        return Response({**_shown(worker_id), "recovered": recovered})


def _shown(id: str) -> dict[str, Any]:
    found = workers.one(DjangoDatabase(), id)
    return dict(WorkerDetailSerializer(asdict(found)).data)


def _place(cursor: str) -> tuple[datetime, UUID]:
    direction, place = read_cursor(cursor)
    moment, _, id = place.partition("~")
    try:
        started, last = datetime.fromisoformat(moment), UUID(id)
        if direction != "n" or started.utcoffset() is None:
            raise ValueError
    except ValueError:
        raise InvalidInput("is not a cursor of this list", field=CURSOR) from None
    return started, last
