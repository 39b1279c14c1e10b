"""`/api/v1/ranges`."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import pytest
from django.db import connection
from django.db.models import Q
from django.test.utils import CaptureQueriesContext

from jobs.models import AuditEntry, Job, Schedule, Worker
from jobs.permissions import CONTROL_RUN, VIEW
from jobs.testing import run_due_jobs
from ranges.axes import DateRange, IntRange, TextRange
from ranges.declaring import RangeJob
from ranges.models import RangeFailure, RangeNode, RangeRun
from ranges.retrying import RetryPolicy, fixed
from ranges.sizing import Leaf
from tests.api import hostile
from tests.api.conftest import Api
from tests.factories import ago, make_schedule, make_worker

pytestmark = pytest.mark.django_db

URL = "/api/v1/ranges"
SECRET = "hunter2-hunter2"


class Sifting(RangeJob):
    """Fails at the keys that its parameter names."""

    name = "api.Sifting"
    over = IntRange(0, 1_000)
    leaf = Leaf(max_size=100)
    concurrency = 2
    retry = RetryPolicy(max_attempts=1, backoff=fixed(0))
    failure_threshold: ClassVar[float | None] = None

    def process(self, leaf: Any, context: Any) -> None:
        for key in leaf:
            if key in context.params.get("bad", ()):
                raise ValueError(f"bad key {key} {SECRET}")


class Vast(RangeJob):
    name = "api.Vast"
    over = IntRange(0, 2**60)

    def process(self, leaf: Any, context: Any) -> None: ...


class Daily(RangeJob):
    name = "api.Daily"
    over = DateRange("2024-01-01", "2025-01-01")

    def process(self, leaf: Any, context: Any) -> None: ...


class Words(RangeJob):
    name = "api.Words"
    over = TextRange("a", "z")

    def process(self, leaf: Any, context: Any) -> None: ...


class Finishing(RangeJob):
    name = "api.Finishing"
    over = Schedule
    todo = Q(enabled=True)

    def process(self, leaf: Any, context: Any) -> int:
        return int(leaf.queryset.update(enabled=False))


class Broken(RangeJob):
    name = "api.Broken"

    def over(self) -> Any:
        raise RuntimeError(SECRET)

    def process(self, leaf: Any, context: Any) -> None: ...


def created(client: Any, **fields: Any) -> Any:
    answer = client.post(URL, {"job": "api.Sifting", **fields}, format="json")
    assert answer.status_code == 201, answer.json()
    return answer.json()


def ended(client: Any, **fields: Any) -> str:
    """A run that has gone to its end."""
    run = created(client, start_now=True, **fields)
    run_due_jobs(retries=True)
    return str(run["id"])


def one(client: Any, id: str) -> Any:
    return client.get(f"{URL}/{id}").json()


def act(client: Any, id: str, what: str, **body: Any) -> Any:
    return client.post(f"{URL}/{id}/{what}", body, format="json")


def test_a_run_is_created_started_worked_and_read(api: Api) -> None:
    client = api("Operator")
    made = client.post(
        URL, {"job": "api.Sifting", "start": 100, "end": 600, "concurrency": 3}, format="json"
    )
    assert made.status_code == 201
    run = made.json()
    assert (run["status"], run["lo"], run["hi"]) == ("created", 100, 600)
    assert (run["concurrency"], run["progress"]["line"]) == (3, "not started")
    assert client.get(made.headers["Location"]).json() == run
    assert not Job.objects.exists()

    started = act(client, run["id"], "start")
    assert (started.status_code, started.json()["status"]) == (200, "running")
    assert act(client, run["id"], "start").status_code == 409
    run_due_jobs()
    done = one(client, run["id"])
    assert done["status"] == "completed"
    progress = done["progress"]
    assert (progress["percent"], progress["processed"], progress["left"]) == (100.0, "500", "0")
    assert progress["leaves"] >= 5
    assert done["verdict"]["ok"] is True
    who = client.user.get_username()
    actions = AuditEntry.objects.order_by("id").values_list("action", "actor")
    assert list(actions) == [("range.create", who), ("range.start", who)]


def test_a_run_can_be_started_as_it_is_created_all_or_nothing(api: Api) -> None:
    run = created(api("Operator"), start_now=True, params={"bad": []}, metadata={"ticket": 7})
    assert run["status"] == "running"
    assert run["job_id"] == str(Job.objects.get(type="ranges.run").id)
    assert (run["params"], run["metadata"]) == ({"bad": []}, {"ticket": 7})

    refused = {"job": "api.Sifting", "start_now": True, "depends_on": [run["id"]]}
    assert api("Operator").post(URL, refused, format="json").status_code == 400
    assert RangeRun.objects.count() == 1


@pytest.mark.parametrize(
    ("job", "bounds", "shown"),
    [
        ("api.Sifting", ("5", 10), (5, 10)),
        ("api.Vast", (0, str(2**59)), (0, str(2**59))),
        ("api.Daily", ("2024-03-01", "2024-04-01"), ("2024-03-01", "2024-04-01")),
        ("api.Words", ("b", "bé"), ("b", "bé")),
        ("api.Sifting", (None, None), (0, 1_000)),
        ("api.Sifting", (7, 7), (7, 7)),
    ],
)
def test_bounds_are_keys_in_their_json_form(
    api: Api, job: str, bounds: tuple[Any, Any], shown: tuple[Any, Any]
) -> None:
    run = created(api("Operator"), job=job, start=bounds[0], end=bounds[1])
    assert (run["lo"], run["hi"]) == shown


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"job": "api.Nobody"}, "job"),
        ({"job": 5}, "job"),
        ({"start": 5.5}, "start"),
        ({"start": [1]}, "start"),
        ({"start": True}, "start"),
        ({"start": "5", "end": "4"}, "end"),
        ({"job": "api.Daily", "start": "2024-02-30"}, "start"),
        ({"job": "api.Daily", "end": 5}, "end"),
        ({"job": "api.Words", "start": "a\x00"}, "start"),
        ({"max_range_size": 0}, "max_range_size"),
        ({"max_range_size": "5"}, "max_range_size"),
        ({"concurrency": 0}, "concurrency"),
        ({"concurrency": 1_001}, "concurrency"),
        ({"concurrency": True}, "concurrency"),
        ({"max_depth": 201}, "max_depth"),
        ({"failure_threshold": 101}, "failure_threshold"),
        ({"failure_threshold": "5"}, "failure_threshold"),
        ({"priority": 0}, "priority"),
        ({"queue": "a b"}, "queue"),
        ({"params": []}, "params"),
        ({"params": {"a": "\x00"}}, "params.a"),
        ({"metadata": {"a": "\x00"}}, "metadata.a"),
        ({"scheduled_at": "tomorrow"}, "scheduled_at"),
        ({"scheduled_at": "2020-01-01T00:00:00Z"}, "scheduled_at"),
        ({"depends_on": "x"}, "depends_on"),
        ({"depends_on": ["x"]}, "depends_on"),
        ({"start_now": "yes"}, "start_now"),
        ({"status": "completed"}, "status"),
        ({"atomic": False}, "atomic"),
    ],
)
def test_a_bad_field_is_named_and_nothing_is_made(
    api: Api, fields: dict[str, Any], named: str
) -> None:
    client = api("Operator")
    answer = client.post(URL, {"job": "api.Sifting", **fields}, format="json")
    assert answer.status_code == 400
    assert list(answer.json()) == [named]
    assert not RangeRun.objects.exists()
    if named not in ("priority", "queue", "params", "params.a", "metadata.a", "scheduled_at",
                     "depends_on", "start_now", "status", "atomic"):  # fmt: skip
        planned = client.post(f"{URL}/plan", {"job": "api.Sifting", **fields}, format="json")
        assert planned.status_code == 400
        assert list(planned.json()) == [named]


def test_the_same_creation_with_the_same_key_makes_one_run(api: Api) -> None:
    client = api("Operator")
    body = {"job": "api.Sifting", "start_now": True}
    answers = [client.post(URL, body, format="json", HTTP_IDEMPOTENCY_KEY="k") for _ in range(2)]
    assert answers[0].json() == answers[1].json()
    assert RangeRun.objects.count() == 1


def test_the_list_is_newest_first_narrowed_and_read_in_as_many_statements_for_many_runs(
    api: Api,
) -> None:
    client = api("Operator")
    ids = [created(client)["id"] for _ in range(6)]
    daily = created(client, job="api.Daily", queue="slow")["id"]
    words = created(client, job="api.Words", start_now=True)["id"]

    def listed(query: str = "") -> list[str]:
        seen: list[str] = []
        url: str | None = f"{URL}?limit=3&{query}".rstrip("&")
        while url:
            page = client.get(url).json()
            assert not {"params", "metadata", "verdict"} & page["results"][0].keys()
            seen += [run["id"] for run in page["results"]]
            url = page["next"]
        return seen

    assert listed() == [words, daily, *ids[::-1]]
    assert listed("job=api.Sifting") == ids[::-1]
    assert listed("status=running") == [words]
    assert listed("queue=slow") == [daily]
    moment = RangeRun.objects.get(id=daily).created_at.isoformat()
    # Also with the "+" of the offset as it is.
    assert listed(f"created_after={moment}") == [words, daily]
    assert listed(f"created_before={moment.replace('+', '%2B')}") == ids[::-1]

    with CaptureQueriesContext(connection) as few:
        client.get(f"{URL}?limit=1")
    with CaptureQueriesContext(connection) as many:
        assert len(client.get(f"{URL}?limit=8").json()["results"]) == 8
    assert len(many) == len(few)


def test_a_run_is_paused_resumed_retuned_and_cancelled(api: Api) -> None:
    client = api("Operator")
    id = created(client, start_now=True)["id"]
    paused = act(client, id, "pause", reason="replicas lag").json()
    assert (paused["status"], paused["reason"]) == ("paused", "replicas lag")
    assert act(client, id, "retune", concurrency=5).json()["concurrency"] == 5
    resumed = act(client, id, "resume").json()
    assert (resumed["status"], resumed["reason"]) == ("running", "")
    cancelled = act(client, id, "cancel", reason="enough").json()
    assert (cancelled["status"], cancelled["reason"]) == ("cancelled", "enough")
    for what in ("pause", "resume", "start", "retry-failed"):
        refused = act(client, id, what)
        assert refused.status_code == 409
        assert "cancelled" in refused.json()["detail"]
    assert act(client, id, "retune", concurrency=2).status_code == 409
    assert act(client, id, "force-pause").status_code == 409
    assert Job.objects.get(type="ranges.run").status == "cancelled"


def test_a_run_is_taken_from_workers_that_say_nothing_and_from_no_others(api: Api) -> None:
    client = api("Operator")
    id = created(client, start_now=True)["id"]
    worker = make_worker()
    Job.objects.filter(type="ranges.run").update(
        status="processing", worker_id=worker.id, started_at=ago(minutes=9), attempt_count=1,
        lease_epoch=1,
    )  # fmt: skip
    refused = act(client, id, "force-pause")
    assert (refused.status_code, "signs of life" in refused.json()["detail"]) == (409, True)
    assert one(client, id)["status"] == "running"
    Worker.objects.update(beat_at=ago(minutes=5))
    paused = act(client, id, "force-pause", reason="the host is gone").json()
    assert (paused["status"], paused["reason"]) == ("paused", "the host is gone")
    job = Job.objects.get(type="ranges.run")
    assert (job.status, job.worker_id) == ("pending", None)
    entry = AuditEntry.objects.get(action="range.force_pause")
    assert (entry.reason, entry.data["ids"]) == ("the host is gone", [str(job.id)])
    assert act(client, id, "resume").json()["status"] == "running"


@pytest.mark.parametrize(
    ("what", "body", "named"),
    [
        ("pause", {"reason": 5}, "reason"),
        ("pause", {"why": "x"}, "why"),
        ("force-pause", {"reason": 5}, "reason"),
        ("retune", {}, "concurrency"),
        ("retune", {"concurrency": 0}, "concurrency"),
        ("retune", {"concurrency": 10**30}, "concurrency"),
        ("retune", {"concurrency": 1.0}, "concurrency"),
        ("verify", {"complete": 1}, "complete"),
        ("start", {"now": True}, "now"),
        ("resume", {"code_version": 2}, "code_version"),
        ("resume", {"code_version": "2" * 101}, "code_version"),
        ("resume", {"code_version": None}, "code_version"),
        ("retry-failed", {"failures": []}, "failures"),
        ("retry-failed", {"failures": ["1"]}, "failures"),
        ("retry-failed", {"failures": [True]}, "failures"),
        ("retry-failed", {"failures": [0]}, "failures"),
        ("retry-failed", {"failures": [10**30]}, "failures"),
        ("retry-failed", {"failures": [*range(1, 1_002)]}, "failures"),
        ("retry-failed", {"failures": 1}, "failures"),
    ],
)
def test_a_bad_argument_of_an_action_is_named(
    api: Api, what: str, body: dict[str, Any], named: str
) -> None:
    client = api("Operator")
    id = created(client)["id"]
    answer = act(client, id, what, **body)
    assert answer.status_code == 400
    assert list(answer.json()) == [named]
    assert one(client, id)["status"] == "created"


def test_failures_are_listed_read_retried_and_waived(api: Api) -> None:
    client = api("Operator")
    id = ended(client, params={"bad": [3, 500, 999]})
    run = one(client, id)
    assert (run["status"], run["progress"]["open_failures"]) == ("partially_failed", 3)

    first = client.get(f"{URL}/{id}/failures?limit=2").json()
    rest = client.get(first["next"]).json()
    rows = first["results"] + rest["results"]
    assert sorted(row["key"] for row in rows) == ["3", "500", "999"]
    assert all("bad key" in row["error"] and "traceback" not in row for row in rows)
    [number] = [row["id"] for row in rows if row["key"] == "500"]
    single = client.get(f"{URL}/{id}/failures/{number}").json()
    assert "Traceback" in single["traceback"]

    waived = client.post(
        f"{URL}/{id}/failures/{number}/waive", {"reason": "a test row"}, format="json"
    )
    assert waived.status_code == 200
    assert (waived.json()["state"], waived.json()["reason"]) == ("waived", "a test row")
    assert waived.json()["resolved_by"] == client.user.get_username()
    again = client.post(f"{URL}/{id}/failures/{number}/waive", {"reason": "x"}, format="json")
    assert again.status_code == 409
    left = client.get(f"{URL}/{id}/failures?state=open").json()["results"]
    assert sorted(row["key"] for row in left) == ["3", "999"]

    RangeRun.objects.update(params={})
    assert act(client, id, "retry-failed").json()["status"] == "running"
    run_due_jobs(retries=True)
    assert one(client, id)["status"] == "completed"
    assert client.get(f"{URL}/{id}/failures?state=open").json()["results"] == []


def test_some_failures_are_retried_and_the_others_stay_open(api: Api) -> None:
    client = api("Operator")
    id = ended(client, params={"bad": [3, 500, 999]})
    other = ended(client, params={"bad": [4]})
    numbers = dict(RangeFailure.objects.filter(run__id=id).values_list("key", "id"))
    RangeRun.objects.update(params={})
    of_other = RangeFailure.objects.get(run__id=other).id
    for wrong in (of_other, 2**63 - 1):
        asked = [numbers["3"], wrong]
        assert act(client, id, "retry-failed", failures=asked).status_code == 404
    assert act(client, id, "retry-failed", failures=[numbers["3"]]).json()["status"] == "running"
    run_due_jobs(retries=True)
    run = one(client, id)
    assert (run["status"], run["progress"]["open_failures"]) == ("partially_failed", 2)
    assert act(client, id, "retry-failed", failures=[numbers["3"]]).status_code == 409


def test_what_failed_is_waived_together_and_the_range_is_run_again(api: Api) -> None:
    client = api("Operator")
    id = ended(client, params={"bad": [3, 500]})
    assert act(client, id, "waive-failed").status_code == 400
    assert act(client, id, "waive-failed", reason="rows of a test").status_code == 200
    run_due_jobs(retries=True)
    assert one(client, id)["status"] == "completed"
    assert act(client, id, "waive-failed", reason="x").status_code == 409
    made = act(client, id, "again")
    assert made.status_code == 201
    assert made["Location"].endswith(f"{URL}/{made.json()['id']}")
    assert (made.json()["status"], made.json()["id"] != id) == ("created", True)
    RangeRun.objects.filter(id=id).update(name="gone.Away")
    assert act(client, id, "again").status_code in (400, 409)
    assert RangeRun.objects.count() == 2


def test_a_run_is_resumed_with_another_version_of_its_class(api: Api) -> None:
    client = api("Operator")
    id = created(client, start_now=True)["id"]
    act(client, id, "pause")
    assert act(client, id, "resume", code_version="2").json()["status"] == "running"
    assert RangeRun.objects.get(id=id).code_version == "2"


def test_a_failure_of_another_run_is_not_to_be_had_through_this_one(api: Api) -> None:
    client = api("Operator")
    mine, other = ended(client, params={"bad": [3]}), ended(client, params={"bad": [4]})
    number = RangeFailure.objects.get(run__id=other).id
    assert client.get(f"{URL}/{mine}/failures/{number}").status_code == 404
    waive = f"{URL}/{mine}/failures/{number}/waive"
    assert client.post(waive, {"reason": "x"}, format="json").status_code == 404
    assert RangeFailure.objects.get(run__id=other).state == "open"


@pytest.mark.parametrize("body", [{}, {"reason": ""}, {"reason": " "}, {"reason": None}, {"x": 1}])
def test_a_failure_is_not_waived_without_a_reason(api: Api, body: dict[str, Any]) -> None:
    client = api("Operator")
    id = ended(client, params={"bad": [3]})
    number = RangeFailure.objects.get().id
    answer = client.post(f"{URL}/{id}/failures/{number}/waive", body, format="json")
    assert answer.status_code == 400
    assert RangeFailure.objects.get().state == "open"


def test_the_tree_and_the_coverage_show_where_work_was_done_and_failed(api: Api) -> None:
    client = api("Viewer")
    id = ended(api("Operator"), params={"bad": [3]})
    tree = client.get(f"{URL}/{id}/tree?depth=3").json()
    assert (tree["path"], tree["lo"], tree["hi"]) == ("", 0, 1_000)
    assert (tree["processed"], tree["failed"], tree["left"]) == (999, 1, 0)
    left, right = tree["children"]
    assert (left["path"], left["lo"], left["hi"], left["state"]) == ("0", 0, 500, "error")
    assert (right["state"], "children" in right) == ("done", False)
    below = client.get(f"{URL}/{id}/tree?path=00&depth=0").json()
    assert (below["path"], below["lo"], below["hi"]) == ("00", 0, 250)

    strip = client.get(f"{URL}/{id}/coverage?width=10").json()
    assert [bucket["lo"] for bucket in strip["buckets"]] == list(range(0, 1_000, 100))
    assert [bucket["state"] for bucket in strip["buckets"]] == ["error"] + ["done"] * 9
    part = client.get(f"{URL}/{id}/coverage?from=0&to=10&width=50").json()
    assert (part["lo"], part["hi"], len(part["buckets"])) == (0, 10, 10)
    assert [bucket["failed"] for bucket in part["buckets"]] == [0, 0, 0, 1, *[0] * 6]


def test_a_text_range_has_a_tree_and_a_strip_too(api: Api) -> None:
    id = ended(api("Operator"), job="api.Words")
    client = api("Viewer")
    assert client.get(f"{URL}/{id}/tree").json()["state"] == "done"
    strip = client.get(f"{URL}/{id}/coverage?from=b&to=c&width=4").json()
    assert (strip["lo"], strip["hi"]) == ("b", "c")
    assert [bucket["lo"] for bucket in strip["buckets"]] == [None] * 4


@pytest.mark.parametrize(
    "end",
    [
        "tree?depth=11", "tree?depth=-1", "tree?depth=x", "tree?depth=" + "9" * 400, "tree?path=2",
        "tree?path=" + "0" * 40, "tree?path=" + "0" * 5_000, "tree?path=%00", "tree?x=1",
        "coverage?width=0", "coverage?width=1025", "coverage?width=1e2", "coverage?from=x",
        "coverage?from=-1", "coverage?to=1001", "coverage?from=9&to=8", "coverage?from=%00",
        "coverage?from=" + "9" * 5_000, "coverage?x=1", "coverage?width=5&width=6",
        "failures?state=closed", "failures?x=1", "nodes?limit=0", "nodes?cursor=x", "nodes?x=1",
    ],
)  # fmt: skip
def test_a_bad_parameter_of_a_picture_is_refused(api: Api, end: str) -> None:
    id = created(api("Operator"))["id"]
    answer = api("Viewer").get(f"{URL}/{id}/{end}")
    assert answer.status_code == 400, answer.content
    assert answer.json()


def test_the_nodes_are_listed_in_the_order_they_were_made(api: Api) -> None:
    id = ended(api("Operator"), params={"bad": [3]})
    client = api("Operator")
    seen: list[Any] = []
    url: str | None = f"{URL}/{id}/nodes?limit=4"
    while url:
        page = client.get(url).json()
        seen += page["results"]
        url = page["next"]
    numbers = [node["id"] for node in seen]
    assert numbers == sorted(RangeNode.objects.values_list("id", flat=True))
    assert {node["kind"] for node in seen} == {"strand", "bisect"}
    assert sum(node["rows_failed"] for node in seen) == 1
    made = set(numbers)
    assert all(node["parent"] is None or node["parent"] in made for node in seen)


def test_verify_tells_what_it_found_and_changes_nothing(api: Api) -> None:
    id = ended(api("Operator"), params={"bad": [3]})
    client = api("Viewer")
    verdict = act(client, id, "verify").json()
    assert (verdict["ok"], verdict["is_complete"]) == (True, False)
    assert verdict["findings"] == ["1 failure is open"]
    assert (verdict["width"], verdict["width_failed"]) == ("1000", "1")

    node = RangeNode.objects.filter(kind="strand").latest("lo")
    RangeNode.objects.filter(id=node.id).delete()
    broken = act(client, id, "verify").json()
    assert broken["ok"] is False
    assert broken["findings"]
    assert one(client, id)["verdict"]["ok"] is True  # of the run's end


def test_a_run_that_goes_on_has_something_left_and_that_is_no_finding_unless_asked(
    api: Api,
) -> None:
    client = api("Operator")
    id = created(client, start_now=True)["id"]
    assert act(client, id, "verify").json()["findings"] == []
    assert act(client, id, "verify", complete=True).json()["findings"] != []


def test_a_plan_makes_nothing(api: Api) -> None:
    ids = [str(make_schedule(enabled=n < 30).id) for n in range(60)]
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE jobs_schedule")
    client = api("Operator")
    body = {"job": "api.Finishing", "concurrency": 4, "max_range_size": 10}
    plan = client.post(f"{URL}/plan", body, format="json").json()
    assert (plan["counts"], plan["lo"], plan["concurrency"]) == ("rows", ids[0], 4)
    assert plan["items"] == 60
    assert plan["index"]["probing"] == "filter"
    assert any("CREATE INDEX" in ddl for ddl in plan["index"]["ddl"])
    plain = client.post(f"{URL}/plan", {"job": "api.Vast"}, format="json").json()
    assert (plain["counts"], plain["width"], plain["hi"]) == ("width", str(2**60), str(2**60))
    assert not RangeRun.objects.exists()


def test_a_run_over_a_table_has_no_picture_before_it_is_planned(api: Api) -> None:
    make_schedule()
    client = api("Operator")
    id = created(client, job="api.Finishing")["id"]
    assert (one(client, id)["lo"], one(client, id)["hi"]) == (None, None)
    for end in ("tree", "coverage"):
        answer = client.get(f"{URL}/{id}/{end}")
        assert answer.status_code == 409
        assert "not planned" in answer.json()["detail"]
    assert client.get(f"{URL}/{id}/nodes").json()["results"] == []


def test_the_range_jobs_of_this_code_are_listed(api: Api) -> None:
    jobs = api("Viewer").get(f"{URL}/jobs").json()["jobs"]
    [sifting] = [job for job in jobs if job["name"] == "api.Sifting"]
    assert (sifting["concurrency"], sifting["failure_threshold"]) == (2, None)


def test_code_that_fails_is_a_conflict_and_tells_nothing_of_what_it_said(api: Api) -> None:
    client = api("Operator")
    for path in (URL, f"{URL}/plan"):
        answer = client.post(path, {"job": "api.Broken"}, format="json")
        assert answer.status_code == 409
        assert answer.json() == {"detail": "the range job api.Broken failed with RuntimeError"}
    assert not RangeRun.objects.exists()


def test_a_run_whose_code_is_gone_can_still_be_read_and_cancelled(api: Api) -> None:
    client = api("Operator")
    id = created(client, start_now=True)["id"]
    RangeRun.objects.update(name="api.Gone")
    assert one(client, id)["name"] == "api.Gone"
    assert client.get(f"{URL}/{id}/tree").status_code == 200
    assert act(client, id, "verify").status_code == 200
    assert act(client, id, "cancel").json()["status"] == "cancelled"


def test_what_a_reader_may_not_see_is_null_and_named(api: Api) -> None:
    operator = api("Operator")
    params = {"bad": [3], "word": SECRET, "api_token": SECRET}
    id = ended(operator, params=params, metadata={"note": SECRET})
    number = RangeFailure.objects.get().id
    paths = (URL, f"{URL}/{id}", f"{URL}/{id}/failures", f"{URL}/{id}/failures/{number}",
             f"{URL}/{id}/nodes?limit=50", f"{URL}/{id}/tree", f"{URL}/{id}/coverage")  # fmt: skip
    viewer = api("Viewer")
    for path in paths:
        answer = viewer.get(path)
        assert answer.status_code == 200
        assert SECRET not in answer.content.decode(), path
    shown = one(viewer, id)
    assert (shown["params"], shown["metadata"]) == (None, None)
    assert shown["hidden"] == ["params", "metadata"]
    failure = viewer.get(paths[3]).json()
    assert (failure["error"], failure["hidden"]) == (None, ["error", "traceback"])
    nodes = viewer.get(paths[4]).json()["results"]
    assert any(node["hidden"] == ["error"] for node in nodes)

    assert one(operator, id)["params"] == {"bad": [3], "word": SECRET, "api_token": "••••••"}
    assert one(api("superuser"), id)["params"] == params
    assert SECRET in operator.get(paths[3]).json()["error"]


def test_who_may_control_runs_but_not_read_payloads_is_answered_without_them(api: Api) -> None:
    client = api([VIEW, CONTROL_RUN])
    run = created(client, params={"word": SECRET})
    assert run["params"] is None
    assert act(client, run["id"], "start").json()["params"] is None


def test_hostile_ids_parameters_and_bodies_are_refused(api: Api) -> None:
    client = api("superuser")
    id = ended(client, params={"bad": [3]})
    reads = ("", "/tree", "/coverage", "/failures", "/nodes", "/failures/1")
    paths = [f"{URL}/{bad}{end}" for bad in hostile.IDS for end in reads]
    assert hostile.answers(client, "get", paths) == []
    acts = ("start", "pause", "force-pause", "resume", "cancel", "retry-failed", "verify",
            "retune")  # fmt: skip
    paths = [f"{URL}/{bad}/{end}" for bad in hostile.IDS for end in acts]
    assert hostile.answers(client, "post", paths) == []
    numbers = [bad for bad in hostile.IDS if bad != "0"]
    paths = [f"{URL}/{id}/failures/{bad}" for bad in numbers]
    assert hostile.answers(client, "get", paths) == []
    assert hostile.answers(client, "post", [f"{path}/waive" for path in paths]) == []
    for query in (*hostile.QUERIES, "status=busy", "job=%00", "created_after=yesterday",
                  "created_before=2026-01-01T00:00:00", "created_after=" + "9" * 40):  # fmt: skip
        assert client.get(f"{URL}?{query}").status_code == 400, query
    assert client.get(f"{URL}/{id}?x=1").status_code == 400
    for path in (URL, f"{URL}/plan", f"{URL}/{id}/retune"):
        assert hostile.refusals_of_bodies(client, "post", path) == []
    fields = ("job", "start", "end", "max_range_size", "concurrency", "max_depth",
              "failure_threshold", "params", "metadata", "priority", "queue", "scheduled_at",
              "depends_on", "start_now")  # fmt: skip
    good = {"job": "api.Sifting"}
    assert hostile.refusals_of_fields(client, "post", URL, good, fields) == []
    assert hostile.refusals_of_fields(client, "post", f"{URL}/plan", good, fields[1:4]) == []
    for job in ("api.Daily", "api.Words"):
        for path in (URL, f"{URL}/plan"):
            bounds = ("start", "end")
            assert hostile.refusals_of_fields(client, "post", path, {"job": job}, bounds) == []
    for what in ("pause", "retune", "verify"):
        bad = ("reason", "concurrency", "complete")
        assert hostile.refusals_of_fields(client, "post", f"{URL}/{id}/{what}", {}, bad) == []
    assert json.loads(client.get(f"{URL}/{id}").content)["status"] == "partially_failed"


@pytest.mark.parametrize("group", ["Viewer", "Operator", "Supervisor", None])
def test_only_who_may_control_runs_changes_them(api: Api, group: str | None) -> None:
    id = ended(api("superuser"), params={"bad": [3]})
    number = RangeFailure.objects.get().id
    client = api(group)
    refused = 401 if group is None else 403
    may = group in ("Operator", "Supervisor")
    reads = ("", f"/{id}", f"/{id}/tree", f"/{id}/coverage", f"/{id}/nodes", f"/{id}/failures",
             f"/{id}/failures/{number}", "/jobs")  # fmt: skip
    for end in reads:
        assert client.get(URL + end).status_code == (401 if group is None else 200), end
    assert act(client, id, "verify").status_code == (401 if group is None else 200)
    plan = client.post(f"{URL}/plan", {"job": "api.Sifting"}, format="json").status_code
    assert plan == (200 if may else refused)
    made = client.post(URL, {"job": "api.Sifting"}, format="json").status_code
    assert made == (201 if may else refused)
    for end in ("start", "pause", "force-pause", "resume", "cancel", "retry-failed", "retune"):
        body = {"concurrency": 2} if end == "retune" else {}
        status = act(client, id, end, **body).status_code
        assert status in (200, 409) if may else status == refused, end
    waive = client.post(f"{URL}/{id}/failures/{number}/waive", {"reason": "x"}, format="json")
    assert waive.status_code in (200, 409) if may else waive.status_code == refused
