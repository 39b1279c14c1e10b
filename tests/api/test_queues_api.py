"""`/api/v1/queues`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from jobs import queues
from jobs.models import AuditEntry, Job, Queue, Rollup
from jobs.registry import QUEUE_NAME
from tests.api import hostile
from tests.api.conftest import Api
from tests.factories import ago, make_job, make_queue, make_worker
from tests.plans import explain, rows_read, scans

pytestmark = pytest.mark.django_db

URL = "/api/v1/queues"


def ended(queue: str, outcome: str, count: int, *, minutes: int = 0) -> None:
    minute = timezone.now().replace(second=0, microsecond=0) - timedelta(minutes=minutes)
    Rollup.objects.create(
        minute=minute, queue=queue, type="test", outcome=outcome, jobs=count,
        wait_seconds=0, run_seconds=0,
    )  # fmt: skip


def names(client: Any) -> list[str]:
    return [row["name"] for row in client.get(URL + "?limit=50").json()["results"]]


def test_a_queue_says_how_deep_how_late_and_how_fast_it_is(api: Api) -> None:
    for _ in range(3):
        make_job(queue="mail", due_at=ago(seconds=90))
    make_job(queue="mail", type="other", priority=1, due_at=ago(seconds=300))
    make_job("scheduled", queue="mail")
    make_job("retrying", queue="mail")
    worker = make_worker()
    make_job("processing", queue="mail", worker_id=worker.id)
    make_worker(queues=["images"])
    make_worker(queues=["mail"], beat_at=ago(minutes=5))
    ended("mail", "succeeded", 30)
    ended("mail", "timed_out", 2)

    found = api("Viewer").get(f"{URL}/mail").json()
    assert (found["depth"], found["depth_is_capped"]) == (4, False)
    assert (found["later"], found["running"], found["workers"]) == (2, 1, 1)
    assert 300 <= found["oldest_wait_seconds"] < 330
    assert (found["completed_per_minute"], found["failed_per_minute"]) == (30.0, 2.0)
    assert (found["paused"], found["reason"], found["changed_at"]) == (False, "", None)


def test_the_rate_is_that_of_the_last_sixty_seconds(api: Api) -> None:
    ended("mail", "succeeded", 60, minutes=1)
    ended("mail", "succeeded", 600, minutes=2)
    ended("mail", "snoozed", 500)
    rate = api("Viewer").get(f"{URL}/mail").json()["completed_per_minute"]
    # Of the last minute as much as this one has not had yet.
    assert 0 <= rate <= 60
    now = datetime.now(UTC)
    if now.second < 50:
        assert rate > 0


def test_the_list_has_each_queue_that_anything_is_known_of_by_name(api: Api) -> None:
    make_job(queue="due")
    make_job("scheduled", queue="later")
    make_job("processing", queue="busy")
    make_job("completed", queue="done")
    make_queue(name="paused", paused=True)
    make_queue(name="was.paused", paused=False)
    make_worker(queues=["served"])
    make_worker(queues=["long.gone"], state="dead")
    ended("lately", "succeeded", 1, minutes=30)
    ended("yesterday", "succeeded", 1, minutes=24 * 60)
    client = api("Viewer")
    assert sorted(names(client)) == ["busy", "due", "lately", "later", "paused", "served"]
    for name in ("due", "paused", "was.paused", "served", "lately"):
        assert client.get(f"{URL}/{name}").status_code == 200
    for name in ("done", "yesterday", "long.gone", "nobody"):
        assert client.get(f"{URL}/{name}").status_code == 404


def test_a_walk_through_many_queues_meets_each_once(api: Api) -> None:
    Job.objects.bulk_create(Job(type="test", queue=f"q{n:03}") for n in range(60))
    client = api("Viewer")
    seen: list[str] = []
    url: str | None = f"{URL}?limit=13"
    while url:
        page = client.get(url).json()
        seen += [row["name"] for row in page["results"]]
        assert all(row["depth"] == 1 for row in page["results"])
        url = page["next"]
    assert seen == [f"q{n:03}" for n in range(60)]


def test_pause_and_resume_are_stored_with_who_and_why_and_audited(api: Api) -> None:
    client = api("Operator")
    answer = client.post(f"{URL}/mail/pause", {"reason": "provider down"}, format="json")
    assert answer.status_code == 200
    found = answer.json()
    who = client.user.get_username()
    assert (found["paused"], found["reason"], found["changed_by"]) == (True, "provider down", who)
    assert found["changed_at"] is not None

    # The first reason stays, whoever asks again.
    again = api("Operator").post(f"{URL}/mail/pause", {"reason": "me too"}, format="json").json()
    assert (again["reason"], again["changed_by"]) == ("provider down", who)

    resumed = client.post(f"{URL}/mail/resume").json()
    assert (resumed["paused"], resumed["reason"]) == (False, "")
    assert client.post(f"{URL}/mail/resume").status_code == 200
    assert Queue.objects.get().paused is False
    actions = AuditEntry.objects.order_by("id").values_list(
        "action", "actor", "object_id", "reason"
    )
    assert list(actions) == [
        ("queue.pause", who, "mail", "provider down"),
        ("queue.resume", who, "mail", ""),
    ]


def test_a_queue_is_paused_until_a_moment(api: Api) -> None:
    client = api("Operator")
    body = {"until": "2031-01-01T06:00:00+01:00", "reason": "the window"}
    found = client.post(f"{URL}/mail/pause", body, format="json").json()
    assert (found["paused"], found["paused_until"]) == (True, "2031-01-01T05:00:00Z")
    later = client.post(f"{URL}/mail/pause", {"until": 1_956_528_000_000}, format="json").json()
    assert (later["paused_until"], later["reason"]) == ("2032-01-01T00:00:00Z", "the window")
    Queue.objects.update(paused_until=ago(seconds=1))
    found = client.get(f"{URL}/mail").json()
    assert (found["paused"], found["paused_until"], found["reason"]) == (False, None, "")


def test_pausing_needs_no_reason_and_no_body(api: Api) -> None:
    assert api("Operator").post(f"{URL}/new.one/pause").json()["paused"] is True


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"reason": 5}, "reason"),
        ({"reason": None}, "reason"),
        ({"reason": "x" * 1_001}, "reason"),
        ({"reason": "a\x00b"}, "reason"),
        ({"why": "x"}, "why"),
        ({"until": "2020-01-01T00:00:00Z"}, "until"),
        ({"until": "2031-01-01T00:00:00"}, "until"),
        ({"until": "soon"}, "until"),
        ({"until": True}, "until"),
        ([], "non_field_errors"),
    ],
)
def test_a_bad_reason_is_refused_and_nothing_is_paused(api: Api, body: Any, named: str) -> None:
    answer = api("Operator").post(f"{URL}/mail/pause", body, format="json")
    assert answer.status_code == 400
    assert list(answer.json()) == [named]
    assert not Queue.objects.exists()


def test_hostile_names_parameters_and_bodies_are_refused(api: Api) -> None:
    client = api("superuser")
    assert hostile.answers(client, "get", [f"{URL}/{name}" for name in hostile.IDS]) == []
    # Some that are no ids are fine names of queues that nobody has seen yet.
    bad = [name for name in hostile.IDS if not QUEUE_NAME.match(name)]
    paths = [f"{URL}/{name}/{end}" for name in bad for end in ("pause", "resume")]
    assert hostile.answers(client, "post", paths) == []
    assert hostile.refusals_of_bodies(client, "post", f"{URL}/mail/pause") in (
        [],
        [(b"", 200)],  # no body at all is a pause without a reason
    )
    for query in hostile.QUERIES:
        if query != "cursor=bm5vcGU":  # behind the queue "nope" there may be others
            assert client.get(f"{URL}?{query}").status_code == 400, query
    assert client.get(f"{URL}/mail?x=1").status_code == 400
    assert not Queue.objects.exclude(name="mail").exists()


@pytest.mark.parametrize("group", ["Viewer", "Operator", "Supervisor", None])
def test_only_who_may_pause_queues_pauses_them(api: Api, group: str | None) -> None:
    client = api(group)
    make_job(queue="mail")
    refused = 401 if group is None else 403
    for path in (URL, f"{URL}/mail"):
        assert client.get(path).status_code == (refused if group is None else 200)
    for end in ("pause", "resume"):
        allowed = group in ("Operator", "Supervisor")
        assert client.post(f"{URL}/mail/{end}").status_code == (200 if allowed else refused)
        assert client.get(f"{URL}/mail/{end}").status_code == (401 if group is None else 405)


def test_a_session_needs_a_csrf_token_to_pause(api: Api, user_of: Any) -> None:
    from rest_framework.test import APIClient

    client = APIClient(enforce_csrf_checks=True)
    client.force_login(user_of("Operator"))
    assert client.get(URL).status_code == 200
    assert client.post(f"{URL}/mail/pause").status_code == 403
    assert not Queue.objects.exists()


def test_depth_is_counted_to_the_cap_and_reads_no_more(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queues, "CAP", 100)
    Job.objects.bulk_create(Job(type=f"t{n % 7}", queue="deep") for n in range(1_000))
    Job.objects.bulk_create(Job(type="test", queue="other") for n in range(1_000))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE jobs_job")
    found = api("Viewer").get(f"{URL}/deep").json()
    assert (found["depth"], found["depth_is_capped"]) == (100, True)

    params = {"names": ["deep"], "most": 101, "lanes": 1_000}
    with connection.cursor() as cursor:
        cursor.execute("SET enable_seqscan = off; SET enable_bitmapscan = off")
    plan = explain(queues.DEPTHS, params)
    assert rows_read(plan) < 101 + 101 + 40
    indexes = {scan.split()[-1] for scan in scans(plan)}
    assert {name for name in indexes if name.startswith(("job_", "jobs_job"))} == {"job_ready"}


def test_the_names_are_found_without_walking_the_jobs(api: Api) -> None:
    Job.objects.bulk_create(Job(type="test", queue=f"q{n % 5}") for n in range(2_000))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE jobs_job")
        cursor.execute("SET enable_seqscan = off")
    plan = explain(queues.NAMES, {"after": "", "limit": 100, "most": 100, "minutes": 60})
    assert rows_read(plan) < 30
