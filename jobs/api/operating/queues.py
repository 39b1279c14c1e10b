"""`/queues`: how deep, how late, how fast; pause and resume."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, ClassVar

from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from jobs import lifecycle, permissions, queues
from jobs.api.base import CoppiceView
from jobs.api.filters import refuse_unknown
from jobs.api.job.output import MomentField
from jobs.api.operating.asking import Body, GivenMomentField, ReasonBody
from jobs.api.pagination import (
    CURSOR,
    DEFAULT_LIMIT,
    LARGEST_LIMIT,
    LIMIT,
    KeysetPagination,
    read_cursor,
    read_number,
)
from jobs.database import DjangoDatabase
from jobs.drafts import check_queue
from jobs.errors import InvalidInput, NotFound
from jobs.models import Queue
from jobs.texts import clean

TAGS = ["queues"]


class QueueSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    depth = serializers.IntegerField(help_text="Jobs that are due and wait for a worker.")
    depth_is_capped = serializers.BooleanField(
        help_text=f"There are more: counting stops at {queues.CAP:,}."
    )
    later = serializers.IntegerField(help_text="Jobs that are not due yet.")
    later_is_capped = serializers.BooleanField()
    oldest_wait_seconds = serializers.FloatField(
        allow_null=True, help_text="For how long the oldest due job has been due."
    )
    running = serializers.IntegerField(help_text="Jobs that workers hold.")
    completed_per_minute = serializers.FloatField(help_text="In the last sixty seconds.")
    failed_per_minute = serializers.FloatField(
        help_text="Attempts that failed, timed out or were lost."
    )
    workers = serializers.IntegerField(help_text="Live ones that serve it.")
    paused = serializers.BooleanField()
    paused_until = MomentField(
        allow_null=True, help_text="When the pause is over by itself; null: when it is resumed."
    )
    reason = serializers.CharField(help_text="Why it is paused; empty if nobody said.")
    changed_by = serializers.CharField(help_text="Who paused it, or resumed it last.")
    changed_at = MomentField(allow_null=True)


class QueuePagination(KeysetPagination):
    """By name, upwards."""

    def read(self, request: Request) -> list[queues.QueueFacts]:
        self.request = request
        limit = read_number(request.query_params.get(LIMIT), LIMIT, DEFAULT_LIMIT, LARGEST_LIMIT)
        database = DjangoDatabase()
        found = queues.names(database, after=self._after(request), limit=limit + 1)
        self.more = len(found) > limit
        found = found[:limit]
        self.last = found[-1] if found else None
        return queues.facts(database, found)

    def _after(self, request: Request) -> str:
        cursor = request.query_params.get(CURSOR)
        if not cursor:
            return ""
        direction, name = read_cursor(cursor)
        try:
            if direction != "n":
                raise ValueError
            return check_queue(name)
        except ValueError:  # InvalidInput is one
            raise InvalidInput("is not a cursor of this list", field=CURSOR) from None


class QueuesView(CoppiceView):
    needs: ClassVar = {"GET": permissions.VIEW}
    queryset = Queue.objects.none()  # the browsable page of a list asks for one
    serializer_class: ClassVar[Any] = QueueSerializer
    pagination_class: ClassVar[Any] = QueuePagination

    @extend_schema(operation_id="list_queues", tags=TAGS, responses=QueueSerializer(many=True))
    def get(self, request: Request) -> Response:
        """List queues by name.

        Those that hold due or later work, that something runs from, that a worker was told to
        serve, that ended something within the hour, or that are paused.
        """
        refuse_unknown(request, (LIMIT, CURSOR))
        pages = QueuePagination()
        found = pages.read(request)
        return pages.get_paginated_response([_shown(queue) for queue in found])


class QueueView(CoppiceView):
    needs: ClassVar = {"GET": permissions.VIEW}
    serializer_class: ClassVar[Any] = QueueSerializer

    @extend_schema(operation_id="get_queue", tags=TAGS, responses=QueueSerializer)
    def get(self, request: Request, name: str) -> Response:
        """Read how deep, how late and how fast a queue is."""
        refuse_unknown(request, ())
        return Response(_shown(queues.one(DjangoDatabase(), name)))


PAUSE = OpenApiExample("Why", value={"reason": "the mail provider is down"}, request_only=True)
UNTIL = OpenApiExample(
    "For the night",
    value={"until": "2031-01-01T06:00:00Z", "reason": "the provider's window"},
    request_only=True,
)


class QueuePauseBody(ReasonBody):
    until = GivenMomentField(
        required=False,
        allow_null=True,
        help_text="When it goes on by itself, by the database's clock; else when it is resumed.",
    )


class PauseView(CoppiceView):
    needs: ClassVar = {"POST": permissions.PAUSE_QUEUE}
    serializer_class: ClassVar[Any] = QueuePauseBody

    @extend_schema(
        operation_id="pause_queue",
        tags=TAGS,
        responses=QueueSerializer,
        examples=[PAUSE, UNTIL],
    )
    def post(self, request: Request, name: str) -> Response:
        """Let no worker claim from a queue.

        Every worker obeys within two seconds. What runs goes on; what a worker holds and has not
        started goes back unspent. A queue that nobody has seen yet can be paused as well. Pausing
        it again leaves the first reason, and takes another `until` if one is given.
        """
        refuse_unknown(request)
        asked = QueuePauseBody.read(request)
        lifecycle.pause_queue(
            _named(name),
            until=asked.get("until"),
            reason=asked.get("reason", ""),
            by=self.actor,
        )
        return Response(_shown(queues.one(DjangoDatabase(), name, must_be_known=False)))


class ResumeView(CoppiceView):
    needs: ClassVar = {"POST": permissions.PAUSE_QUEUE}
    serializer_class: ClassVar[Any] = Body

    @extend_schema(operation_id="resume_queue", tags=TAGS, request=None, responses=QueueSerializer)
    def post(self, request: Request, name: str) -> Response:
        """Let workers claim from a queue again."""
        refuse_unknown(request)
        Body.read(request)
        lifecycle.resume_queue(_named(name), by=self.actor)
        return Response(_shown(queues.one(DjangoDatabase(), name, must_be_known=False)))


def _named(name: str) -> str:
    try:
        return check_queue(name)
    except InvalidInput:
        raise NotFound("queue", clean(name, 60)) from None


def _shown(queue: queues.QueueFacts) -> dict[str, Any]:
    return dict(QueueSerializer(asdict(queue)).data)
