"""What requests say, checked for its shape. Its values are checked where jobs are made and changed,
so that every way in refuses the same with the same words.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, cast

from drf_spectacular.extensions import OpenApiSerializerFieldExtension
from rest_framework import serializers

from jobs.database import DjangoDatabase
from jobs.drafts import refuse_internal
from jobs.errors import InvalidInput
from jobs.moments import parse_moment
from jobs.payloads import check_text
from jobs.specs import JobSpec
from jobs.states import OnParentFailure
from jobs.texts import clean

MOST_IN_BULK = 10_000
LONGEST_REASON = 1_000
LATEST_PAST = timedelta(seconds=60)
"""How far a time to run at may lie in the past: clocks differ, and requests take their time."""

IDS = {"type": "string", "format": "uuid"}


class AnyField(serializers.Field[Any, Any, Any, Any]):
    """A value as it came. What it may be is said in the document and checked further in."""

    def __init__(self, document: dict[str, Any], *, required: bool = False) -> None:
        super().__init__(required=required, allow_null=True)
        self.document = document

    def to_internal_value(self, data: Any) -> Any:
        return data

    def to_representation(self, value: Any) -> Any:
        return value


class AnyFieldExtension(OpenApiSerializerFieldExtension):  # type: ignore[no-untyped-call]
    target_class = AnyField

    def map_serializer_field(self, auto_schema: Any, direction: Any) -> dict[str, Any]:  # noqa: ARG002
        return dict(self.target.document)


def _moment(description: str) -> AnyField:
    kinds = [{"type": "string", "format": "date-time"}, {"type": "integer"}]
    return AnyField({"oneOf": kinds, "nullable": True, "description": description})


class InputSerializer(serializers.Serializer[Any]):
    """Refuses fields that it does not know, and takes null for not given."""

    def to_internal_value(self, data: Any) -> Any:
        require_known(data, self.fields)
        values: dict[str, Any] = super().to_internal_value(data)
        return {name: value for name, value in values.items() if value is not None}


def require_known(data: Any, known: Iterable[str]) -> None:
    """Raises InvalidInput unless the data is an object with these names only."""
    if not isinstance(data, Mapping):
        raise InvalidInput("must be an object", field="non_field_errors")
    names = set(known)
    for name in data:
        if name not in names:
            raise InvalidInput("is not a field of this request", field=clean(name, 60) or "(empty)")


class NewJobSerializer(InputSerializer):
    """A job to be made."""

    type = AnyField(
        {"type": "string", "maxLength": 100, "description": "Names the handler."}, required=True
    )
    payload = AnyField({"description": "Any JSON that the handler takes. Not given: {}."})
    priority = AnyField(
        {"type": "integer", "enum": [1, 2, 3], "nullable": True, "description": "1 high to 3 low."}
    )
    scheduled_at = _moment("When to run; not more than 60 s ago. Not given: now.")
    depends_on = AnyField(
        {
            "oneOf": [IDS, {"type": "array", "items": IDS, "maxItems": 10_000}],
            "nullable": True,
            "description": "The jobs that must be completed before: one id or many.",
        }
    )
    recur_interval = AnyField(
        {
            "type": "string",
            "nullable": True,
            "description": "Run again and again: every_5_minutes, every_1_hour, every_2_days.",
        }
    )
    cron = AnyField(
        {
            "type": "string",
            "nullable": True,
            "description": "The same by a cron expression of five fields.",
        }
    )
    time_zone = AnyField(
        {"type": "string", "nullable": True, "description": "For `cron`. Not given: UTC."}
    )
    queue = AnyField(
        {
            "type": "string",
            "maxLength": 60,
            "nullable": True,
            "description": "Not given: the handler's.",
        }
    )
    unique_key = AnyField(
        {
            "type": "string",
            "maxLength": 200,
            "nullable": True,
            "description": "While a job with this key is pending or runs, no second one is made.",
        }
    )
    metadata = AnyField({"type": "object", "nullable": True, "additionalProperties": {}})
    max_retries = AnyField(
        {
            "type": "integer",
            "minimum": 1,
            "maximum": 1000,
            "nullable": True,
            "description": "The most attempts, the first one counted. Not given: the handler's.",
        }
    )
    max_attempts = AnyField(
        {
            "type": "integer",
            "minimum": 1,
            "maximum": 1000,
            "nullable": True,
            "description": "Another name for `max_retries`.",
        }
    )
    on_parent_failure = AnyField(
        {
            "type": "string",
            "enum": [each.value for each in OnParentFailure],
            "nullable": True,
            "description": "What to do when a job that it depends on fails or is cancelled.",
        }
    )


RECURRING = ("recur_interval", "cron", "time_zone")
ONE = frozenset(NewJobSerializer().fields)
IN_BULK = (ONE - {*RECURRING}) | {"key"}


class NewBulkJobSerializer(NewJobSerializer):
    """One of many jobs. They cannot recur; they can depend on each other by `key`."""

    recur_interval = cast("AnyField", None)
    cron = cast("AnyField", None)
    time_zone = cast("AnyField", None)
    key = AnyField(
        {
            "type": "string",
            "maxLength": 200,
            "nullable": True,
            "description": "Names the job within this request, for the `depends_on` of others.",
        }
    )
    depends_on = AnyField(
        {
            "oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
            "nullable": True,
            "description": "Ids, and keys of other jobs of this request.",
        }
    )


class NewJobsSerializer(serializers.Serializer[Any]):
    """Many jobs, all of which are made or none."""

    jobs = NewBulkJobSerializer(many=True, max_length=MOST_IN_BULK)


class JobChangesSerializer(InputSerializer):
    """Of a pending job: priority, queue and time. Of a dead letter: the payload."""

    priority = AnyField({"type": "integer", "enum": [1, 2, 3], "nullable": True})
    queue = AnyField({"type": "string", "maxLength": 60, "nullable": True})
    scheduled_at = _moment("A time that has passed makes the job due.")
    payload = AnyField({"description": "Any JSON that the handler takes."})

    def to_internal_value(self, data: Any) -> Any:
        values = super().to_internal_value(data)
        if "payload" in data:  # null is JSON, too
            values["payload"] = data["payload"]
        return values


class ReasonSerializer(InputSerializer):
    """Why, for the log and the audit. The body may be left out."""

    reason = AnyField({"type": "string", "maxLength": LONGEST_REASON, "nullable": True})


def job_options(data: Mapping[str, Any]) -> dict[str, Any]:
    """What `enqueue` is called with. Raises InvalidInput."""
    options = _options(data)
    refuse_past([options.get("scheduled_at")])
    return options


def reason_of(value: Any) -> str:
    """Raises InvalidInput for what is no text, or too long."""
    if value is None or value == "":
        return ""
    return check_text(value, "reason", max_length=LONGEST_REASON)


def job_specs(data: Any) -> list[JobSpec]:
    """What `enqueue_jobs` is called with. Raises InvalidInput with the index of the job.

    A serializer for each of 10,000 would take seconds; this looks for the same.
    """
    require_known(data, ["jobs"])
    jobs = data.get("jobs")
    if not isinstance(jobs, list):
        raise InvalidInput("must be a list", field="jobs")
    if len(jobs) > MOST_IN_BULK:
        raise InvalidInput(f"are more than {MOST_IN_BULK:,}", field="jobs")
    specs = []
    for index, each in enumerate(jobs):
        try:
            require_known(each, IN_BULK)
            specs.append(JobSpec(**_options(each)))
        except InvalidInput as error:
            raise error.at(index) from None
    refuse_past([spec.scheduled_at for spec in specs], is_bulk=True)
    return specs


def _options(data: Mapping[str, Any]) -> dict[str, Any]:
    options = {name: value for name, value in data.items() if value is not None}
    if "type" not in options:
        raise InvalidInput("must be given", field="type")
    refuse_internal(type=options["type"], metadata=options.get("metadata"))
    if "max_retries" in options:
        retries = options.pop("max_retries")
        if options.setdefault("max_attempts", retries) != retries:
            raise InvalidInput("is another name for max_retries: give one", field="max_attempts")
    depends_on = options.get("depends_on", ())
    if not isinstance(depends_on, str | list | tuple) or depends_on == "":
        raise InvalidInput("must be an id or a list of ids", field="depends_on")
    return options


def refuse_past(moments: list[Any], *, is_bulk: bool = False) -> None:
    """By the database's clock, which also decides when a job is due."""
    if all(moment is None for moment in moments):
        return
    now = DjangoDatabase().rows("SELECT clock_timestamp()", {})[0][0]
    for index, moment in enumerate(moments):
        try:
            if moment is not None and parse_moment(moment, "scheduled_at") < now - LATEST_PAST:
                raise InvalidInput("is more than 60 seconds in the past", field="scheduled_at")
        except InvalidInput as error:
            raise (error.at(index) if is_bulk else error) from None
