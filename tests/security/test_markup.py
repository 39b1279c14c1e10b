"""Markup in whatever people, programs and handlers write is text, on every page."""

from __future__ import annotations

import pytest
from django.contrib.admin.models import ADDITION, LogEntry
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType
from django.test import Client

from jobs import tokens
from jobs.models import Attempt, AuditEntry, BulkOperation, Job, JobLog, Queue, Schedule, Worker
from ranges.models import RangeFailure, RangeRun
from tests.factories import ago
from tests.security.people import person
from tests.security.routes import NOWHERE, routes
from tests.security.rows import rows

SCRIPT = "<script>alert(1)</script>"
PICTURE = "\"'><img src=x onerror=alert(1)>"
MARKUP = f"{SCRIPT}{PICTURE}"


def fill(ids: dict[str, str]) -> None:
    """The markup in every column that takes it."""
    short = MARKUP[:60]
    Job.objects.filter(pk=ids["jobs/job"]).update(
        type=MARKUP,
        queue=short,
        payload={MARKUP: [MARKUP]},
        metadata={MARKUP: MARKUP},
        result={MARKUP: MARKUP},
        last_error=MARKUP,
        hold_reason=MARKUP,
        unique_key=MARKUP,
        child_key=MARKUP,
        worker_id=ids["jobs/worker"],
        schedule_id=ids["jobs/schedule"],
    )
    job = Job.objects.get(pk=ids["jobs/job"])
    Attempt.objects.create(
        job=job,
        lease_epoch=1,
        number=1,
        started_at=ago(minutes=1),
        outcome="failed",
        error=MARKUP,
        traceback=MARKUP,
        worker_id=ids["jobs/worker"],
    )
    JobLog.objects.create(
        job=job, event="log", attempt=1, level="info", message=MARKUP, data={MARKUP: MARKUP}
    )
    Queue.objects.filter(pk=ids["jobs/queue"]).update(reason=MARKUP, changed_by=MARKUP)
    Schedule.objects.filter(pk=ids["jobs/schedule"]).update(
        name=MARKUP, type=MARKUP, payload={MARKUP: MARKUP}, metadata={}, last_error=MARKUP
    )
    Worker.objects.filter(pk=ids["jobs/worker"]).update(
        name=MARKUP, host=MARKUP, queues=[MARKUP], types=[MARKUP]
    )
    RangeRun.objects.filter(pk=ids["ranges/rangerun"]).update(
        name=MARKUP, reason=MARKUP, params={MARKUP: MARKUP}, metadata={MARKUP: MARKUP}
    )
    RangeFailure.objects.filter(pk=ids["ranges/rangefailure"]).update(
        key=f'"{MARKUP}"', error=MARKUP, traceback=MARKUP, reason=MARKUP
    )
    AuditEntry.objects.create(
        actor=MARKUP, action="job.retry", scope=MARKUP, object_id=str(job.pk), reason=MARKUP
    )
    BulkOperation.objects.create(
        action="retry", filters={"type": MARKUP}, before=ago(), reason=MARKUP, created_by=MARKUP,
        error=MARKUP, failures=[{"id": str(job.pk), "error": MARKUP}],
    )  # fmt: skip
    owner = User.objects.get(username="owner")
    User.objects.filter(pk=owner.pk).update(first_name=MARKUP[:150], username=MARKUP)
    tokens.create(owner, MARKUP)
    for model, name in ((Job, "jobs/job"), (Queue, "jobs/queue"), (RangeRun, "ranges/rangerun")):
        LogEntry.objects.create(
            user=owner,
            content_type=ContentType.objects.get_for_model(model),
            object_id=ids[name],
            object_repr=MARKUP,
            action_flag=ADDITION,
            change_message=MARKUP,
        )


@pytest.mark.django_db
def test_no_page_of_the_console_or_the_browsable_api_has_it_as_markup() -> None:
    ids = rows()
    fill(ids)
    client = Client(headers={"Accept": "text/html"})
    client.force_login(person(superuser=True))
    api = {
        "jobs": ids["jobs/job"],
        "schedules": ids["jobs/schedule"],
        "queues": ids["jobs/queue"],
        "workers": ids["jobs/worker"],
        "ranges": ids["ranges/rangerun"],
    }
    seen = 0
    for route in routes():
        parts = route.pattern.split("/")
        model = "/".join(parts[1:3])
        id = ids.get(model) if parts[0] == "admin" else api.get(parts[2] if parts[2:] else "")
        path = route.path.replace(NOWHERE, id or NOWHERE).replace("nowhere", id or "nowhere")
        for query in ("", "?status=failed", f"?q={MARKUP}&type={MARKUP}&queue={MARKUP}"):
            if query and "<" in route.pattern:
                continue
            response = client.get(path + query)
            if response.status_code == 501 or not response["Content-Type"].startswith("text/html"):
                continue
            text = response.content.decode()
            assert SCRIPT not in text, path + query
            assert "<img src=x" not in text, path + query
            seen += "&lt;script&gt;alert(1)" in text or "\\u003Cscript" in text
    assert seen > 25
