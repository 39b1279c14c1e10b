"""`/api/v1/workers`."""

from __future__ import annotations

from typing import Any

import pytest

from jobs.models import AuditEntry, Worker
from tests.api import hostile
from tests.api.conftest import Api
from tests.factories import ago, make_job, make_worker

pytestmark = pytest.mark.django_db

URL = "/api/v1/workers"


def states(client: Any, query: str = "") -> dict[str, str]:
    rows = client.get(f"{URL}?limit=50&{query}".rstrip("&")).json()["results"]
    return {row["name"]: row["state"] for row in rows}


def test_a_worker_says_how_it_is_and_what_it_holds(api: Api) -> None:
    worker = make_worker(
        name="a", queues=["mail"], concurrency=2, types=["test"], version="1.0",
        clock_skew_seconds=-3.25, clock_skew_uncertainty_seconds=0.001,
    )  # fmt: skip
    long = make_job(
        "processing", worker_id=worker.id, started_at=ago(seconds=100), payload={"a": "secret-9"}
    )
    short = make_job("processing", worker_id=worker.id, cancel_requested_at=ago(seconds=1))
    make_job("processing", worker_id=worker.id)
    make_job("processing")
    make_job("completed")

    answer = api("Viewer").get(f"{URL}/{worker.id}")
    found = answer.json()
    assert (found["name"], found["state"], found["queues"]) == ("a", "running", ["mail"])
    assert (found["types"], found["version"], found["concurrency"]) == (["test"], "1.0", 2)
    assert (found["held"], found["busy"]) == (3, 2)
    assert 0 <= found["heartbeat_age_seconds"] < 30
    assert found["stop_requested_at"] is None
    assert (found["clock_skew_seconds"], found["clock_skew_uncertainty_seconds"]) == (-3.25, 0.001)
    first, second, _ = found["jobs"]
    assert (first["id"], first["cancelling"]) == (str(long.id), False)
    assert 100 <= first["seconds"] < 130
    assert {job["id"]: job["cancelling"] for job in found["jobs"]}[str(short.id)] is True
    assert second["type"] == "test"
    assert "secret-9" not in answer.content.decode()


def test_a_worker_that_is_not_heard_of_is_stale_and_never_shown_as_running(api: Api) -> None:
    make_worker(name="fine")
    make_worker(name="leaving", state="draining")
    make_worker(name="silent", beat_at=ago(minutes=1))
    make_worker(name="left in silence", state="draining", beat_at=ago(minutes=1))
    make_worker(name="done", state="stopped", beat_at=ago(minutes=1))
    make_worker(name="lost", state="dead", beat_at=ago(minutes=1))
    client = api("Viewer")
    assert states(client) == {
        "fine": "running",
        "leaving": "draining",
        "silent": "stale",
        "left in silence": "stale",
        "done": "stopped",
        "lost": "dead",
    }
    assert set(states(client, "state=stale")) == {"silent", "left in silence"}
    assert set(states(client, "state=running")) == {"fine"}
    assert set(states(client, "state=dead")) == {"lost"}


def test_the_list_is_narrowed_by_host(api: Api) -> None:
    make_worker(name="a", host="one")
    make_worker(name="b", host="two")
    assert set(states(api("Viewer"), "host=two")) == {"b"}


def test_a_walk_through_workers_that_started_together_meets_each_once(api: Api) -> None:
    moment = ago(minutes=1)
    ids = {str(make_worker(started_at=moment).id) for _ in range(12)}
    ids |= {str(make_worker().id) for _ in range(3)}
    client = api("Viewer")
    seen: list[str] = []
    url: str | None = f"{URL}?limit=5"
    while url:
        page = client.get(url).json()
        seen += [row["id"] for row in page["results"]]
        make_worker()  # newer ones shift nothing
        url = page["next"]
    assert len(seen) == len(set(seen)) == 15
    assert set(seen) == ids


def test_each_worker_of_the_list_shows_the_first_of_its_own_jobs(api: Api) -> None:
    one, other = make_worker(name="one"), make_worker(name="other")
    mine = {str(make_job("processing", worker_id=one.id).id) for _ in range(12)}
    make_job("processing", worker_id=other.id)
    rows = {row["name"]: row for row in api("Viewer").get(URL).json()["results"]}
    assert rows["one"]["held"] == 12
    assert len(rows["one"]["jobs"]) == 10
    assert {job["id"] for job in rows["one"]["jobs"]} <= mine
    assert len(rows["other"]["jobs"]) == 1
    assert "types" not in rows["one"]


def test_a_stop_is_stored_once_with_who_and_why(api: Api) -> None:
    worker = make_worker(name="a")
    client = api("Operator")
    answer = client.post(f"{URL}/{worker.id}/stop", {"reason": "new host"}, format="json")
    assert answer.status_code == 202
    asked_at = answer.json()["stop_requested_at"]
    assert asked_at is not None
    again = client.post(f"{URL}/{worker.id}/stop")
    assert (again.status_code, again.json()["stop_requested_at"]) == (202, asked_at)
    [entry] = AuditEntry.objects.all()
    assert (entry.action, entry.scope, entry.reason) == ("worker.stop", "worker a", "new host")
    assert entry.object_id == str(worker.id)


def test_a_worker_is_told_to_be_quiet_and_to_go_on(api: Api) -> None:
    worker = make_worker(name="a")
    client = api("Operator")
    answer = client.post(f"{URL}/{worker.id}/quiet", {"reason": "a look"}, format="json")
    assert answer.status_code == 202
    assert answer.json()["quiet_requested_at"] is not None
    assert answer.json()["quiet_at"] is None
    answer = client.post(f"{URL}/{worker.id}/resume")
    assert (answer.status_code, answer.json()["quiet_requested_at"]) == (202, None)
    assert [entry.action for entry in AuditEntry.objects.order_by("id")] == [
        "worker.quiet", "worker.resume",
    ]  # fmt: skip
    over = make_worker(state="dead")
    assert client.post(f"{URL}/{over.id}/quiet").status_code == 409
    for end in ("quiet", "resume"):
        assert api("Viewer").post(f"{URL}/{worker.id}/{end}").status_code == 403
        assert client.post(f"{URL}/{worker.id}/{end}", {"x": 1}, format="json").status_code == 400


def test_the_jobs_of_a_silent_worker_are_recovered_and_its_row_forgotten(api: Api) -> None:
    worker = make_worker(name="a", beat_at=ago(minutes=3), beats=7)
    jobs = [make_job("processing", worker_id=worker.id) for _ in range(2)]
    client = api("Operator")
    assert client.delete(f"{URL}/{worker.id}").status_code == 409  # it may live
    answer = client.post(f"{URL}/{worker.id}/recover", {"reason": "gone"}, format="json")
    assert answer.status_code == 200
    found = answer.json()
    assert (found["state"], found["recovered"], found["jobs"]) == ("dead", 2, [])
    for job in jobs:
        job.refresh_from_db()
        assert (job.status, job.worker_id) == ("pending", None)
    assert client.post(f"{URL}/{worker.id}/recover").status_code == 409
    assert client.delete(f"{URL}/{worker.id}?reason=cleared").status_code == 204
    assert client.get(f"{URL}/{worker.id}").status_code == 404
    assert client.delete(f"{URL}/{worker.id}").status_code == 404
    assert list(AuditEntry.objects.order_by("id").values_list("action", "reason")) == [
        ("worker.recover", "gone"), ("worker.forget", "cleared"),
    ]  # fmt: skip


def test_a_worker_that_lives_is_neither_recovered_nor_forgotten(api: Api) -> None:
    worker = make_worker()
    client = api("Supervisor")
    answer = client.post(f"{URL}/{worker.id}/recover")
    assert (answer.status_code, "alive" in answer.json()["detail"]) == (409, True)
    assert client.delete(f"{URL}/{worker.id}").status_code == 409
    assert client.delete(f"{URL}/{worker.id}?why=x").status_code == 400
    assert client.post(f"{URL}/{worker.id}/recover", {"x": 1}, format="json").status_code == 400
    assert Worker.objects.get().state == "running"


@pytest.mark.parametrize("state", ["stopped", "dead"])
def test_a_worker_that_has_ended_cannot_be_stopped(api: Api, state: str) -> None:
    worker = make_worker(state=state)
    answer = api("Operator").post(f"{URL}/{worker.id}/stop")
    assert answer.status_code == 409
    assert state in answer.json()["detail"]
    assert Worker.objects.get().stop_requested_at is None
    assert not AuditEntry.objects.exists()


def test_hostile_ids_parameters_and_bodies_are_refused(api: Api) -> None:
    client = api("superuser")
    worker = make_worker()
    assert hostile.answers(client, "get", [f"{URL}/{bad}" for bad in hostile.IDS]) == []
    for end in ("stop", "recover"):
        assert hostile.answers(client, "post", [f"{URL}/{bad}/{end}" for bad in hostile.IDS]) == []
    assert hostile.answers(client, "delete", [f"{URL}/{bad}" for bad in hostile.IDS]) == []
    for query in (*hostile.QUERIES, "state=busy", "state=%00", "host=%00", "name=x"):
        assert client.get(f"{URL}?{query}").status_code == 400, query
    refused = hostile.refusals_of_bodies(client, "post", f"{URL}/{worker.id}/stop")
    assert refused in ([], [(b"", 202)])


@pytest.mark.parametrize("group", ["Viewer", "Operator", "Supervisor", None])
def test_only_who_may_control_workers_stops_them(api: Api, group: str | None) -> None:
    worker = make_worker()
    client = api(group)
    refused = 401 if group is None else 403
    for path in (URL, f"{URL}/{worker.id}"):
        assert client.get(path).status_code == (refused if group is None else 200)
    allowed = group in ("Operator", "Supervisor")
    assert client.post(f"{URL}/{worker.id}/stop").status_code == (202 if allowed else refused)
    for asked in (client.post(f"{URL}/{worker.id}/recover"), client.delete(f"{URL}/{worker.id}")):
        assert asked.status_code == (409 if allowed else refused)
