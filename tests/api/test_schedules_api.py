"""`/api/v1/schedules`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine

from jobs import registry
from jobs.models import AuditEntry, Job, Schedule
from jobs.permissions import CREATE, EDIT_SCHEDULE, RUN_SCHEDULE, VIEW
from jobs.schedules import previewing
from jobs.timing import CronRule
from tests.api import hostile
from tests.api.conftest import Api
from tests.factories import make_schedule

pytestmark = pytest.mark.django_db

URL = "/api/v1/schedules"
SECRET = "hunter2-hunter2"
NEW = {
    "name": "morning report",
    "type": "schedule.report",
    "payload": {"to": "anna", "password": SECRET},
    "cron": "0 8 * * 1-5",
    "time_zone": "Europe/Berlin",
    "metadata": {"team": "ops"},
}


@pytest.fixture(autouse=True)
def _handler() -> Iterator[None]:
    handler = registry.handler("schedule.report", queue="mail", mask=("password",))
    handler(lambda payload: None)
    yield
    registry.remove("schedule.report")


def created(client: Any, **fields: Any) -> Any:
    answer = client.post(URL, {**NEW, **fields}, format="json")
    assert answer.status_code == 201, answer.json()
    return answer.json()


def test_a_schedule_is_created_read_changed_and_deleted(api: Api) -> None:
    client = api("Operator")
    made = client.post(URL, NEW, format="json")
    assert made.status_code == 201
    place = made.headers["Location"]
    one = client.get(place).json()
    assert one == made.json()
    assert (one["name"], one["queue"], one["enabled"]) == ("morning report", "mail", True)
    assert one["rule"].endswith(", Europe/Berlin time")
    assert one["next_slot"].endswith("Z")
    assert one["hidden"] == []

    changed = client.patch(place, {"cron": "0 9 * * *", "priority": 1}, format="json")
    assert changed.status_code == 200
    assert (changed.json()["cron"], changed.json()["priority"]) == ("0 9 * * *", 1)
    assert changed.json()["payload"]["to"] == "anna"
    # The rule's zone stays when only the expression changes.
    assert changed.json()["time_zone"] == "Europe/Berlin"

    assert client.delete(place).status_code == 204
    assert client.get(place).status_code == 404
    assert client.delete(place).status_code == 404
    actions = AuditEntry.objects.order_by("id").values_list("actor", "action")
    name = client.user.get_username()
    assert list(actions) == [
        (name, "schedule.create"),
        (name, "schedule.change"),
        (name, "schedule.delete"),
    ]


def test_the_list_is_newest_first_and_each_schedule_is_in_it_once(api: Api) -> None:
    ids = [str(make_schedule().id) for _ in range(25)]
    client = api("Viewer")
    seen: list[str] = []
    url: str | None = f"{URL}?limit=7"
    while url:
        page = client.get(url).json()
        assert not {"payload", "metadata"} & page["results"][0].keys()
        seen += [row["id"] for row in page["results"]]
        # What is made meanwhile neither shifts nor repeats anything.
        make_schedule()
        url = page["next"]
    assert seen == ids[::-1]


def test_the_list_is_narrowed_by_name_type_queue_and_whether_it_is_enabled(api: Api) -> None:
    make_schedule(name="Nightly backup", type="backup", queue="slow")
    make_schedule(name="100% report", enabled=False)
    make_schedule(name="hourly report")
    client = api("Viewer")

    def names(query: str) -> set[str]:
        return {row["name"] for row in client.get(f"{URL}?{query}").json()["results"]}

    assert names("search=REPORT") == {"100% report", "hourly report"}
    assert names("search=%25") == {"100% report"}
    assert names("enabled=false") == {"100% report"}
    assert names("enabled=true&search=report") == {"hourly report"}
    assert names("type=backup") == names("queue=slow") == {"Nightly backup"}
    assert names("search=nothing") == set()


@pytest.mark.parametrize(
    "query", ["enabled=maybe", "enabled=1", "search=%00", "type=" + "x" * 200, *hostile.QUERIES]
)
def test_a_filter_that_is_not_understood_is_refused(api: Api, query: str) -> None:
    make_schedule()
    answer = api("Viewer").get(f"{URL}?{query}")
    assert answer.status_code == 400, answer.content
    assert answer.json()


def test_what_a_reader_may_not_see_is_null_and_named_and_masked_keys_only_superusers_see(
    api: Api,
) -> None:
    id = created(api("Operator"))["id"]
    Schedule.objects.update(last_error=f"ValueError: {SECRET}")

    viewer = api("Viewer").get(f"{URL}/{id}")
    assert viewer.json()["payload"] is None
    assert viewer.json()["metadata"] is None
    assert viewer.json()["last_error"] is None
    assert viewer.json()["hidden"] == ["payload", "metadata", "last_error"]
    assert SECRET not in viewer.content.decode()
    assert SECRET not in api("Viewer").get(URL).content.decode()

    operator = api("Operator").get(f"{URL}/{id}").json()
    assert operator["payload"] == {"to": "anna", "password": "••••••"}
    assert operator["metadata"] == {"team": "ops"}
    assert api("superuser").get(f"{URL}/{id}").json()["payload"]["password"] == SECRET


def test_who_may_change_but_not_read_is_answered_without_the_payload(api: Api) -> None:
    client = api([VIEW, EDIT_SCHEDULE])
    made = created(client)
    assert made["payload"] is None
    changed = client.patch(f"{URL}/{made['id']}", {"priority": 3}, format="json")
    assert changed.json()["payload"] is None
    assert Schedule.objects.get().payload["password"] == SECRET


def test_enable_and_disable_are_the_same_when_repeated(api: Api) -> None:
    client = api("Operator")
    id = created(client)["id"]
    for _ in range(2):
        off = client.post(f"{URL}/{id}/disable")
        assert off.status_code == 200
        assert (off.json()["enabled"], off.json()["next_slot"]) == (False, None)
    for _ in range(2):
        on = client.post(f"{URL}/{id}/enable")
        assert on.json()["enabled"] is True
        assert on.json()["next_slot"] is not None
    assert AuditEntry.objects.filter(action="schedule.disable").count() == 1


def test_run_now_makes_an_extra_job_that_takes_no_slot(api: Api) -> None:
    client = api("Operator")
    made = created(client, enabled=False)
    answer = client.post(f"{URL}/{made['id']}/run-now")
    assert answer.status_code == 201
    job = Job.objects.get(id=answer.json()["job_id"])
    assert (job.type, job.queue, job.schedule_slot) == ("schedule.report", "mail", None)
    assert Schedule.objects.get().next_slot is None

    again = {"HTTP_IDEMPOTENCY_KEY": "once"}
    ids = {client.post(f"{URL}/{made['id']}/run-now", **again).json()["job_id"] for _ in range(3)}
    assert len(ids) == 1
    assert Job.objects.count() == 2


def test_the_next_run_is_skipped_if_it_is_the_one_that_is_meant(api: Api) -> None:
    client = api("Operator")
    made = created(client)
    url = f"{URL}/{made['id']}/skip-next"
    answer = client.post(url, {"slot": made["next_slot"]}, format="json")
    assert answer.status_code == 200
    assert answer.json()["next_slot"] > made["next_slot"]
    assert client.post(url, {"slot": made["next_slot"]}, format="json").status_code == 409
    for wrong in ({"slot": "x"}, {"slot": None}, {"at": "x"}):
        assert client.post(url, wrong, format="json").status_code == 400
    assert api("Viewer").post(url).status_code == 403


def test_the_same_creation_with_the_same_key_makes_one_schedule(api: Api) -> None:
    client = api("Operator")
    answers = [
        client.post(URL, NEW, format="json", HTTP_IDEMPOTENCY_KEY="abc").json() for _ in range(2)
    ]
    assert answers[0] == answers[1]
    assert Schedule.objects.count() == 1
    other = client.post(URL, {**NEW, "name": "b"}, format="json", HTTP_IDEMPOTENCY_KEY="abc")
    assert other.status_code == 409


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"name": ""}, "name"),
        ({"name": "x" * 201}, "name"),
        ({"name": "taken"}, "name"),
        ({"type": "nobody.knows"}, "type"),
        ({"cron": "61 * * * *"}, "cron"),
        ({"cron": "0 0 30 2 *"}, "cron"),
        ({"time_zone": "Mars/Olympus"}, "time_zone"),
        ({"recur_interval": "every_5_minutes"}, "cron"),
        ({"cron": None, "time_zone": None}, "recur_interval"),
        ({"anchor_at": "2026-01-01T00:00:00"}, "anchor_at"),
        ({"priority": "1"}, "priority"),
        ({"priority": 4}, "priority"),
        ({"priority": True}, "priority"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"enabled": "true"}, "enabled"),
        ({"misfire": "never"}, "misfire"),
        ({"metadata": []}, "metadata"),
        ({"payload": {"a": "\x00"}}, "payload.a"),
        ({"queue": "a b"}, "queue"),
        ({"on_parent_failure": "cry"}, "on_parent_failure"),
        ({"next_slot": "2026-01-01T00:00:00Z"}, "next_slot"),
        ({"id": "0190d4a8-0000-7000-8000-000000000000"}, "id"),
    ],
)
def test_a_bad_field_is_named_and_nothing_is_stored(
    api: Api, fields: dict[str, Any], named: str
) -> None:
    make_schedule(name="taken")
    answer = api("Operator").post(URL, {**NEW, **fields}, format="json")
    assert answer.status_code == 400
    assert list(answer.json()) == [named]
    assert Schedule.objects.count() == 1
    assert not AuditEntry.objects.exists()


def test_hostile_ids_bodies_and_fields_are_refused(api: Api) -> None:
    client = api("superuser")
    id = created(client)["id"]
    for method, ends in (
        ("get", ("", "/next-runs")),
        ("patch", ("",)),
        ("delete", ("",)),
        ("post", ("/enable", "/disable", "/run-now", "/skip-next")),
    ):
        paths = [f"{URL}/{bad}{end}" for bad in hostile.IDS for end in ends]
        assert hostile.answers(client, method, paths) == []
    for method, path in (("post", URL), ("patch", f"{URL}/{id}"), ("post", f"{URL}/preview")):
        assert hostile.refusals_of_bodies(client, method, path) == []
    fields = ("name", "type", "payload", "cron", "recur_interval", "time_zone", "anchor_at", "queue",
              "priority", "max_attempts", "metadata", "misfire", "allow_overlap", "x")  # fmt: skip
    assert hostile.refusals_of_fields(client, "post", URL, NEW, fields) == []
    assert hostile.refusals_of_fields(client, "patch", f"{URL}/{id}", {}, fields[:8]) == []
    rule = {"cron": "* * * * *"}
    rules = ("cron", "recur_interval", "time_zone", "anchor_at", "count")
    assert hostile.refusals_of_fields(client, "post", f"{URL}/preview", rule, rules) == []


@pytest.mark.parametrize("query", ["count=0", "count=101", "count=x", "count=%00", "many=1"])
def test_a_bad_count_of_next_runs_is_refused(api: Api, query: str) -> None:
    assert api("Viewer").get(f"{URL}/{make_schedule().id}/next-runs?{query}").status_code == 400


def test_the_next_runs_of_a_disabled_schedule_are_those_it_would_have(api: Api) -> None:
    schedule = make_schedule(enabled=False, anchor_at=datetime(2099, 1, 1, tzinfo=UTC))
    answer = api("Viewer").get(f"{URL}/{schedule.id}/next-runs?count=2").json()
    assert [run["at"] for run in answer["runs"]] == [
        "2099-01-01T00:00:00+00:00",
        "2099-01-01T00:01:00+00:00",
    ]
    assert answer["rule"] == "every minute"


def test_a_rule_is_previewed_without_being_stored(api: Api) -> None:
    client = api("Viewer")
    body = {"cron": "0 12 * * *", "time_zone": "America/New_York", "count": 3}
    answer = client.post(f"{URL}/preview", body, format="json")
    assert answer.status_code == 200
    runs = answer.json()["runs"]
    assert len(runs) == 3
    assert all(run["local"][11:19] == "12:00:00" for run in runs)
    assert not Schedule.objects.exists()
    refused = client.post(f"{URL}/preview", {"cron": "0 0 31 2,4 *"}, format="json")
    assert list(refused.json()) == ["cron"]


def notes(cron: str, start: str, days: int = 3) -> dict[str, str]:
    """The notes of a rule around a clock change in Berlin, by the local time of the run."""
    rule = CronRule(cron=cron, time_zone="Europe/Berlin")
    since = datetime.fromisoformat(start)
    slots = rule.slots_between(since, since + timedelta(days=days), 100)
    runs = previewing.described(rule, slots)
    return {run.local.strftime("%d %H:%M %z"): run.note for run in runs if run.note}


def test_runs_around_a_clock_change_say_what_it_does_to_them() -> None:
    forward = "the clocks have gone forward by 1 h since the run before"
    back = "the clocks have gone back by 1 h since the run before"
    gap = "its clock time is skipped that day; it runs right after the gap"
    twice = "this clock time comes twice that day; it runs at the "
    assert notes("30 2 * * *", "2026-03-28T00:00:00Z") == {"29 03:00 +0200": f"{forward}; {gap}"}
    assert notes("30 2 * * *", "2026-10-24T00:00:00Z") == {
        "25 02:30 +0200": f"{twice}first",
        "26 02:30 +0100": back,
    }
    assert notes("30 * * * *", "2026-10-24T22:00:00Z", days=1) == {
        "25 02:30 +0200": f"{twice}first",
        "25 02:30 +0100": f"{back}; {twice}second",
    }
    assert notes("0 12 * * *", "2026-06-01T00:00:00Z") == {}
    assert (
        previewing.described(make_rule_of_an_interval(), [datetime(2026, 3, 29, tzinfo=UTC)])[
            0
        ].note
        == ""
    )


def make_rule_of_an_interval() -> Any:
    from jobs.timing import IntervalRule

    return IntervalRule(seconds=60)


def test_the_preview_of_a_rare_rule_is_not_a_way_to_keep_the_server_busy(api: Api) -> None:
    """Each of a hundred runs is years after the one before; still it is a few thousand steps."""
    body = {"cron": "59 23 29 2 *", "count": 100}
    with time_machine.travel("2026-01-01T00:00:00Z", tick=True):
        runs = api("Viewer").post(f"{URL}/preview", body, format="json").json()["runs"]
    assert len(runs) == 100
    assert all(run["at"][5:10] == "02-29" for run in runs)


@pytest.mark.parametrize(
    "group", ["Viewer", "Operator", "Supervisor", None, (CREATE, RUN_SCHEDULE)]
)
def test_only_who_may_change_schedules_changes_them(api: Api, group: Any) -> None:
    id = make_schedule(type="schedule.report").id
    client = api(group)
    may_see = group in ("Viewer", "Operator", "Supervisor")
    may_edit = group in ("Operator", "Supervisor")
    may_run = may_edit or group == (CREATE, RUN_SCHEDULE)
    refused = 401 if group is None else 403

    def expect(answer: Any, allowed: bool, status: int = 200) -> None:
        assert answer.status_code == (status if allowed else refused)

    expect(client.get(URL), may_see)
    expect(client.get(f"{URL}/{id}"), may_see)
    expect(client.get(f"{URL}/{id}/next-runs"), may_see)
    expect(client.post(f"{URL}/preview", {"cron": "* * * * *"}, format="json"), may_see)
    expect(client.post(URL, NEW, format="json"), may_edit, 201)
    expect(client.patch(f"{URL}/{id}", {"priority": 1}, format="json"), may_edit)
    expect(client.post(f"{URL}/{id}/disable"), may_edit)
    expect(client.post(f"{URL}/{id}/enable"), may_edit)
    expect(client.post(f"{URL}/{id}/run-now"), may_run, 201)
    expect(client.delete(f"{URL}/{id}"), may_edit, 204)
    assert client.put(f"{URL}/{id}", {}, format="json").status_code == (
        401 if group is None else 405
    )
