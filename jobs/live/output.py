"""What the API's document says of the live feed. docs/live-schema.json says it all."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse
from rest_framework import serializers

from jobs.live import topics

TAGS = ["live"]
ID = "0198c0de-0000-7000-8000-000000000001"
SEQ = r"^[0-9]{1,20}-[0-9]{1,20}$"

_UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_BY_ID = "|".join(name for name in topics.NARROW if name != "queue")
_FILTERED = "|".join(name for name, kind in topics.WIDE.items() if kind.filters)
TOPIC = rf"^({'|'.join(topics.WIDE)}|({_BY_ID}):{_UUID}|queue:.+|({_FILTERED})\?.*)$"


class EventSerializer(serializers.Serializer[Any]):
    seq = serializers.CharField(help_text="Its position in the stream.")
    name = serializers.CharField()
    at = serializers.FloatField(help_text="Unix seconds.")
    job_id = serializers.CharField(allow_null=True)
    type = serializers.CharField(allow_blank=True)
    queue = serializers.CharField(allow_blank=True)
    status = serializers.CharField(allow_null=True, help_text="Of the job after it, if known.")
    facts = serializers.DictField()
    hidden = serializers.ListField(
        child=serializers.CharField(),
        required=False,
        help_text="Facts that only those who may view payloads can see.",
    )


class PolledSerializer(serializers.Serializer[Any]):
    """A frame of the live protocol, or a resync. See docs/live.md."""

    v = serializers.IntegerField()
    op = serializers.ChoiceField(["frame", "resync"])
    at = serializers.FloatField(help_text="Unix seconds.")
    prev = serializers.CharField(allow_null=True, required=False)
    seq = serializers.CharField(allow_null=True, help_text="Give it as `after` the next time.")
    events = EventSerializer(many=True, required=False)
    left_out = serializers.DictField(
        child=serializers.IntegerField(), required=False, help_text="By name: events not told."
    )
    stats = serializers.DictField(required=False, help_text="With a topic that has stats.")
    why = serializers.CharField(required=False, help_text="Of a resync: why the gap is not told.")
    within = serializers.FloatField(required=False)
    feed = serializers.ChoiceField(["live", "away", "off"])
    every = serializers.FloatField(help_text="Seconds until the next call.")


POLL_PARAMETERS = [
    OpenApiParameter(
        "topics",
        type={
            "type": "array",
            "minItems": 1,
            "maxItems": topics.TOPICS,
            "items": {"type": "string", "maxLength": topics.TOPIC_LENGTH, "pattern": TOPIC},
        },
        required=True,
        description="What to be told of; once for each topic.",
        examples=[OpenApiExample("The jobs of a queue", value=["overview", "jobs?queue=mail"])],
    ),
    OpenApiParameter(
        "after",
        type={"type": "string", "pattern": SEQ},
        description="The `seq` of the last answer. Without it there are no events.",
    ),
]
POLLED = OpenApiExample(
    "Something has happened",
    value={
        "v": 1,
        "op": "frame",
        "at": 1767225600.4,
        "prev": "1767225600123-4",
        "seq": "1767225600399-0",
        "events": [
            {
                "seq": "1767225600399-0",
                "name": "job.completed",
                "at": 1767225600.398,
                "job_id": ID,
                "type": "send_email",
                "queue": "mail",
                "status": "completed",
                "facts": {},
            }
        ],
        "left_out": {},
        "feed": "live",
        "every": 5.0,
    },
    response_only=True,
)


def _texts(description: str) -> dict[str, Any]:
    item = {"type": "string", "minLength": 1, "maxLength": 200}
    return {"type": "array", "items": item, "description": description}


STREAM_PARAMETERS = [
    OpenApiParameter("type", type=_texts(""), description="Only of these job types."),
    OpenApiParameter("queue", type=_texts(""), description="Only in these queues."),
    OpenApiParameter("job", type=_texts(""), description="Only about these jobs (ids)."),
    OpenApiParameter("event", type=_texts(""), description="Only these names, `*` for any text."),
    OpenApiParameter(
        "after", type={"type": "string", "pattern": SEQ}, description="Begin after this position."
    ),
    OpenApiParameter(
        "Last-Event-ID",
        location=OpenApiParameter.HEADER,
        type={"type": "string", "pattern": SEQ},
        description="The same, as browsers say it; it wins.",
    ),
]
STREAM_ANSWERS: dict[Any, Any] = {
    (200, "text/event-stream"): OpenApiResponse(
        response={"type": "string"},
        description="One message for each event, as docs/live.md describes. It ends after 1 MB or "
        "five minutes: come back with the last id.",
    ),
    501: OpenApiResponse(
        response={"type": "object", "properties": {"detail": {"type": "string"}}},
        description="The server speaks WSGI and cannot hold a stream open.",
    ),
}
