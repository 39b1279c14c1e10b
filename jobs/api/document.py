"""What the API's document says about itself. Pure: the project's settings take it from here."""

from __future__ import annotations

from typing import Any

from jobs.states import OnParentFailure, Outcome, State, Status

DESCRIPTION = """\
Jobs, dead letters, schedules, queues, workers and range runs.

Sign in with `Authorization: Token coppice_...`, or from a browser with a session; then every
request that changes something carries a CSRF token.

Times are ISO 8601 with an offset; requests may also give Unix milliseconds. Lists come in pages:
follow `next`. Errors are `{"detail": "..."}`, or `{"<field>": ["..."]}` where a field is wrong.
"""

SETTINGS: dict[str, Any] = {
    "TITLE": "Coppice",
    "DESCRIPTION": DESCRIPTION,
    "VERSION": "1",
    "SCHEMA_PATH_PREFIX": "/api/v[0-9]+",
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "REDOC_DIST": "SIDECAR",
    "ENUM_NAME_OVERRIDES": {
        "JobStatus": [each.value for each in Status],
        "JobState": [each.value for each in State],
        "BlockerStatus": [*(each.value for each in Status), "purged"],
        "WorkerState": ["running", "draining", "stale", "stopped", "dead"],
        "AttemptOutcome": [each.value for each in Outcome],
        "OnParentFailure": [each.value for each in OnParentFailure],
        "BulkAction": ["retry", "purge", "cancel", "run_now", "change_priority", "move_queue"],
        "BulkStatus": ["pending", "running", "paused", "completed", "aborted", "failed"],
        # Those of `ranges`, which nothing here may import.
        "RangeRunStatus": [
            "created",
            "running",
            "paused",
            "completed",
            "partially_failed",
            "failed",
            "cancelled",
        ],
        "RangeNodeState": ["pending", "running", "done", "skipped", "error"],
        "RangeFailureState": ["open", "retried", "waived"],
    },
}
