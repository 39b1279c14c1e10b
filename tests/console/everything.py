"""A row of each kind in each state that pages tell apart, so that every page has all that it can show."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User

from jobs import bulk, tokens
from jobs.filtering import Filters
from jobs.models import (
    AlertRecipient,
    AuditEntry,
    BulkOperation,
    Job,
    Queue,
    Schedule,
    Webhook,
    WebhookDelivery,
    Worker,
)
from jobs.states import Status
from ranges.models import RangeFailure, RangeRun
from tests.console.run_scenery import failed, make_node, make_run
from tests.factories import (
    ago,
    make_edge,
    make_history,
    make_job,
    make_queue,
    make_schedule,
    make_worker,
)

SCRIPT = "<script>alert(1)</script>"
PICTURE = "\"'><img src=x onerror=alert(1)>"
MARKUP = f"{SCRIPT}{PICTURE}"

TYPE = "geonames.find_city"
STATES = ("scheduled", "retrying", "held", "processing", "completed", "cancelled")
RUNS = ("created", "running", "paused", "completed", "partially_failed", "cancelled")
OPERATIONS = ("pending", "running", "paused", "completed")


def everything() -> dict[str, str]:
    """Fill an empty database. Returns a key for each model, "app/model", as addresses have them."""
    worker = make_worker(name="host:7", beat_at=ago(minutes=-30))  # alive all the time
    silent = make_worker(name="host:8", beat_at=ago(minutes=5))
    schedule = make_schedule(name="nightly", type=TYPE, next_slot=ago(minutes=-5))
    make_schedule(name="weekly", type=TYPE, enabled=False)
    make_queue(name="mail", paused=True, reason="the mover", changed_by="anna")
    for trait in STATES:
        own = {"worker_id": worker.id} if trait == "processing" else {}
        make_job(trait, type=TYPE, **own)
    make_job("processing", type=TYPE, worker_id=silent.id, cancel_requested_at=ago(minutes=2))
    ready, mailed = make_job(type=TYPE), make_job(type=TYPE, queue="mail")
    make_edge(make_job(type=TYPE), ready)
    dead = make_job(
        "dead",
        type=TYPE,
        payload={"name": "Nowhere", "more": [1, None, True]},
        metadata={"big": 2**70},
        worker_id=worker.id,
        schedule=schedule,
        schedule_slot=ago(hours=1),
    )
    make_history(dead, attempts=2, error="ValueError: bad")
    make_edge(make_job(type=TYPE), dead)
    make_edge(dead, mailed, state="satisfied")
    run, failure = _runs()
    operation = _operations(dead)
    webhook = _alerts()
    AuditEntry.objects.create(
        actor="anna", action="job.retry", scope="one job", object_id=str(dead.id), reason="again"
    )
    owner, _ = User.objects.get_or_create(username="owner", is_superuser=True)
    token, _ = tokens.create(owner, "of the owner")
    return {
        "jobs/apitoken": str(token.pk),
        "jobs/bulkoperation": str(operation.id),
        "jobs/job": str(dead.id),
        "jobs/queue": "mail",
        "jobs/schedule": str(schedule.id),
        "jobs/webhook": str(webhook.id),
        "jobs/worker": str(worker.id),
        "ranges/rangefailure": str(failure.id),
        "ranges/rangerun": str(run.id),
    }


def _runs() -> tuple[RangeRun, RangeFailure]:
    made: dict[str, RangeRun] = {}
    for status in RUNS:
        run = made[status] = make_run(lo=0, hi=1_000, status=status)
        if status != "created":
            make_node(run, 0, 600, (200, "processed"), (300, "skipped"))
            make_node(run, 601, 1_000)
    failures = [failed(made[status], 600) for status in ("running", "partially_failed")]
    return made["running"], failures[0]


def _operations(dead: Job) -> BulkOperation:
    made: dict[str, Any] = {}
    for status in OPERATIONS:
        made[status] = bulk.create("retry", Filters(status=Status.FAILED), by="anna", reason="why")
        BulkOperation.objects.filter(id=made[status].id).update(status=status)
    BulkOperation.objects.filter(id=made["running"].id).update(
        skipped=1,
        skipped_reasons={"no longer dead": 1},
        failed=1,
        failures=[{"id": str(dead.id), "error": "DataError: too long"}],
    )
    found: BulkOperation = bulk.get(made["running"].id)
    return found


def _alerts() -> Webhook:
    url = "https://127.0.0.1:9/hook"
    webhook = Webhook.objects.create(name="ops", url=url, secret="s", events=["alert.*"])
    Webhook.objects.create(name="off", url=url, secret="s", events=["alert.*"], enabled=False)
    WebhookDelivery.objects.create(
        webhook=webhook,
        event="alert.dead_letters",
        body='{"facts": {}}',
        status="failed",
        response="no",
    )
    AlertRecipient.objects.create(address="ops@example.org", events=["alert.*"])
    return webhook


def with_markup(ids: dict[str, str]) -> None:
    """The markup in every column that takes a text, of every row."""
    short = MARKUP[:60]
    Job.objects.update(
        type=MARKUP,
        queue=short,
        payload={MARKUP: [MARKUP]},
        metadata={MARKUP: MARKUP},
        last_error=MARKUP,
        error_fingerprint=MARKUP[:32],
    )
    Job.objects.exclude(status__in=[Status.PENDING, Status.PROCESSING]).update(
        result={MARKUP: MARKUP}
    )
    Job.objects.filter(due_at=None, status=Status.PENDING, unmet_dependencies=0).update(
        hold_reason=MARKUP
    )
    one = Job.objects.get(id=ids["jobs/job"])
    Job.objects.filter(id=one.id).update(unique_key=MARKUP, child_key=MARKUP)
    one.attempts.update(error=MARKUP, traceback=MARKUP, worker_id=ids["jobs/worker"])
    one.logs.update(message=MARKUP, data={MARKUP: MARKUP})
    one.logs.create(event="log", attempt=1, level=short[:8], message=MARKUP, data={MARKUP: MARKUP})
    Queue.objects.update(reason=MARKUP, changed_by=MARKUP)
    Schedule.objects.update(
        type=MARKUP, payload={MARKUP: MARKUP}, metadata={MARKUP: MARKUP}, last_error=MARKUP
    )
    Schedule.objects.filter(id=ids["jobs/schedule"]).update(name=MARKUP, queue=short)
    Worker.objects.update(
        name=MARKUP, host=MARKUP, queues=[short], types=[MARKUP], version=MARKUP[:40]
    )
    RangeRun.objects.update(
        name=MARKUP, reason=MARKUP, params={MARKUP: MARKUP}, metadata={MARKUP: MARKUP}, queue=short
    )
    RangeFailure.objects.update(
        key=f'"{MARKUP}"', error=MARKUP, traceback=MARKUP, reason=MARKUP, resolved_by=MARKUP
    )
    AuditEntry.objects.update(actor=MARKUP, scope=MARKUP, reason=MARKUP, data={MARKUP: MARKUP})
    BulkOperation.objects.update(
        filters={"type": MARKUP}, reason=MARKUP, created_by=MARKUP, error=MARKUP,
        skipped_reasons={MARKUP: 1}, failures=[{"id": str(one.id), "error": MARKUP}],
    )  # fmt: skip
    Webhook.objects.update(
        name=MARKUP, url=f"https://x/{MARKUP}", events=[MARKUP], created_by=MARKUP
    )
    WebhookDelivery.objects.update(
        event=short, body=MARKUP, response=MARKUP, error=MARKUP, status="failed"
    )
    AlertRecipient.objects.update(address=f"{MARKUP}@x", events=[MARKUP], created_by=MARKUP)
    User.objects.filter(username=MARKUP).delete()
    owner = User.objects.get(username="owner")
    User.objects.filter(pk=owner.pk).update(first_name=MARKUP[:150], username=MARKUP)
    tokens.create(owner, MARKUP)
