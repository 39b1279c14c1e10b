"""What requests about runs say, and what answers show of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import structlog
from django.db import InterfaceError, OperationalError
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from jobs.api.job.output import ANYTHING, HIDDEN, MomentField
from jobs.api.operating.asking import Body, GivenMomentField
from jobs.errors import Conflict, CoppiceError, InvalidInput, NotFound, TooBroad
from jobs.masking import Reader
from ranges import declaring
from ranges.declaring import RangeJob
from ranges.facts import facts, why_idle
from ranges.models import RangeRun
from ranges.progress import Progress
from ranges.sources import ProbeTimeout
from ranges.states import NodeState, RunStatus

PRIVATE = ("params", "metadata")
STATUSES = [status.value for status in RunStatus]
NODE_STATES = [state.value for state in NodeState]
KEY = {
    "oneOf": [{"type": "string"}, {"type": "integer", "format": "int64"}],
    "nullable": True,
    "description": (
        "A key: a number (text beyond 2^53), or text (ISO 8601, a UUID, a decimal number)."
    ),
}
NUMBER = {
    "oneOf": [{"type": "integer", "format": "int64"}, {"type": "string"}],
    "description": "Keys; text beyond 2^53.",
}

_log = structlog.get_logger("coppice.api")


@extend_schema_field(KEY)
class KeyField(serializers.Field[Any, Any, Any, Any]):
    def to_representation(self, value: Any) -> Any:
        return value


@extend_schema_field(NUMBER)
class NumberField(serializers.Field[Any, Any, Any, Any]):
    def to_representation(self, value: Any) -> Any:
        return value


class RangeProgressSerializer(serializers.Serializer[Any]):
    """How far a run is. Keys are the width of the range, as text; rows are what the work counted."""

    line = serializers.CharField(help_text="All of it in a sentence.")
    percent = serializers.FloatField(help_text="100 exactly when nothing is left.")
    total = serializers.CharField(allow_null=True, help_text="Keys; null: they have no width.")
    processed = serializers.CharField(allow_null=True)
    skipped = serializers.CharField(allow_null=True)
    failed = serializers.CharField(allow_null=True)
    left = serializers.CharField(allow_null=True)
    rows = serializers.IntegerField()
    rows_failed = serializers.IntegerField()
    rows_left = serializers.IntegerField(allow_null=True, help_text="An estimate.")
    leaves = serializers.IntegerField()
    attempts = serializers.IntegerField()
    retries = serializers.IntegerField()
    fenced = serializers.IntegerField(help_text="Commits that came too late and were rolled back.")
    nodes = serializers.DictField(child=serializers.IntegerField(), help_text="By their state.")
    lanes = serializers.IntegerField(help_text="Strands at work now.")
    open_failures = serializers.IntegerField()
    mean_seconds = serializers.FloatField(allow_null=True, help_text="Of a leaf.")
    p50_seconds = serializers.FloatField(allow_null=True)
    p95_seconds = serializers.FloatField(allow_null=True)
    p99_seconds = serializers.FloatField(allow_null=True)
    active_seconds = serializers.FloatField(help_text="Without pauses.")
    busy_seconds = serializers.FloatField(help_text="Of all lanes together.")
    rows_per_second = serializers.FloatField(allow_null=True, help_text="Lately.")
    keys_per_second = serializers.FloatField(allow_null=True)
    eta_seconds = serializers.ListField(
        child=serializers.FloatField(),
        allow_null=True,
        help_text="Likely, and if it goes as slowly as it did lately for a tenth of the time.",
    )
    prune_errors = serializers.IntegerField(
        help_text="Errors of `should_process`; nothing was skipped."
    )
    probe_timeouts = serializers.IntegerField()


class RangeRunLineSerializer(serializers.Serializer[Any]):
    """A run in a list."""

    id = serializers.UUIDField()
    job_id = serializers.UUIDField(allow_null=True, help_text="The job that drives it.")
    name = serializers.CharField(help_text="The range job.")
    status = serializers.ChoiceField(choices=STATUSES)
    reason = serializers.CharField(help_text="Why it has paused or ended so.")
    lo = KeyField(allow_null=True)
    hi = KeyField(allow_null=True, help_text="Exclusive; null: to the last key, or not known yet.")
    priority = serializers.IntegerField()
    queue = serializers.CharField()
    concurrency = serializers.IntegerField()
    leaf = serializers.DictField(help_text="The size of leaves.")
    max_depth = serializers.IntegerField(allow_null=True)
    max_attempts = serializers.IntegerField()
    failure_threshold = serializers.FloatField(allow_null=True, help_text="Per cent.")
    atomic = serializers.BooleanField()
    probing = serializers.CharField(help_text="How finished work is passed over.")
    created_at = MomentField()
    started_at = MomentField(allow_null=True)
    finished_at = MomentField(allow_null=True)
    progress = RangeProgressSerializer()


class RangeRunSerializer(RangeRunLineSerializer):
    """A run with all there is to know about it."""

    params = extend_schema_field({"type": "object", "nullable": True, "additionalProperties": {}})(
        serializers.JSONField()
    )
    metadata = extend_schema_field(
        {"type": "object", "nullable": True, "additionalProperties": {}}
    )(serializers.JSONField())
    reasons = serializers.ListField(
        child=serializers.CharField(), help_text="Why a running run is not at work."
    )
    verdict = extend_schema_field({**ANYTHING, "nullable": True})(serializers.JSONField())
    hidden = HIDDEN


@extend_schema_field(KEY)
class GivenKeyField(serializers.Field[Any, Any, Any, Any]):
    """A key as the job's type reads it."""


class RangePlanBody(Body):
    job = serializers.CharField(help_text="A range job by name: `app_label.ClassName`.")
    start = GivenKeyField(required=False, allow_null=True, help_text="Else the first key.")
    end = GivenKeyField(
        required=False, allow_null=True, help_text="To stop before; else behind the last key."
    )
    max_range_size = serializers.IntegerField(
        required=False,
        allow_null=True,
        min_value=1,
        help_text="Rows of a leaf, or keys of a plain range.",
    )
    concurrency = serializers.IntegerField(
        required=False, allow_null=True, min_value=1, max_value=1_000
    )
    max_depth = serializers.IntegerField(
        required=False, allow_null=True, min_value=0, max_value=200
    )
    failure_threshold = serializers.FloatField(
        required=False,
        allow_null=True,
        min_value=0,
        max_value=100,
        help_text="Per cent of what was attempted; null: none.",
    )


class NewRangeRunBody(RangePlanBody):
    params = serializers.DictField(required=False, help_text="What `process` finds in its context.")
    metadata = serializers.DictField(required=False)
    priority = serializers.IntegerField(required=False, min_value=1, max_value=3)
    queue = serializers.CharField(required=False, max_length=60)
    scheduled_at = GivenMomentField(
        required=False,
        allow_null=True,
        help_text="When to begin, once it is started; not more than 60 s ago.",
    )
    depends_on = serializers.ListField(
        child=serializers.UUIDField(),
        required=False,
        help_text="Jobs that must be completed before it begins.",
    )
    start_now = serializers.BooleanField(required=False, help_text="False unless given.")


def shown(run: RangeRun, known: Progress, reader: Reader) -> dict[str, Any]:
    """A run with everything."""
    found = line(run, known)
    found |= {
        "params": reader.value(run.name, run.params),
        "metadata": reader.value(run.name, run.metadata),
        "reasons": why_idle(run, known),
        "verdict": run.verdict,
        "hidden": [],
    }
    if not reader.reads:
        found["hidden"] = [name for name in PRIVATE if getattr(run, name)]
    return found


def line(run: RangeRun, known: Progress) -> dict[str, Any]:
    """A run as lists show it."""
    progress = known.as_json()
    for name in ("run_id", "job", "status", "reason"):
        progress.pop(name)
    return facts(run) | {"progress": progress}


def job_class(name: str) -> type[RangeJob]:
    """The range job of a name. Raises InvalidInput."""
    found = declaring.find(name)
    if found is None:
        raise InvalidInput("is not the name of a range job", field="job")
    return found


@contextmanager
def its_code(name: str) -> Iterator[None]:
    """What a range job's own code raises is no fault of the request, and none of ours."""
    try:
        yield
    except ProbeTimeout:
        raise TooBroad(
            "took too long to read: no index tells where keys are", field="job"
        ) from None
    except (InvalidInput, NotFound, Conflict, OperationalError, InterfaceError):
        raise
    except CoppiceError as error:
        raise Conflict(str(error)) from error
    except Exception as error:
        _log.exception("range_job.failed", job=name)
        raise Conflict(f"the range job {name} failed with {type(error).__name__}") from error
