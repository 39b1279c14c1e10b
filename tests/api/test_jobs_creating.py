"""`POST /jobs` and `POST /jobs/bulk`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone
from rest_framework import serializers

from jobs import registry
from jobs.models import Job, JobDependency, Schedule
from tests.api.conftest import Api
from tests.factories import ago, make_job

pytestmark = pytest.mark.django_db

JOBS = "/api/v1/jobs"


class SizePayload(serializers.Serializer[Any]):
    width = serializers.IntegerField(min_value=1)
    secret = serializers.CharField(required=False)


@pytest.fixture(autouse=True)
def _types() -> Iterator[None]:
    @registry.handler("test.any", queue="quick", priority=3, max_attempts=7)
    def any_payload(payload: Any) -> None: ...

    @registry.handler("test.size", payload=SizePayload, mask=("secret",))
    def size(payload: Any) -> None: ...

    yield
    registry.remove("test.any")
    registry.remove("test.size")


@pytest.fixture
def client(api: Api) -> Any:
    return api("Operator")


def post(client: Any, **body: Any) -> Any:
    return client.post(JOBS, {"type": "test.any", **body}, format="json")


class TestOne:
    def test_a_type_alone_takes_what_its_handler_says(self, client: Any) -> None:
        response = post(client)
        assert response.status_code == 201
        made = response.json()
        job = Job.objects.get()
        assert response.headers["Location"] == f"http://testserver{JOBS}/{job.id}"
        assert client.get(response.headers["Location"]).json()["id"] == made["id"]
        assert (made["queue"], made["priority"], made["max_retries"]) == ("quick", 3, 7)
        assert (made["state"], made["payload"], job.payload) == ("ready", {}, {})

    def test_every_option_is_stored(self, client: Any) -> None:
        at = datetime(2100, 1, 1, 12, tzinfo=UTC)
        made = post(
            client,
            payload={"a": [1, None, "ä"]},
            priority=1,
            scheduled_at=at.isoformat(),
            queue="slow",
            unique_key="once",
            metadata={"order": 7},
            max_retries=2,
            on_parent_failure="cancel",
        ).json()
        job = Job.objects.get()
        assert (job.payload, job.metadata) == ({"a": [1, None, "ä"]}, {"order": 7})
        assert (job.priority, job.queue, job.unique_key) == (1, "slow", "once")
        assert (job.max_attempts, job.on_parent_failure) == (2, "cancel")
        assert job.scheduled_at == job.due_at == at
        assert (made["state"], made["scheduled_at"]) == ("scheduled", "2100-01-01T12:00:00Z")

    @pytest.mark.parametrize("payload", [[], 0, "text", False, 1.5, {"a": 10**30}, [[[]]]])
    def test_a_payload_may_be_any_json(self, client: Any, payload: Any) -> None:
        made = post(client, payload=payload).json()
        assert made["payload"] == payload == Job.objects.get().payload

    def test_null_is_the_same_as_not_given(self, client: Any) -> None:
        names = ["payload", "priority", "scheduled_at", "depends_on", "recur_interval", "cron"]
        names += ["time_zone", "queue", "unique_key", "metadata", "max_retries", "max_attempts"]
        names += ["on_parent_failure"]
        assert post(client, **dict.fromkeys(names)).status_code == 201

    def test_max_attempts_is_another_name_of_max_retries(self, client: Any) -> None:
        assert post(client, max_attempts=9).json()["max_retries"] == 9
        assert post(client, max_attempts=9, max_retries=9).status_code == 201

    @pytest.mark.parametrize(
        "given",
        [
            "2100-06-01T12:00:00+02:00",
            "2100-06-01T10:00:00Z",
            "2100-06-01T10:00:00.000000+00:00",
            4115527200000,
        ],
    )
    def test_a_time_is_iso_8601_with_an_offset_or_unix_milliseconds(
        self, client: Any, given: Any
    ) -> None:
        made = post(client, scheduled_at=given)
        assert made.json()["scheduled_at"] == "2100-06-01T10:00:00Z"

    def test_a_time_in_the_past_is_refused_but_for_a_minute(self, client: Any) -> None:
        now = timezone.now()
        just = post(client, scheduled_at=(now - timedelta(seconds=30)).isoformat())
        assert (just.status_code, just.json()["state"]) == (201, "ready")
        for past in ((now - timedelta(seconds=90)).isoformat(), int(now.timestamp() - 90) * 1000):
            refused = post(client, scheduled_at=past)
            assert refused.status_code == 400
            assert refused.json() == {"scheduled_at": ["is more than 60 seconds in the past"]}

    def test_a_wrong_payload_says_where(self, client: Any) -> None:
        response = client.post(JOBS, {"type": "test.size", "payload": {"width": 0}}, format="json")
        assert response.status_code == 400
        assert list(response.json()) == ["payload.width"]
        assert not Job.objects.exists()

    def test_an_unknown_type_is_refused(self, client: Any) -> None:
        response = client.post(JOBS, {"type": "nobody.knows"}, format="json")
        assert response.status_code == 400
        assert response.json() == {"type": ["no handler is registered for 'nobody.knows'"]}

    def test_a_masked_payload_comes_back_masked_and_is_stored_whole(self, api: Api) -> None:
        body = {"type": "test.size", "payload": {"width": 3, "secret": "hush"}}
        made = api("Operator").post(JOBS, body, format="json")
        assert made.json()["payload"] == {"width": 3, "secret": "••••••"}
        assert Job.objects.get().payload["secret"] == "hush"
        seen = api("superuser").get(f"{JOBS}/{made.json()['id']}").json()
        assert seen["payload"]["secret"] == "hush"

    def test_who_may_only_create_does_not_see_payloads(self, api: Api) -> None:
        made = api(["jobs.add_job"]).post(
            JOBS, {"type": "test.any", "payload": {"a": 1}, "metadata": {"b": 2}}, format="json"
        )
        assert made.status_code == 201
        shown = made.json()
        assert (shown["payload"], shown["metadata"]) == (None, None)
        assert shown["hidden"] == ["payload", "metadata"]

    def test_creating_needs_its_permission(self, api: Api) -> None:
        assert post(api("Viewer")).status_code == 403
        assert post(api(None)).status_code == 401
        assert not Job.objects.exists()


class TestUnique:
    def test_a_key_that_a_live_job_has_answers_with_that_job(self, client: Any) -> None:
        first = post(client, unique_key="a")
        second = post(client, unique_key="a")
        assert (first.status_code, second.status_code) == (201, 200)
        assert first.json()["id"] == second.json()["id"]
        assert Job.objects.count() == 1

    def test_a_key_of_a_job_that_ended_is_free(self, client: Any) -> None:
        make_job("completed", unique_key="a")
        assert post(client, unique_key="a").status_code == 201


class TestDependencies:
    def test_one_id_or_many_make_a_job_wait(self, client: Any) -> None:
        parents = [make_job(), make_job()]
        one = post(client, depends_on=str(parents[0].id)).json()
        many = post(client, depends_on=[str(parent.id) for parent in parents]).json()
        assert (one["state"], one["unmet_dependencies"]) == ("blocked", 1)
        assert {each["id"] for each in many["blocked_by"]} == {str(each.id) for each in parents}
        assert JobDependency.objects.count() == 3

    def test_an_unknown_parent_is_refused(self, client: Any) -> None:
        response = post(client, depends_on="0199a1f0-7c3e-7b52-9d1c-3f6f0a4b8e21")
        assert response.status_code == 400
        assert list(response.json()) == ["depends_on"]
        assert not Job.objects.exists()


class TestRecurring:
    @pytest.mark.parametrize(
        ("rule", "shown"),
        [
            ({"recur_interval": "every_5_minutes"}, ("every_5_minutes", None)),
            ({"cron": "0 3 * * *", "time_zone": "Europe/Berlin"}, (None, "0 3 * * *")),
        ],
    )
    def test_a_rule_makes_a_schedule_whose_first_slot_is_the_job(
        self, client: Any, rule: dict[str, str], shown: tuple[str | None, str | None]
    ) -> None:
        made = post(client, **rule).json()
        schedule = Schedule.objects.get()
        assert made["schedule"] == str(schedule.id)
        assert (made["recur_interval"], made["cron"]) == shown
        assert schedule.next_slot is not None


class TestMany:
    def test_ids_come_in_the_order_of_the_request(self, client: Any) -> None:
        jobs = [{"type": "test.any", "payload": {"n": n}} for n in range(50)]
        response = client.post(f"{JOBS}/bulk", {"jobs": jobs}, format="json")
        assert response.status_code == 201
        payloads = {str(job.id): job.payload["n"] for job in Job.objects.all()}
        assert [payloads[id] for id in response.json()["ids"]] == list(range(50))

    def test_ten_thousand_are_taken_at_once(self, client: Any) -> None:
        jobs = [{"type": "test.any"}] * 10_000
        response = client.post(f"{JOBS}/bulk", {"jobs": jobs}, format="json")
        assert response.status_code == 201
        assert len(set(response.json()["ids"])) == Job.objects.count() == 10_000

    def test_none_is_made_where_one_is_wrong(self, client: Any) -> None:
        jobs: list[dict[str, Any]] = [{"type": "test.any"} for _ in range(20)]
        jobs[17] = {"type": "test.any", "priority": 9}
        response = client.post(f"{JOBS}/bulk", {"jobs": jobs}, format="json")
        assert response.status_code == 400
        wrong = "must be 1 (high), 2 (medium) or 3 (low)"
        assert response.json() == {"jobs": {"17": {"priority": [wrong]}}}
        assert not Job.objects.exists()

    def test_a_time_in_the_past_is_named_by_its_index(self, client: Any) -> None:
        past = ago(hours=1).isoformat()
        jobs = [{"type": "test.any"}, {"type": "test.any", "scheduled_at": past}]
        response = client.post(f"{JOBS}/bulk", {"jobs": jobs}, format="json")
        assert list(response.json()["jobs"]) == ["1"]
        assert not Job.objects.exists()

    def test_jobs_can_wait_for_each_other_by_key_and_for_jobs_that_are_there(
        self, client: Any
    ) -> None:
        outside = make_job()
        jobs = [
            {"type": "test.any", "key": "last", "depends_on": ["first", str(outside.id)]},
            {"type": "test.any", "key": "first"},
        ]
        last, first = client.post(f"{JOBS}/bulk", {"jobs": jobs}, format="json").json()["ids"]
        waits = JobDependency.objects.filter(child_id=last).values_list("parent_id", flat=True)
        assert {str(id) for id in waits} == {first, str(outside.id)}

    def test_no_job_is_nothing_to_do(self, client: Any) -> None:
        response = client.post(f"{JOBS}/bulk", {"jobs": []}, format="json")
        assert (response.status_code, response.json()) == (201, {"ids": []})
