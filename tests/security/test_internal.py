"""Jobs that Coppice makes for itself are not made, marked or rewritten from outside."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from rest_framework.test import APIClient

from jobs import lifecycle
from jobs.admin.page import acting
from jobs.bulk.operating import TYPE
from jobs.errors import Conflict, InvalidInput
from jobs.matching import INTERNAL
from jobs.models import Job, Schedule
from ranges.run_jobs import LANE_TYPE, RUN_TYPE
from tests.factories import make_job, make_schedule
from tests.security.people import person

pytestmark = pytest.mark.django_db

OWN = (TYPE, RUN_TYPE, LANE_TYPE)
EMAIL = {"to": "a@example.org", "subject": "s", "text": "t"}
MARKED = {"type": "send_email", "payload": EMAIL, "metadata": {"internal": True}}


@pytest.fixture
def client() -> APIClient:
    client = APIClient()
    client.force_authenticate(person(superuser=True))
    return client


@pytest.mark.parametrize(
    ("job", "field"), [*(({"type": type}, "type") for type in OWN), (MARKED, "metadata")]
)
def test_nobody_asks_for_one_over_http(client: APIClient, job: dict[str, Any], field: str) -> None:
    schedule = make_schedule(type="send_email", payload=EMAIL)
    answers = [
        client.post("/api/v1/jobs", job, format="json"),
        client.post("/api/v1/jobs", {**job, "recur_interval": "every_1_hour"}, format="json"),
        client.post("/api/v1/schedules", {"name": "n", "cron": "@daily", **job}, format="json"),
        client.patch(f"/api/v1/schedules/{schedule.id}", job, format="json"),
    ]
    assert [(answer.status_code, list(answer.json())) for answer in answers] == [(400, [field])] * 4
    many = client.post("/api/v1/jobs/bulk", {"jobs": [job]}, format="json")
    assert (many.status_code, list(many.json()["jobs"]["0"])) == (400, [field])
    assert not Job.objects.exists()
    assert list(Schedule.objects.values_list("type", flat=True)) == ["send_email"]


def test_the_word_alone_is_anybodys(client: APIClient) -> None:
    for value in (False, 1, "true", {"internal": True}):
        job = {**MARKED, "metadata": {"internal": value}}
        assert client.post("/api/v1/jobs", job, format="json").status_code == 201


@pytest.mark.parametrize("type", OWN)
def test_nobody_asks_for_one_by_command_or_copies_one(type: str) -> None:
    with pytest.raises(CommandError, match="Coppice's own"):
        call_command("enqueue", type, stdout=StringIO())
    job = make_job("dead", type=type, metadata=INTERNAL)
    with pytest.raises(InvalidInput, match="Coppice's own"):
        acting.copy(job)
    assert Job.objects.count() == 1


@pytest.mark.parametrize("type", OWN)
def test_nobody_tells_one_to_work_on_something_else(type: str) -> None:
    job = make_job("dead", type=type, payload={"operation": "1"}, metadata=INTERNAL)
    with pytest.raises(Conflict, match="made for itself"):
        lifecycle.edit_payload(job.id, {"operation": "2"})
    job.refresh_from_db()
    assert job.payload == {"operation": "1"}


def test_nobody_makes_or_marks_one_in_the_console() -> None:
    client = Client()
    client.force_login(person(superuser=True))

    def send(type: str, metadata: str) -> int:
        page = client.get("/admin/jobs/job/add/?type=send_email").content.decode()
        token = page.partition('name="token" value="')[2].partition('"')[0]
        form = {"type": type, "mode": "json", "payload": json.dumps(EMAIL), "token": token}
        form |= {"start": "now", "recurs": "once", "step": "create", "metadata": metadata}
        return client.post("/admin/jobs/job/add/", form).status_code

    assert [send(type, "") for type in OWN] == [422] * 3
    assert send("send_email", '{"internal": true}') == 422
    assert not Job.objects.exists()
    assert send("send_email", '{"internal": false}') == 302


@pytest.mark.parametrize("type", OWN)
def test_no_schedule_of_the_console_makes_one(type: str) -> None:
    client = Client()
    client.force_login(person(superuser=True))
    form = {"name": "n", "type": type, "payload": "{}", "how": "cron", "cron": "@daily"}
    answer = client.post("/admin/jobs/schedule/add/", {**form, "action": "save"})
    assert answer.status_code == 422
    assert "such jobs make themselves" in answer.content.decode()
    assert not Schedule.objects.exists()
