"""Jobs, attempts and log lines as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC
from typing import Any, ClassVar

from django.db.models import DateTimeField
from drf_spectacular.utils import extend_schema_field
from rest_framework import ISO_8601, serializers

from jobs import conf
from jobs.database import DjangoDatabase
from jobs.edges import Blocker, blocked_by
from jobs.masking import Reader
from jobs.models import Attempt, Job, JobLog, Schedule
from jobs.reasons import why_not_running
from jobs.states import Outcome, State, Status

BLOCKERS_LISTED = 10
BLOCKERS_SHOWN = 100
ACTIONS = frozenset(
    {
        "cancel_requested",
        "changed",
        "dependency_added",
        "payload_edited",
        "released",
        "retried",
        "run_now",
    }
)
"""What people did; other lines of the log may quote an error, or what a handler wrote."""

ANYTHING: dict[str, Any] = {"description": "Any JSON."}


class MomentField(serializers.DateTimeField):
    """ISO 8601 in UTC, whatever the project's settings say."""

    def __init__(self, **options: Any) -> None:
        super().__init__(format=ISO_8601, default_timezone=UTC, **options)


class _Rows(serializers.ModelSerializer[Any]):
    serializer_field_mapping = {
        **serializers.ModelSerializer.serializer_field_mapping,
        DateTimeField: MomentField,
    }

    hideable: ClassVar[tuple[str, ...]] = ()

    @property
    def reader(self) -> Reader:
        reader: Reader = self.context["reader"]
        return reader

    def to_representation(self, instance: Any) -> dict[str, Any]:
        shown: dict[str, Any] = super().to_representation(instance)
        shown["hidden"] = [] if self.reader.reads else self._hide(shown, self.hideable)
        return shown

    def _hide(self, shown: dict[str, Any], names: Iterable[str]) -> list[str]:
        """Take away what the reader may not see; returns the names of what there was to hide."""
        hidden = []
        for name in names:
            if shown[name] not in (None, ""):
                hidden.append(name)
            shown[name] = None
        return hidden


HIDDEN = serializers.ListField(
    child=serializers.CharField(),
    read_only=True,
    help_text="Fields that are null because the permission `jobs.view_payload` is missing.",
)


class BlockerSerializer(serializers.Serializer[Blocker]):
    """A job that another one waits for."""

    id = serializers.UUIDField(source="job_id")
    type = serializers.CharField(help_text="Empty when the job no longer exists.")
    status = serializers.ChoiceField(choices=[*(each.value for each in Status), "purged"])
    kind = serializers.ChoiceField(
        choices=["completed", "ended"], help_text="What it waits for: success, or any end."
    )


class JobSummarySerializer(_Rows):
    """A job as lists show it."""

    state = serializers.SerializerMethodField()
    max_retries = serializers.IntegerField(source="max_attempts")
    parent = serializers.UUIDField(source="parent_id", allow_null=True)
    schedule = serializers.UUIDField(source="schedule_id", allow_null=True)
    recur_interval = serializers.SerializerMethodField()
    cron = serializers.SerializerMethodField()
    blocked_by = serializers.SerializerMethodField()
    last_error = serializers.CharField(
        allow_null=True, help_text="Lists show its beginning. Empty: none."
    )
    hold_reason = serializers.CharField(allow_null=True)
    hidden = HIDDEN

    hideable: ClassVar[tuple[str, ...]] = ("last_error", "hold_reason")

    class Meta:
        model = Job
        fields: ClassVar = [
            "id",
            "type",
            "queue",
            "status",
            "state",
            "priority",
            "attempt_count",
            "max_retries",
            "scheduled_at",
            "next_retry_at",
            "due_at",
            "hold_reason",
            "unmet_dependencies",
            "blocked_by",
            "on_parent_failure",
            "parent",
            "child_key",
            "wait_count",
            "snooze_count",
            "lost_count",
            "schedule",
            "schedule_slot",
            "recur_interval",
            "cron",
            "unique_key",
            "progress_done",
            "progress_total",
            "last_error",
            "error_fingerprint",
            "created_at",
            "updated_at",
            "started_at",
            "completed_at",
            "failed_at",
            "cancelled_at",
            "cancel_requested_at",
            "worker_id",
            "lease_epoch",
            "hidden",
        ]
        read_only_fields: ClassVar = fields

    @extend_schema_field(serializers.ChoiceField(choices=[each.value for each in State]))
    def get_state(self, job: Job) -> str:
        return job.state_at(self.context["now"]).value

    def get_recur_interval(self, job: Job) -> str | None:
        return self._rule(job)[0] or None

    def get_cron(self, job: Job) -> str | None:
        return self._rule(job)[1] or None

    @extend_schema_field(BlockerSerializer(many=True))
    def get_blocked_by(self, job: Job) -> Any:
        blockers = self.context["blockers"].get(str(job.id))
        return BlockerSerializer(blockers, many=True).data if blockers else []

    def _rule(self, job: Job) -> tuple[str, str]:
        rules: Mapping[Any, tuple[str, str]] = self.context["rules"]
        return rules.get(job.schedule_id, ("", ""))


class JobSerializer(JobSummarySerializer):
    """A job with all there is to know about it."""

    payload = serializers.SerializerMethodField()
    metadata = serializers.SerializerMethodField()
    result = serializers.SerializerMethodField()
    reasons = serializers.SerializerMethodField()

    hideable: ClassVar[tuple[str, ...]] = (
        *JobSummarySerializer.hideable,
        "payload",
        "metadata",
        "result",
    )

    class Meta(JobSummarySerializer.Meta):
        fields: ClassVar = [
            *JobSummarySerializer.Meta.fields[:-1],
            "payload",
            "metadata",
            "result",
            "reasons",
            "hidden",
        ]
        read_only_fields: ClassVar = fields

    @extend_schema_field(ANYTHING)
    def get_payload(self, job: Job) -> Any:
        return self._masked(job, job.payload)

    @extend_schema_field({"type": "object", "nullable": True, "additionalProperties": {}})
    def get_metadata(self, job: Job) -> Any:
        return self._masked(job, job.metadata)

    @extend_schema_field(ANYTHING)
    def get_result(self, job: Job) -> Any:
        return self._masked(job, job.result)

    @extend_schema_field(
        {
            "type": "array",
            "items": {"type": "string"},
            "description": "Why it is not running, most important first.",
        }
    )
    def get_reasons(self, job: Job) -> list[str]:
        found = why_not_running(DjangoDatabase(), job, self.context["now"])
        held = job.state_at(self.context["now"]) is State.HELD
        return ["held"] if held and not self.reader.reads else found

    def _masked(self, job: Job, value: Any) -> Any:
        # Who may not read it is told by `_hide`, which must know whether there is something.
        return self.reader.value(job.type, value) if self.reader.reads else value


class AttemptSerializer(_Rows):
    """One run of a job. The one that runs now has neither an outcome nor an end."""

    outcome = serializers.ChoiceField(choices=[each.value for each in Outcome], allow_null=True)
    finished_at = MomentField(allow_null=True)
    error = serializers.CharField(allow_null=True)
    traceback = serializers.CharField(allow_null=True)
    hidden = HIDDEN

    hideable: ClassVar[tuple[str, ...]] = ("error", "traceback")

    class Meta:
        model = Attempt
        fields: ClassVar = [
            "number",
            "lease_epoch",
            "worker_id",
            "started_at",
            "finished_at",
            "outcome",
            "error",
            "traceback",
            "hidden",
        ]
        read_only_fields: ClassVar = fields


class LogSerializer(_Rows):
    """A change of status, what a person did, or a line that a handler wrote."""

    message = serializers.CharField(allow_null=True)
    data = serializers.JSONField(allow_null=True)
    hidden = HIDDEN

    hideable: ClassVar[tuple[str, ...]] = ("message", "data")

    class Meta:
        model = JobLog
        fields: ClassVar = [
            "id",
            "at",
            "event",
            "from_status",
            "to_status",
            "attempt",
            "worker_id",
            "level",
            "message",
            "data",
            "hidden",
        ]
        read_only_fields: ClassVar = fields

    def _hide(self, shown: dict[str, Any], names: Iterable[str]) -> list[str]:
        return [] if shown["event"] in ACTIONS else super()._hide(shown, names)


def summaries(jobs: Sequence[Job], now: float, reader: Reader) -> list[dict[str, Any]]:
    """The rows of a list."""
    context = _context(jobs, now, reader, BLOCKERS_LISTED)
    return list(JobSummarySerializer(jobs, many=True, context=context).data)


def detail(job: Job, now: float, reader: Reader) -> dict[str, Any]:
    context = _context([job], now, reader, BLOCKERS_SHOWN)
    return dict(JobSerializer(job, context=context).data)


def _context(jobs: Sequence[Job], now: float, reader: Reader, blockers: int) -> dict[str, Any]:
    """What the rows need beside themselves, in one statement each, where any of them needs it."""
    database = DjangoDatabase()
    blocked = [str(job.id) for job in jobs if job.unmet_dependencies]
    schedules = {job.schedule_id for job in jobs if job.schedule_id is not None}
    rules = Schedule.objects.using(conf.get().database).filter(id__in=schedules)
    return {
        "now": now,
        "reader": reader,
        "blockers": blocked_by(database, blocked, most=blockers) if blocked else {},
        "rules": {id: rule for id, *rule in rules.values_list("id", "recur_interval", "cron")}
        if schedules
        else {},
    }


def running_attempt(job: Job) -> Attempt:
    """What runs now, shown from the job: its own row is written at its end."""
    attempt = Attempt(
        job_id=job.id,
        lease_epoch=job.lease_epoch,
        number=job.attempt_count,
        worker_id=job.worker_id,
    )
    now: Any = attempt
    now.started_at, now.finished_at, now.outcome = job.started_at, None, None
    return attempt


class IdsSerializer(serializers.Serializer[Any]):
    ids = serializers.ListField(
        child=serializers.UUIDField(), help_text="In the order of the request."
    )


class DeletedSerializer(serializers.Serializer[Any]):
    deleted = serializers.IntegerField()
