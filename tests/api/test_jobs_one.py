"""One job over REST: read, change, act on it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from jobs import registry
from jobs.models import Attempt, AuditEntry, Job, JobLog
from tests.api.conftest import Api
from tests.factories import ago, make_edge, make_history, make_job, make_queue, make_worker

pytestmark = pytest.mark.django_db

JOBS = "/api/v1/jobs"


@pytest.fixture
def client(api: Api) -> Any:
    return api("Supervisor")


@pytest.fixture(autouse=True)
def _types() -> Iterator[None]:
    @registry.handler("test.any", mask=("secret",))
    def any_payload(payload: Any) -> None: ...

    yield
    registry.remove("test.any")


def url(job: Job, rest: str = "") -> str:
    return f"{JOBS}/{job.id}{rest}"


class TestReading:
    def test_a_job_comes_with_payload_result_and_whole_error(self, client: Any) -> None:
        job = make_job(
            "dead", payload={"a": 1}, metadata={"b": 2}, result=[3], last_error="x" * 2_000
        )
        found = client.get(url(job)).json()
        assert (found["payload"], found["metadata"], found["result"]) == ({"a": 1}, {"b": 2}, [3])
        assert found["last_error"] == "x" * 2_000
        assert found["hidden"] == []

    def test_who_may_not_read_payloads_is_told_what_is_hidden(self, api: Api) -> None:
        job = make_job(
            "held", payload="hush", metadata={"a": "hush"}, result="hush", hold_reason="hush"
        )
        make_history(job, error="hush")
        JobLog.objects.create(job=job, event="log", message="hush", data={"a": "hush"})
        client = api("Viewer")
        response = client.get(url(job))
        assert response.json()["hidden"] == ["hold_reason", "payload", "metadata", "result"]
        assert response.json()["reasons"] == ["held"]
        assert b"hush" not in response.content
        for rest in ("/attempts", "/logs"):
            response = client.get(url(job, rest))
            assert b"hush" not in response.content
            assert response.json()["results"][0]["hidden"]

    def test_masked_keys_are_masked_for_all_but_superusers(self, api: Api) -> None:
        value = {"secret": "hush", "open": [{"Secret": "hush"}]}
        job = make_job("completed", type="test.any", payload=value, metadata=value, result=value)
        found = api("Supervisor").get(url(job))
        assert b"hush" not in found.content
        shown = {"secret": "••••••", "open": [{"Secret": "••••••"}]}
        assert found.json()["payload"] == found.json()["result"] == shown
        whole = api("superuser").get(url(job)).json()
        assert whole["payload"] == whole["result"] == whole["metadata"] == value

    def test_it_says_why_a_job_is_not_running(self, client: Any) -> None:
        make_worker()
        make_queue(name="stopped", paused=True, reason="deploy", changed_by="anna")
        parent = make_job("dead")
        child = make_job()
        make_edge(child, parent)
        reasons = {
            make_job(): "waits for a free slot",
            make_job(queue="stopped"): "queue stopped is paused: deploy, by anna",
            make_job(type="strange"): "no live worker knows the type strange",
            make_job("held", hold_reason="ask first"): "held: ask first",
            child: f"waits for test {parent.id}, which is failed",
        }
        for job, reason in reasons.items():
            assert client.get(url(job)).json()["reasons"][0].startswith(reason)
        assert client.get(url(make_job("completed"))).json()["reasons"] == []

    def test_what_is_not_there_is_not_found(self, client: Any) -> None:
        response = client.get(f"{JOBS}/0199a1f0-7c3e-7b52-9d1c-3f6f0a4b8e21")
        assert (response.status_code, response.json()) == (404, {"detail": "No such job."})


class TestHistory:
    def test_attempts_come_the_last_one_first_page_by_page(self, client: Any) -> None:
        job = make_job("dead")
        make_history(job, attempts=25, error="ValueError: bad")
        first = client.get(url(job, "/attempts?limit=20")).json()
        second = client.get(first["next"]).json()
        numbers = [each["number"] for each in first["results"] + second["results"]]
        assert numbers == list(range(25, 0, -1))
        assert second["next"] is second["next_cursor"] is None
        assert first["results"][0]["error"] == "ValueError: bad"
        assert first["results"][0]["traceback"].startswith("Traceback")

    def test_the_attempt_that_runs_is_the_first_of_all(self, client: Any) -> None:
        job = make_job("processing", attempt_count=3, lease_epoch=9)
        make_history(job, attempts=2, error="x")
        found = client.get(url(job, "/attempts?limit=2")).json()
        running, *ended = found["results"]
        assert (running["number"], running["lease_epoch"], running["outcome"]) == (3, 9, None)
        assert running["finished_at"] is None
        assert [each["number"] for each in ended] == [2, 1]

    def test_logs_of_equal_times_are_walked_once_each(self, client: Any) -> None:
        job, now = make_job(), timezone.now()
        made = JobLog.objects.bulk_create(
            JobLog(job=job, event="log", at=now, message=str(n)) for n in range(120)
        )
        seen, link = [], url(job, "/logs?limit=50")
        while link:
            found = client.get(link).json()
            seen += [line["id"] for line in found["results"]]
            link = found["next"]
        assert seen == sorted((line.id for line in made), reverse=True)

    def test_what_people_did_is_open_to_who_may_see_jobs(self, api: Api) -> None:
        job = make_job("dead")
        JobLog.objects.create(job=job, event="dead_lettered", message="ValueError: hush")
        JobLog.objects.create(job=job, event="retried", message="by anna", data={"by": "anna"})
        did, failed = api("Viewer").get(url(job, "/logs")).json()["results"]
        assert (did["message"], did["data"], did["hidden"]) == ("by anna", {"by": "anna"}, [])
        assert (failed["message"], failed["hidden"]) == (None, ["message"])

    def test_the_history_of_no_job_is_not_found(self, client: Any) -> None:
        for rest in ("/attempts", "/logs"):
            path = f"{JOBS}/0199a1f0-7c3e-7b52-9d1c-3f6f0a4b8e21{rest}"
            assert client.get(path).status_code == 404


class TestChanging:
    def test_priority_queue_and_time_of_a_pending_job(self, client: Any) -> None:
        job = make_job()
        at = timezone.now().replace(microsecond=0) + timedelta(hours=5)
        body = {"priority": 1, "queue": "mail", "scheduled_at": at.isoformat()}
        response = client.patch(url(job), body, format="json")
        assert response.status_code == 200
        assert response.json()["state"] == "scheduled"
        job.refresh_from_db()
        assert (job.priority, job.queue, job.scheduled_at, job.due_at) == (1, "mail", at, at)
        assert AuditEntry.objects.get().actor == client.user.username

    @pytest.mark.parametrize("trait", ["processing", "completed", "dead", "cancelled"])
    def test_only_pending_jobs_are_moved(self, client: Any, trait: str) -> None:
        job = make_job(trait)
        response = client.patch(url(job), {"priority": 1}, format="json")
        assert response.status_code == 409
        assert Job.objects.get().priority == 2

    def test_the_payload_of_a_dead_letter(self, client: Any) -> None:
        job = make_job("dead", type="test.any", payload={"a": 1})
        payloads: list[Any] = [{"a": 2}, None, [], 0]
        for payload in payloads:
            response = client.patch(url(job), {"payload": payload}, format="json")
            assert response.status_code == 200, response.content
            assert Job.objects.get().payload == payload

    @pytest.mark.parametrize("type", ["test.any", "nobody.knows"])
    def test_a_mask_that_is_handed_back_keeps_the_value_it_stands_for(
        self, client: Any, type: str
    ) -> None:
        stored = {"secret": "hush", "n": 1, "list": [{"Secret": "too"}, {"a": 1}]}
        job = make_job("dead", type=type, payload=stored)
        payload = client.get(url(job)).json()["payload"]
        assert "hush" not in str(payload)
        response = client.patch(url(job), {"payload": {**payload, "n": 2}}, format="json")
        assert response.status_code == 200, response.content
        assert b"hush" not in response.content
        assert Job.objects.get().payload == {**stored, "n": 2}

    @pytest.mark.parametrize(
        "payload", ["••••••", {"other": "••••••"}, {"secret": ["••••••"]}, [{"secret": "••••••"}]]
    )
    def test_a_mask_that_stands_for_nothing_is_refused(self, client: Any, payload: Any) -> None:
        job = make_job("dead", type="test.any", payload={"secret": "hush", "other": 1})
        assert client.patch(url(job), {"payload": payload}, format="json").status_code == 400
        assert Job.objects.get().payload["secret"] == "hush"

    @pytest.mark.parametrize("trait", ["processing", "completed", "cancelled", "held"])
    def test_only_dead_letters_get_another_payload(self, client: Any, trait: str) -> None:
        job = make_job(trait)
        assert client.patch(url(job), {"payload": {}}, format="json").status_code == 409
        assert Job.objects.get().payload == {"n": 1}

    def test_changing_needs_its_permission(self, api: Api) -> None:
        job = make_job()
        response = api("Viewer").patch(url(job), {"priority": 1}, format="json")
        assert response.status_code == 403


ACTIONS = [
    # action, permission, what it works on, what it is afterwards
    ("run-now", "jobs.edit_job", ["scheduled"], "ready"),
    ("run-now", "jobs.edit_job", ["retrying"], "ready"),
    ("run-now", "jobs.edit_job", ["held"], "ready"),
    ("cancel", "jobs.cancel_job", [], "cancelled"),
    ("cancel", "jobs.cancel_job", ["held"], "cancelled"),
    ("cancel", "jobs.cancel_job", ["processing"], "cancelling"),
    ("retry", "jobs.retry_job", ["dead"], "ready"),
    ("release", "jobs.edit_job", ["held"], "ready"),
]
CONFLICTS = [
    ("run-now", ["processing"]),
    ("run-now", ["dead"]),
    ("cancel", ["completed"]),
    ("cancel", ["dead"]),
    ("cancel", ["cancelled"]),
    ("retry", []),
    ("retry", ["processing"]),
    ("retry", ["completed"]),
    ("release", []),
    ("release", ["scheduled"]),
]


class TestActing:
    @pytest.mark.parametrize(("action", "permission", "traits", "state"), ACTIONS)
    def test_an_action_answers_with_the_job_as_it_then_stands(
        self, api: Api, action: str, permission: str, traits: list[str], state: str
    ) -> None:
        job = make_job(*traits)
        client = api([permission])
        response = client.post(url(job, f"/{action}"), {"reason": "tried by hand"}, format="json")
        assert response.status_code == (202 if state == "cancelling" else 200)
        assert response.json()["state"] == state
        job.refresh_from_db()
        assert job.state_at(timezone.now().timestamp() + 1).value == state
        entry = AuditEntry.objects.get()
        assert (entry.actor, entry.reason) == (client.user.username, "tried by hand")
        assert "tried by hand" in JobLog.objects.get().message

    @pytest.mark.parametrize(("action", "traits"), CONFLICTS)
    def test_a_job_that_is_not_fit_for_it_stays_as_it_is(
        self, client: Any, action: str, traits: list[str]
    ) -> None:
        job = make_job(*traits)
        before = Job.objects.values().get()
        response = client.post(url(job, f"/{action}"))
        assert response.status_code == 409
        assert str(job.id) in response.json()["detail"]
        assert Job.objects.values().get() == before
        assert not AuditEntry.objects.exists()

    def test_cancelling_a_running_job_again_does_no_harm(self, client: Any) -> None:
        job = make_job("processing")
        assert [client.post(url(job, "/cancel")).status_code for _ in range(2)] == [202, 202]

    def test_a_running_job_is_marked_lost_only_after_it_was_asked_to_stop(
        self, client: Any
    ) -> None:
        job = make_job("processing", worker_id=make_worker().id)
        refused = client.post(url(job, "/mark-lost"))
        assert refused.status_code == 409
        assert "cancel it first" in refused.json()["detail"]
        Job.objects.update(cancel_requested_at=ago(minutes=1))
        assert client.post(url(job, "/mark-lost")).json()["state"] == "cancelled"

    def test_a_blocked_job_does_not_run_now(self, client: Any) -> None:
        child = make_job()
        make_edge(child, make_job())
        assert client.post(url(child, "/run-now")).status_code == 409

    def test_a_retry_keeps_the_history_and_starts_again(self, client: Any) -> None:
        job = make_job("dead", attempt_count=3)
        make_history(job, attempts=3, error="x")
        assert client.post(url(job, "/retry")).json()["attempt_count"] == 0
        assert Attempt.objects.filter(job=job).count() == 3

    @pytest.mark.parametrize("action", ["run-now", "cancel", "retry", "release", "mark-lost"])
    def test_no_action_is_reached_by_get_or_without_its_permission(
        self, api: Api, action: str
    ) -> None:
        job = make_job(
            "held" if action == "release" else "dead" if action == "retry" else "scheduled"
        )
        before = Job.objects.values().get()
        assert api("superuser").get(url(job, f"/{action}")).status_code == 405
        assert api("Viewer").post(url(job, f"/{action}")).status_code == 403
        assert api(None).post(url(job, f"/{action}")).status_code == 401
        assert Job.objects.values().get() == before


class TestPurging:
    def test_a_dead_letter_goes_with_its_history(self, client: Any) -> None:
        job = make_job("dead")
        make_history(job, attempts=2, error="x")
        response = client.delete(url(job, "/purge?reason=known"))
        assert (response.status_code, response.content) == (204, b"")
        assert not Job.objects.exists()
        assert not Attempt.objects.exists()
        assert not JobLog.objects.exists()
        assert AuditEntry.objects.get().reason == "known"
        assert client.delete(url(job, "/purge")).status_code == 404

    @pytest.mark.parametrize("traits", [[], ["processing"], ["completed"], ["cancelled"]])
    def test_nothing_else_is_purged(self, client: Any, traits: list[str]) -> None:
        job = make_job(*traits)
        assert client.delete(url(job, "/purge")).status_code == 409
        assert Job.objects.count() == 1

    def test_purging_needs_its_permission(self, api: Api) -> None:
        job = make_job("dead")
        assert api("Operator").delete(url(job, "/purge")).status_code == 403
        assert Job.objects.count() == 1


def test_the_age_of_a_job_is_by_the_databases_clock(client: Any) -> None:
    job = make_job(due_at=ago(seconds=-3600), scheduled_at=ago(seconds=-3600))
    assert client.get(url(job)).json()["state"] == "scheduled"
