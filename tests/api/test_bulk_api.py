"""`/api/v1/bulk-operations`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jobs import bulk
from jobs.bulk import running
from jobs.filtering import Filters
from jobs.models import AuditEntry, BulkOperation, Job
from jobs.permissions import CANCEL, EDIT, PURGE, PURGE_ALL, RETRY, VIEW
from jobs.testing import run_due_jobs
from tests.api import hostile
from tests.api.conftest import Api
from tests.factories import make_job

pytestmark = pytest.mark.django_db

URL = "/api/v1/bulk-operations"
RETRY_MAIL = {"action": "retry", "filters": {"queue": "mail"}}


@pytest.fixture(autouse=True)
def _no_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "REST", 0.0)


def created(client: Any, **fields: Any) -> Any:
    answer = client.post(URL, {**RETRY_MAIL, **fields}, format="json")
    assert answer.status_code == 202, answer.json()
    return answer.json()


def test_an_operation_is_previewed_created_worked_through_and_read(api: Api) -> None:
    mail = [make_job("dead", queue="mail", type="nobody") for _ in range(3)]
    other = make_job("dead", queue="other")
    client = api("Operator")

    seen = client.post(f"{URL}/preview", RETRY_MAIL, format="json")
    assert seen.status_code == 200
    preview = seen.json()
    assert (preview["count"], preview["is_capped"]) == (3, False)
    assert {job["id"] for job in preview["sample"]} == {str(job.id) for job in mail}
    assert preview["oldest"] is not None
    assert not BulkOperation.objects.exists()

    made = client.post(URL, {**RETRY_MAIL, "reason": "it is back"}, format="json")
    assert made.status_code == 202
    assert (made.json()["status"], made.json()["matched"]) == ("pending", 3)
    run_due_jobs()
    done = client.get(made.headers["Location"]).json()
    assert (done["status"], done["changed"], done["skipped"]) == ("completed", 3, 0)
    assert done["finished_at"] is not None
    assert done["created_by"] == client.user.get_username()
    assert set(Job.objects.filter(queue="mail").values_list("status", flat=True)) == {"pending"}
    other.refresh_from_db()
    assert other.status == "failed"
    assert AuditEntry.objects.filter(action="bulk.retry", reason="it is back").count() == 1


def test_the_list_is_newest_first_and_can_be_narrowed(api: Api) -> None:
    make_job("dead", queue="mail")
    ids = [str(bulk.create("retry", Filters(queue=f"q{n}"), by="anna").id) for n in range(4)]
    bulk.abort(ids[0])
    bulk.create("cancel", Filters(queue="mail"), by="bob")
    client = api("Viewer")
    page = client.get(f"{URL}?limit=2&action=retry").json()
    rest = client.get(page["next"]).json()
    assert [row["id"] for row in page["results"] + rest["results"]] == ids[::-1]
    aborted = client.get(f"{URL}?status=aborted").json()["results"]
    assert [row["id"] for row in aborted] == ids[:1]
    assert len(client.get(f"{URL}?created_by=bob").json()["results"]) == 1


def test_an_operation_is_paused_resumed_and_aborted(api: Api) -> None:
    make_job("dead", queue="mail", type="nobody")
    client = api("Operator")
    id = created(client)["id"]
    paused = client.post(f"{URL}/{id}/pause", {"reason": "wait"}, format="json")
    assert (paused.status_code, paused.json()["status"]) == (200, "paused")
    run_due_jobs()
    assert Job.objects.filter(status="failed").count() == 1
    assert client.post(f"{URL}/{id}/resume").json()["status"] == "pending"
    assert client.post(f"{URL}/{id}/abort").json()["status"] == "aborted"
    refused = client.post(f"{URL}/{id}/resume")
    assert refused.status_code == 409
    assert "aborted" in refused.json()["detail"]
    run_due_jobs()
    assert Job.objects.filter(status="failed").count() == 1


def test_the_same_creation_with_the_same_key_is_one_operation(api: Api) -> None:
    make_job("dead", queue="mail")
    client = api("Operator")
    answers = [
        client.post(URL, RETRY_MAIL, format="json", HTTP_IDEMPOTENCY_KEY="k") for _ in range(2)
    ]
    assert answers[0].json() == answers[1].json()
    assert BulkOperation.objects.count() == 1


@pytest.mark.parametrize(
    ("body", "permission"),
    [
        ({"action": "retry"}, RETRY),
        ({"action": "cancel", "filters": {"queue": "mail"}}, CANCEL),
        ({"action": "run_now"}, EDIT),
        ({"action": "change_priority", "arguments": {"priority": 1}}, EDIT),
        ({"action": "move_queue", "arguments": {"queue": "b"}}, EDIT),
        ({"action": "purge", "filters": {"type": "test"}}, PURGE),
        ({"action": "purge"}, PURGE_ALL),
        ({"action": "purge", "filters": {"status": "failed"}}, PURGE_ALL),
    ],
)
def test_each_action_needs_the_permission_of_its_own(
    api: Api, body: dict[str, Any], permission: str
) -> None:
    every = {RETRY, CANCEL, EDIT, PURGE, PURGE_ALL}
    assert api([VIEW, *(every - {permission})]).post(URL, body, format="json").status_code == 403
    assert not BulkOperation.objects.exists()
    answer = api([VIEW, permission]).post(URL, body, format="json")
    assert answer.status_code == 202
    id = answer.json()["id"]
    for end in ("pause", "resume", "abort"):
        assert api([VIEW, *(every - {permission})]).post(f"{URL}/{id}/{end}").status_code == 403
        assert api([VIEW, permission]).post(f"{URL}/{id}/{end}").status_code == 200


@pytest.mark.parametrize("group", ["Viewer", "Operator", "Supervisor", None])
def test_who_may_look_may_not_therefore_act(api: Api, group: str | None) -> None:
    make_job("dead", queue="mail")
    operation = bulk.create("retry", Filters(queue="mail"), by="anna")
    client = api(group)
    for path in (URL, f"{URL}/{operation.id}"):
        assert client.get(path).status_code == (401 if group is None else 200)
    seen = client.post(f"{URL}/preview", RETRY_MAIL, format="json").status_code
    assert seen == (401 if group is None else 200)
    made = client.post(URL, RETRY_MAIL, format="json").status_code
    assert made == {None: 401, "Viewer": 403}.get(group, 202)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"action": "explode"}, "action"),
        ({"action": None}, "action"),
        ({"filters": []}, "filters"),
        ({"filters": {"colour": "red"}}, "colour"),
        ({"filters": {"status": "completed"}}, "status"),
        ({"filters": {"failed_after": "yesterday"}}, "failed_after"),
        ({"filters": {"priority": "1"}}, "priority"),
        ({"arguments": {"priority": 1}}, "arguments.priority"),
        ({"action": "change_priority"}, "arguments.priority"),
        ({"action": "move_queue", "arguments": {"queue": "a b"}}, "arguments.queue"),
        ({"cap": 0}, "cap"),
        ({"cap": True}, "cap"),
        ({"cap": "5"}, "cap"),
        ({"reason": 5}, "reason"),
        ({"status": "completed"}, "status"),
    ],
)
def test_a_bad_field_is_named_and_nothing_is_made(
    api: Api, fields: dict[str, Any], named: str
) -> None:
    make_job("dead", queue="mail")
    answer = api("superuser").post(URL, {**RETRY_MAIL, **fields}, format="json")
    assert answer.status_code == 400
    assert list(answer.json()) == [named]
    assert not BulkOperation.objects.exists()
    assert Job.objects.count() == 1


def test_errors_of_jobs_are_hidden_from_who_may_not_read_them(api: Api) -> None:
    operation = bulk.create("retry", Filters(queue="mail"), by="anna")
    BulkOperation.objects.update(
        failures=[{"id": "x", "error": "secret-9"}], error="secret-9", status="failed"
    )
    for path in (URL, f"{URL}/{operation.id}"):
        assert "secret-9" not in api("Viewer").get(path).content.decode()
        assert "secret-9" in api("Operator").get(path).content.decode()
    shown = api("Viewer").get(f"{URL}/{operation.id}").json()
    assert (shown["failures"], shown["error"]) == (None, None)
    assert shown["hidden"] == ["failures", "error"]


def test_what_a_filter_looks_for_in_payloads_and_errors_only_their_readers_see(api: Api) -> None:
    filters = Filters(payload={"colour": "anna-9", "password": "secret-9"}, error="told-9")
    bulk.create("retry", filters, by="root")
    viewer = api("Viewer").get(URL)
    assert not any(word in viewer.content.decode() for word in ("anna-9", "secret-9", "told-9"))
    assert "in_words" in viewer.json()["results"][0]["hidden"]
    operator = api("Operator").get(URL).content.decode()
    assert "anna-9" in operator
    assert "told-9" in operator
    assert "secret-9" not in operator
    assert "secret-9" in api("superuser").get(URL).content.decode()


def test_who_may_not_read_payloads_cannot_find_out_by_asking(api: Api) -> None:
    make_job("dead", payload={"a": "secret-9"})
    body = {"action": "retry", "filters": {"payload": {"a": "secret-9"}}}
    for path in (URL, f"{URL}/preview"):
        assert api([VIEW, RETRY]).post(path, body, format="json").status_code == 403
    assert api("Operator").post(f"{URL}/preview", body, format="json").json()["count"] == 1


def test_the_sample_of_a_preview_shows_no_payload_and_no_error_to_viewers(api: Api) -> None:
    make_job("dead", queue="mail", payload={"a": "secret-9"}, last_error="ValueError: secret-9")
    answer = api("Viewer").post(f"{URL}/preview", RETRY_MAIL, format="json")
    assert answer.json()["count"] == 1
    assert "secret-9" not in answer.content.decode()


def test_hostile_ids_parameters_bodies_and_filters_are_refused(api: Api) -> None:
    client = api("superuser")
    assert hostile.answers(client, "get", [f"{URL}/{bad}" for bad in hostile.IDS]) == []
    paths = [f"{URL}/{bad}/{end}" for bad in hostile.IDS for end in ("pause", "resume", "abort")]
    assert hostile.answers(client, "post", paths) == []
    for query in (*hostile.QUERIES, "status=busy", "action=%00", "created_by=%00"):
        assert client.get(f"{URL}?{query}").status_code == 400, query
    for path in (URL, f"{URL}/preview"):
        assert hostile.refusals_of_bodies(client, "post", path) == []
        fields = ("action", "filters", "arguments", "cap", "reason", "x")
        assert hostile.refusals_of_fields(client, "post", path, RETRY_MAIL, fields) == []
    for name in [*Filters.__dataclass_fields__, "x", "", "\x00", "\ud800"]:
        for value in hostile.VALUES[::3]:
            body = json.dumps({"action": "cancel", "filters": {name: value}})
            answer = client.post(f"{URL}/preview", body, content_type="application/json")
            assert answer.status_code in (200, 400), (name, value)
    for name in ("\ud800", "\x00", "x" * 1_000):
        body = json.dumps({**RETRY_MAIL, "arguments": {name: 1}})
        assert client.post(URL, body, content_type="application/json").status_code == 400
