"""`Idempotency-Key`: the same request twice is one job and one answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.db import connection

from jobs import registry, retention
from jobs.api import idempotency
from jobs.database import DjangoDatabase, direct_conninfo
from jobs.models import IdempotencyKey, Job, JobLog
from tests.api.conftest import Api, permissions_named
from tests.factories import ago, make_job
from tests.rivals import Rival, wait_until_blocked

JOBS = "/api/v1/jobs"
BODY = {"type": "test.any", "payload": {"b": 1, "a": "ä"}}
KEY = {"HTTP_IDEMPOTENCY_KEY": "order-7"}


@pytest.fixture(autouse=True)
def _types() -> Iterator[None]:
    @registry.handler("test.any")
    def any_payload(payload: Any) -> None: ...

    yield
    registry.remove("test.any")


@pytest.mark.django_db
class TestAgain:
    def test_the_same_request_has_the_same_answer_and_makes_nothing(self, api: Api) -> None:
        client = api("Operator")
        first = client.post(JOBS, BODY, format="json", **KEY)
        again = client.post(JOBS, BODY, format="json", **KEY)
        assert (first.status_code, again.status_code) == (201, 201)
        assert first.json() == again.json()
        assert first.headers["Location"] == again.headers["Location"]
        assert "Idempotency-Replayed" not in first.headers
        assert again.headers["Idempotency-Replayed"] == "true"
        assert Job.objects.count() == 1

    def test_the_layout_of_the_body_does_not_matter(self, api: Api) -> None:
        client = api("Operator")
        for text in ('{"type":"test.any","payload":{"a":1,"b":2}}',) * 2 + (
            '{ "payload": {"b": 2, "a": 1},\n  "type": "test.any" }',
        ):
            client.post(JOBS, text, content_type="application/json", **KEY)
        assert Job.objects.count() == 1

    @pytest.mark.parametrize(
        ("path", "body"),
        [
            (JOBS, {**BODY, "priority": 1}),
            (JOBS, {**BODY, "payload": {}}),
            (f"{JOBS}/bulk", {"jobs": [BODY]}),
        ],
    )
    def test_the_same_key_for_another_request_is_refused(
        self, api: Api, path: str, body: dict[str, Any]
    ) -> None:
        client = api("Operator")
        client.post(JOBS, BODY, format="json", **KEY)
        response = client.post(path, body, format="json", **KEY)
        assert response.status_code == 409
        assert "another request" in response.json()["detail"]
        assert Job.objects.count() == 1

    def test_a_key_is_its_users_own(self, api: Api) -> None:
        for _ in range(2):
            response = api("Operator").post(JOBS, BODY, format="json", **KEY)
            assert "Idempotency-Replayed" not in response.headers
        assert Job.objects.count() == 2

    def test_without_a_key_each_request_makes_a_job(self, api: Api) -> None:
        client = api("Operator")
        for _ in range(2):
            client.post(JOBS, BODY, format="json")
        assert Job.objects.count() == 2
        assert not IdempotencyKey.objects.exists()

    def test_many_jobs_are_made_once(self, api: Api) -> None:
        client = api("Operator")
        body = {"jobs": [BODY] * 3}
        first = client.post(f"{JOBS}/bulk", body, format="json", **KEY).json()
        assert client.post(f"{JOBS}/bulk", body, format="json", **KEY).json() == first
        assert Job.objects.count() == 3

    def test_an_action_is_done_once(self, api: Api) -> None:
        client = api("Operator")
        job = make_job("dead")
        first = client.post(f"{JOBS}/{job.id}/retry", **KEY)
        again = client.post(f"{JOBS}/{job.id}/retry", **KEY)
        assert (first.status_code, again.status_code) == (200, 200)
        assert JobLog.objects.filter(event="retried").count() == 1
        assert client.post(f"{JOBS}/{job.id}/retry").status_code == 409

    def test_a_refused_request_may_be_mended_and_sent_with_its_key(self, api: Api) -> None:
        client = api("Operator")
        assert client.post(JOBS, {"type": "none"}, format="json", **KEY).status_code == 400
        assert not IdempotencyKey.objects.exists()
        assert client.post(JOBS, BODY, format="json", **KEY).status_code == 201

    def test_what_failed_on_the_way_is_not_remembered_and_made_nothing(
        self, api: Api, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        client = api("Operator")
        client.raise_request_exception = False
        monkeypatch.setattr(idempotency, "KEEP", "SELECT no_such_column")
        assert client.post(JOBS, BODY, format="json", **KEY).status_code == 500
        assert not Job.objects.exists()
        assert not IdempotencyKey.objects.exists()

    def test_who_may_read_less_now_is_not_given_the_answer_again(self, api: Api) -> None:
        client = api("Operator")
        job = make_job("dead", payload={"hush": "secret-7"})
        path = f"{JOBS}/{job.id}/retry"
        assert "secret-7" in client.post(path, **KEY).content.decode()
        assert client.post(path, **KEY).headers["Idempotency-Replayed"] == "true"
        client.user.groups.clear()
        client.user.user_permissions.set(permissions_named(["jobs.view_job", "jobs.retry_job"]))
        again = client.post(path, **KEY)
        assert (again.status_code, "secret-7" in again.content.decode()) == (409, False)
        assert JobLog.objects.filter(event="retried").count() == 1

    def test_a_permission_that_was_lost_is_asked_for_again(self, api: Api) -> None:
        client = api("Operator")
        client.post(JOBS, BODY, format="json", **KEY)
        client.user.groups.clear()
        assert client.post(JOBS, BODY, format="json", **KEY).status_code == 403


@pytest.mark.django_db
class TestADay:
    def age(self, **length: float) -> None:
        IdempotencyKey.objects.update(created_at=ago(**length))

    def test_a_key_is_good_for_24_hours(self, api: Api) -> None:
        client = api("Operator")
        first = client.post(JOBS, BODY, format="json", **KEY).json()
        self.age(hours=23.9)
        assert client.post(JOBS, BODY, format="json", **KEY).json() == first
        self.age(hours=24.1)
        other = client.post(JOBS, {**BODY, "priority": 1}, format="json", **KEY)
        assert other.status_code == 201
        assert other.json()["id"] != first["id"]
        again = client.post(JOBS, {**BODY, "priority": 1}, format="json", **KEY)
        assert again.json() == other.json()

    def test_old_keys_are_deleted_and_young_ones_stay(self, api: Api) -> None:
        client = api("Operator")
        for name in ("old", "young"):
            client.post(JOBS, BODY, format="json", HTTP_IDEMPOTENCY_KEY=name)
        IdempotencyKey.objects.filter(key="old").update(created_at=ago(hours=25))
        assert retention.prune_keys(DjangoDatabase()) == 1
        assert [each.key for each in IdempotencyKey.objects.all()] == ["young"]


@pytest.mark.django_db(transaction=True)
class TestTwins:
    """Two of the same request at the same moment."""

    def test_the_twin_waits_and_gets_the_same_answer(self, api: Api) -> None:
        client = api("Operator")
        with psycopg.connect(direct_conninfo()) as holder:
            # Holds up the first one after it has taken the key.
            holder.execute("LOCK TABLE jobs_job IN SHARE MODE")
            twins = [
                Rival(lambda _: client.post(JOBS, BODY, format="json", **KEY)) for _ in range(2)
            ]
            wait_until_blocked(2)
        first, second = (twin.result() for twin in twins)
        assert first.status_code == second.status_code == 201
        assert json.loads(first.content) == json.loads(second.content)
        assert sorted("Idempotency-Replayed" in each.headers for each in (first, second)) == [
            False,
            True,
        ]
        assert Job.objects.count() == 1

    def test_a_twin_that_waits_too_long_is_told_so(
        self, api: Api, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(idempotency, "WAIT_SECONDS", 0.2)
        client = api("Operator")
        with psycopg.connect(direct_conninfo()) as holder:
            holder.execute(
                "INSERT INTO jobs_idempotencykey (user_id, key, request_digest) VALUES (%s, %s, 'x')",
                [client.user.pk, "order-7"],
            )
            response = client.post(JOBS, BODY, format="json", **KEY)
            holder.rollback()
        assert response.status_code == 409
        assert "still being worked on" in response.json()["detail"]
        assert client.post(JOBS, BODY, format="json", **KEY).status_code == 201
        with connection.cursor() as cursor:
            cursor.execute("SHOW lock_timeout")
            assert cursor.fetchone() == ("0",)
