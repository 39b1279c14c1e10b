"""Requests and answers as the document shows them."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiExample, OpenApiResponse

from jobs.api.job.output import DeletedSerializer

JOB_ID = "0199a1f0-7c3e-7b52-9d1c-3f6f0a4b8e21"
WORKER_ID = "0199a1e8-02aa-7c10-b7f3-5d0c9e8a4b16"

SUMMARY: dict[str, Any] = {
    "id": JOB_ID,
    "type": "send_email",
    "queue": "mail",
    "status": "failed",
    "state": "dead",
    "priority": 1,
    "attempt_count": 5,
    "max_retries": 5,
    "scheduled_at": "2026-03-01T08:00:00Z",
    "next_retry_at": None,
    "due_at": "2026-03-01T08:02:36.108220Z",
    "hold_reason": "",
    "unmet_dependencies": 0,
    "blocked_by": [],
    "on_parent_failure": "wait",
    "parent": None,
    "child_key": None,
    "wait_count": 0,
    "snooze_count": 0,
    "lost_count": 0,
    "schedule": None,
    "schedule_slot": None,
    "recur_interval": None,
    "cron": None,
    "unique_key": None,
    "progress_done": None,
    "progress_total": None,
    "last_error": "MailNotSent: the mail server did not let us in: 421",
    "error_fingerprint": "9d5ed678fe57bcca",
    "created_at": "2026-03-01T07:59:58.204113Z",
    "updated_at": "2026-03-01T08:02:36.540007Z",
    "started_at": "2026-03-01T08:02:36.112040Z",
    "completed_at": None,
    "failed_at": "2026-03-01T08:02:36.540007Z",
    "cancelled_at": None,
    "cancel_requested_at": None,
    "worker_id": WORKER_ID,
    "lease_epoch": 5,
    "hidden": [],
}


def _answer(name: str, value: Any, *codes: str) -> OpenApiExample:
    return OpenApiExample(name, value=value, response_only=True, status_codes=codes or ("200",))


def _request(name: str, value: Any) -> OpenApiExample:
    return OpenApiExample(name, value=value, request_only=True)


PAGE = _answer("A dead letter, as lists show it", SUMMARY)
JOB = _answer(
    "A dead letter",
    {
        **SUMMARY,
        "payload": {"to": "••••••", "subject": "••••••", "text": "••••••"},
        "metadata": {"order": 1207},
        "result": None,
        "reasons": [],
    },
)
NEW_JOB = _request(
    "Every five minutes from a given time on",
    {
        "type": "send_email",
        "payload": {"to": "reader@example.org", "subject": "Hello", "text": "Good morning."},
        "priority": 1,
        "scheduled_at": "2030-03-01T08:00:00Z",
        "recur_interval": "every_5_minutes",
    },
)
NEW_JOBS = _request(
    "Two jobs, of which the second waits for the first",
    {
        "jobs": [
            {"type": "import_orders", "payload": {"day": "2026-03-01"}, "key": "import"},
            {"type": "send_report", "payload": {"day": "2026-03-01"}, "depends_on": ["import"]},
        ]
    },
)
CHANGES = _request("Sooner, and in another queue", {"priority": 1, "queue": "urgent"})
STATS = _answer(
    "A large table",
    {
        "pending": 312,
        "processing": 16,
        "completed": 4_812_000,
        "failed": 41,
        "cancelled": 7,
        "dlq": 41,
        "total": 4_812_376,
        "estimated": ["completed", "total"],
    },
)
ATTEMPT = _answer(
    "An attempt that failed",
    {
        "number": 5,
        "lease_epoch": 5,
        "worker_id": WORKER_ID,
        "started_at": "2026-03-01T08:02:36.112040Z",
        "finished_at": "2026-03-01T08:02:36.540007Z",
        "outcome": "failed",
        "error": "MailNotSent: the mail server did not let us in: 421",
        "traceback": "Traceback (most recent call last): ...",
        "hidden": [],
    },
)
LOG = _answer(
    "Its end",
    {
        "id": 90_211,
        "at": "2026-03-01T08:02:36.540007Z",
        "event": "dead_lettered",
        "from_status": "processing",
        "to_status": "failed",
        "attempt": 5,
        "worker_id": WORKER_ID,
        "level": "info",
        "message": "MailNotSent: the mail server did not let us in: 421",
        "data": None,
        "hidden": [],
    },
)

EMPTIED = {
    200: OpenApiResponse(DeletedSerializer, description="So many are gone."),
    202: OpenApiResponse(
        {"type": "object", "additionalProperties": {}},
        description="There are more than 10,000: the bulk operation that deletes them.",
    ),
}
