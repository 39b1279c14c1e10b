"""What requests about schedules say, and what answers show of them."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db.models import DateTimeField
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from jobs import schedules
from jobs.api.job.output import ANYTHING, HIDDEN, MomentField
from jobs.api.operating.asking import Body, GivenMomentField
from jobs.masking import Reader
from jobs.misfires import Misfire
from jobs.models import Schedule
from jobs.states import OnParentFailure

MOST_RUNS = 100
HEAVY = ("payload", "metadata")
PRIVATE = ("payload", "metadata", "last_error")
MISFIRE_HELP = (
    "What becomes of slots that passed while nobody ran: `once` makes up for all of them with one "
    "run, `skip` drops them, `each` runs every one."
)
OVERLAP_HELP = "Start a slot although the job of the slot before is still live."


class ScheduleSerializer(serializers.ModelSerializer[Schedule]):
    """A schedule with all there is to know about it."""

    serializer_field_mapping = {
        **serializers.ModelSerializer.serializer_field_mapping,
        DateTimeField: MomentField,
    }

    rule = serializers.SerializerMethodField(help_text="In words.")
    payload = serializers.SerializerMethodField()
    metadata = serializers.SerializerMethodField()
    last_error = serializers.CharField(
        allow_null=True, help_text="Why its last slot could not be made a job; empty: it could."
    )
    hidden = HIDDEN

    class Meta:
        model = Schedule
        fields: ClassVar[Any] = (
            "id", "name", "type", "queue", "priority", "max_attempts", "on_parent_failure", "rule",
            "recur_interval", "cron", "time_zone", "anchor_at", "misfire", "allow_overlap",
            "enabled", "next_slot", "last_slot", "last_job_id", "missed_count", "last_error",
            "payload", "metadata", "hidden", "created_at", "updated_at",
        )  # fmt: skip
        read_only_fields: ClassVar[Any] = fields

    def get_rule(self, schedule: Schedule) -> str:
        return schedules.describe(schedule)

    @extend_schema_field(ANYTHING)
    def get_payload(self, schedule: Schedule) -> Any:
        return self._masked(schedule, schedule.payload)

    @extend_schema_field({"type": "object", "nullable": True, "additionalProperties": {}})
    def get_metadata(self, schedule: Schedule) -> Any:
        return self._masked(schedule, schedule.metadata)

    def to_representation(self, instance: Schedule) -> dict[str, Any]:
        schedule = dict(super().to_representation(instance))
        schedule["hidden"] = []
        if not self._reader.reads:
            for name in PRIVATE:
                # The name is told of what there was to hide.
                if schedule.get(name) not in (None, ""):
                    schedule["hidden"].append(name)
                    schedule[name] = None
        return schedule

    def _masked(self, schedule: Schedule, value: Any) -> Any:
        return self._reader.value(schedule.type, value) if self._reader.reads else value

    @property
    def _reader(self) -> Reader:
        reader: Reader = self.context["view"].reader
        return reader


class ScheduleLineSerializer(ScheduleSerializer):
    """A schedule in a list: without payload and metadata."""

    class Meta(ScheduleSerializer.Meta):
        fields: ClassVar[Any] = tuple(
            name for name in ScheduleSerializer.Meta.fields if name not in HEAVY
        )
        read_only_fields: ClassVar[Any] = fields

    payload = None
    metadata = None


class ScheduleRuleBody(Body):
    recur_interval = serializers.CharField(
        required=False, allow_null=True, help_text="`every_<n>_<seconds|minutes|hours|days>`."
    )
    cron = serializers.CharField(
        required=False,
        allow_null=True,
        help_text="Five fields, or an alias such as `@daily`. Not with `recur_interval`.",
    )
    time_zone = serializers.CharField(
        required=False, allow_null=True, help_text="Of `cron`, such as `Europe/Berlin`; else UTC."
    )
    anchor_at = GivenMomentField(
        required=False,
        help_text="The first slot of an interval, now unless given; no slot of `cron` lies before.",
    )


class ScheduleChangesBody(ScheduleRuleBody):
    """What is left out stays as it is."""

    name = serializers.CharField(required=False, max_length=200)
    type = serializers.CharField(required=False, help_text="A registered job type.")
    payload = serializers.JSONField(required=False, allow_null=True)
    queue = serializers.CharField(required=False, help_text="The handler's unless given.")
    priority = serializers.IntegerField(required=False, min_value=1, max_value=3)
    max_attempts = serializers.IntegerField(required=False, min_value=1, max_value=1_000)
    metadata = serializers.DictField(required=False)
    misfire = serializers.ChoiceField(
        required=False, choices=[each.value for each in Misfire], help_text=MISFIRE_HELP
    )
    allow_overlap = serializers.BooleanField(required=False, help_text=OVERLAP_HELP)
    on_parent_failure = serializers.ChoiceField(
        required=False, choices=[each.value for each in OnParentFailure]
    )


class NewScheduleBody(ScheduleChangesBody):
    name = serializers.CharField(max_length=200, help_text="That no other schedule has.")
    type = serializers.CharField(help_text="A registered job type.")
    enabled = serializers.BooleanField(required=False, help_text="True unless given.")


class SchedulePreviewBody(ScheduleRuleBody):
    count = serializers.IntegerField(required=False, min_value=1, max_value=MOST_RUNS)


class NextRunSerializer(serializers.Serializer[Any]):
    at = MomentField()
    local = serializers.CharField(help_text="The same moment by the clock of the rule's zone.")
    note = serializers.CharField(help_text="What a change of the clocks does to it; mostly empty.")


class NextRunsSerializer(serializers.Serializer[Any]):
    rule = serializers.CharField(help_text="In words.")
    time_zone = serializers.CharField()
    runs = NextRunSerializer(many=True)


class StartedJobSerializer(serializers.Serializer[Any]):
    job_id = serializers.UUIDField()
