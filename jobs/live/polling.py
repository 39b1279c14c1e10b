"""The live feed for those without a socket: one frame for each request, as JSON.

And the answer to those who ask for a stream where the server cannot give one.
"""

from __future__ import annotations

import json
import time
from typing import ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from jobs import permissions
from jobs.api.base import CoppiceView
from jobs.errors import InvalidInput
from jobs.live import messages, output, positions, sample, stream, topics
from jobs.live.batches import Batch, Subscription
from jobs.live.hub import AWAY, LIVE
from jobs.live.owed import Frame, Owed, Resync
from jobs.live.positions import START, Position

EVERY_SECONDS = 5.0
PARAMETERS = frozenset({"topics", "after", "format"})
OFF = "off"
NOT_HERE = (
    "This server speaks WSGI, which cannot hold a stream open. Serve the project with daphne, "
    "or poll /api/v1/live."
)


class LiveView(CoppiceView):
    """What happened since a position, for topics."""

    needs: ClassVar = {"GET": permissions.VIEW}
    throttle_scope = "read"

    @extend_schema(
        operation_id="poll_live",
        tags=output.TAGS,
        parameters=output.POLL_PARAMETERS,
        responses=output.PolledSerializer,
        examples=[output.POLLED],
    )
    def get(self, request: Request) -> Response:
        """Tell what has happened since a position, for clients without a socket.

        The same frames as the WebSocket's, one for each call; docs/live.md describes them. Events
        beyond 50 are left out and counted.
        """
        for name in request.query_params:
            if name not in PARAMETERS:
                raise InvalidInput("is not a parameter of this address", field=name[:60])
        wanted = topics.parse_all(request.query_params.getlist("topics"))
        given = request.query_params.get("after")
        after = None if given is None else positions.parse(given)
        subscription = Subscription(topics=wanted, may_see=self.may(permissions.VIEW_PAYLOAD))
        feed, message = _look(after, subscription)
        stats = sample.newest() if subscription.wants_stats else None
        found = json.loads(messages.render(message, at=time.time(), may_see=subscription.may_see))
        if stats is not None:
            found["stats"] = json.loads(stats)
        if feed != LIVE:
            # Nothing is known of the stream: the position of the client stands.
            found |= {"seq": given, "prev": given}
        return Response({**found, "feed": feed, "every": EVERY_SECONDS})


def _look(after: Position | None, subscription: Subscription) -> tuple[str, Frame | Resync]:
    owed = Owed(after or START)
    if not stream.is_configured():
        return OFF, owed.take_frame()
    connection = stream.client()
    try:
        if after is None:
            owed.restart(stream.end(connection))
        else:
            gap = stream.replay(connection, after)
            owed.add(Batch(prev=after, to=gap.to, found=gap.found), subscription)
    except stream.TooOld as error:
        return LIVE, Resync(to=error.end, why="too_old")
    except stream.AWAY:
        return AWAY, owed.take_frame()
    return LIVE, owed.take_frame()


class StreamView(CoppiceView):
    """Where the stream is, for Django. Under ASGI `jobs.live.routing` answers before it."""

    needs: ClassVar = {"GET": permissions.VIEW}
    throttle_scope = "read"

    @extend_schema(
        tags=output.TAGS, parameters=output.STREAM_PARAMETERS, responses=output.STREAM_ANSWERS
    )
    def get(self, request: Request) -> Response:  # noqa: ARG002
        """Follow events as they happen, as server-sent events."""
        return Response({"detail": NOT_HERE}, status=501)
