"""What web processes, workers and commands do, done by a process whose database role owns nothing."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from django.contrib.auth.models import Group, User
from django.core.management import call_command
from django.test import Client
from rest_framework.test import APIClient

from examples.geonames.models import City
from jobs import conf, enqueue, enqueue_many, lifecycle, pruning, retention, schedules, tokens
from jobs.database import DirectDatabase, direct_conninfo
from jobs.models import Job

MAIL = {"to": "reader@example.org", "subject": "Hello", "text": "Good morning."}


def everything() -> None:
    enqueue_and_act()
    ask_the_api()
    walk_through_the_console()
    command()
    tidy_up()


def enqueue_and_act() -> None:
    parent = enqueue("send_email", MAIL)
    enqueue("send_email", MAIL, depends_on=[parent])
    enqueue("send_email", MAIL, recur_interval="every_5_minutes")
    enqueue_many("send_email", [MAIL] * 300)
    dead = enqueue("send_email", MAIL)
    Job.objects.filter(id=dead.id).update(status="failed", due_at=None, failed_at=dead.created_at)
    lifecycle.retry(dead.id, by="boss")
    lifecycle.cancel(enqueue("send_email", MAIL).id, by="boss")
    schedules.create("nightly", "send_email", MAIL, cron="0 3 * * *")


def ask_the_api() -> None:
    user = User.objects.create_user("program")
    user.groups.add(Group.objects.get(name="Supervisor"))
    _, key = tokens.create(user, "test", by="boss")
    client = APIClient(headers={"Authorization": f"Token {key}"})
    job = {"type": "send_email", "payload": MAIL}
    keyed = {"Idempotency-Key": "once"}
    expect(client.post("/api/v1/jobs", job, format="json", headers=keyed), 201)
    expect(client.post("/api/v1/jobs", job, format="json", headers=keyed), 201)
    expect(client.post("/api/v1/jobs/bulk", {"jobs": [job] * 20}, format="json"), 201)
    paths = ("jobs", "jobs/stats", "jobs/dlq", "queues", "workers", "schedules", "bulk-operations")
    for path in paths:
        expect(client.get(f"/api/v1/{path}"), 200)
    expect(client.post("/api/v1/queues/mail/pause", {"reason": "test"}, format="json"), 200)
    expect(client.post("/api/v1/queues/mail/resume", {}, format="json"), 200)
    asked = {"action": "cancel", "filters": {"type": "send_email", "queue": "nowhere"}}
    expect(client.post("/api/v1/bulk-operations", asked, format="json"), 202)
    expect(client.delete("/api/v1/jobs/dlq"), 200)


def walk_through_the_console() -> None:
    User.objects.create_superuser("boss", password="correct horse battery")
    client = Client()
    expect(client.post("/admin/login/", {"username": "boss", "password": "wrong"}), 200)
    right = {"username": "boss", "password": "correct horse battery"}
    expect(client.post("/admin/login/", right), 302)
    for path in (
        "",
        "jobs/job/",
        "jobs/queue/",
        "jobs/worker/",
        "jobs/schedule/",
        "jobs/apitoken/",
    ):
        expect(client.get(f"/admin/{path}"), 200)


def command() -> None:
    with suppress(SystemExit):  # no worker is there: that is a finding
        call_command("jobs", "doctor")
    call_command("jobs", "stats")
    call_command("tokens", "list")
    place = {"country": "NO", "latitude": 59.9, "longitude": 10.7, "population": 1}
    City.objects.bulk_create(
        City(id=id, name=f"City {id}", time_zone="Europe/Oslo", **place) for id in range(1, 501)
    )
    call_command("rangejob", "start", "geonames.BackfillCells")


def tidy_up() -> None:
    database = DirectDatabase(direct_conninfo(), name="test")
    settings = conf.get()
    retention.run_pass(database, settings)
    pruning.prune(database, settings)


def expect(response: Any, status: int) -> None:
    assert response.status_code == status, (response.status_code, response.content[:2_000])
