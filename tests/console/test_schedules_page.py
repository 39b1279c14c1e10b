"""The pages of schedules: what they show, the form, and what the buttons really change."""

from __future__ import annotations

import html
import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from jobs import registry, schedules
from jobs.models import AuditEntry, Job, Schedule
from tests.console.people import client_of, read
from tests.factories import ago, make_job, make_schedule

pytestmark = pytest.mark.django_db

PAGE = "/admin/jobs/schedule/"
ADD = f"{PAGE}add/"
SCRIPT = "<script>alert(1)</script>"
MASK = "••••••"


@pytest.fixture(autouse=True)
def _a_type() -> Any:
    @registry.handler("nightly", mask=("password",))
    def nightly(payload: Any) -> None:
        pass

    yield
    registry.remove("nightly")


def new(**columns: Any) -> Schedule:
    given = {"name": "night", "type": "nightly", "recur_interval": "every_2_hours", **columns}
    return schedules.create(**given)


def fields(text: str) -> dict[str, str]:
    """What the form holds, as a browser would send it."""
    form = text.partition('id="schedule"')[2].partition("</form>")[0]
    found: dict[str, str] = {}
    for tag in re.findall(r"<input [^>]+>", form):
        name = re.search(r' name="([^"]+)"', tag)
        value = re.search(r' value="([^"]*)"', tag)
        ticked = " checked" in tag or ('type="radio"' not in tag and 'type="checkbox"' not in tag)
        if name and ticked:
            found[name[1]] = html.unescape(value[1]) if value else ""
    for name, body in re.findall(
        r'<select [^>]*name="([^"]+)"[^>]*>(.*?)</select>', form, re.DOTALL
    ):
        chosen = re.search(r"<option([^>]*) selected>([^<]*)", body) or re.search(
            r"<option([^>]*)>([^<]*)", body
        )
        assert chosen
        value = re.search(r'value="([^"]*)"', chosen[1])
        found[name] = value[1] if value else chosen[2]
    for name, body in re.findall(
        r'<textarea [^>]*name="([^"]+)"[^>]*>(.*?)</textarea>', form, re.DOTALL
    ):
        found[name] = html.unescape(body).removeprefix("\n").replace("\n", "\r\n")
    found.pop("csrfmiddlewaretoken", None)
    return found


def save(client: Client, url: str, status: int = 302, **changes: str) -> str:
    data = {**fields(read(client, url)), "action": "save", **changes}
    response = client.post(url, {name: text for name, text in data.items() if text is not None})
    assert response.status_code == status, response.content[:600]
    return response.content.decode()


def act(client: Client, schedule: Schedule, action: str, **more: str) -> Any:
    return client.post(f"{PAGE}{schedule.id}/act/", {"action": action, **more}, follow=True)


class TestTheList:
    def test_it_says_when_in_words_and_how_the_last_runs_went(self) -> None:
        one = new(recur_interval=None, cron="0 8 * * 1-5", time_zone="Europe/Berlin")
        for n, trait in enumerate(["dead", "completed", "completed", "completed"]):
            make_job(trait, type="nightly", schedule=one, schedule_slot=ago(hours=n + 1))
        text = read(client_of("Viewer"), PAGE)
        assert "Europe/Berlin time" in text
        assert "<code" in text
        assert "75 %" in text
        assert 'aria-label="Last 4: 1 dead, 3 completed"' in text

    def test_a_run_by_hand_is_not_in_the_strip(self) -> None:
        one = new()
        schedules.run_now(one)
        assert "Last 1:" not in read(client_of("Viewer"), PAGE)

    def test_tabs_and_names_narrow_it(self) -> None:
        new(name="alpha")
        new(name="beta", enabled=False)
        client = client_of("Viewer")
        for query, there in (("which=on", "alpha"), ("which=off", "beta"), ("name=BET", "beta")):
            names = re.findall(r"data-open>([^<]+)<", read(client, f"{PAGE}?{query}"))
            assert names == [there], query

    def test_pages_follow_the_names(self) -> None:
        names = [f"s{n:02}" for n in range(30)]
        for name in names:
            make_schedule(name=name)
        client = client_of("Viewer")
        first = read(client, f"{PAGE}?rows=25")
        assert re.findall(r"data-open>([^<]+)<", first) == names[:25]
        more = re.search(r'href="(\?[^"]+)" rel="next"', first)
        assert more
        second = read(client, PAGE + html.unescape(more[1]))
        assert re.findall(r"data-open>([^<]+)<", second) == names[25:]

    @pytest.mark.usefixtures("frozen")
    def test_it_costs_the_same_few_queries_however_many_there_are(self) -> None:
        for n in range(30):
            make_schedule(name=f"s{n}", next_slot=timezone.now())
        client = client_of("Operator")
        read(client, PAGE)
        with CaptureQueriesContext(connection) as asked:
            read(client, PAGE)
        assert len(asked) <= 12, [each["sql"] for each in asked]
        assert not any(" OFFSET " in each["sql"] for each in asked)

    def test_the_last_runs_are_found_by_their_index(self) -> None:
        from jobs.admin.schedules.reading import LAST

        one = new()
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL enable_seqscan = off")
            cursor.execute("EXPLAIN " + LAST, {"ids": [str(one.id)], "limit": 20})
            plan = "\n".join(row[0] for row in cursor.fetchall())
        assert "job_schedule_slot" in plan, plan

    def test_a_bad_rule_and_hostile_names_do_not_break_it(self) -> None:
        one = make_schedule(name=SCRIPT, type=SCRIPT, queue=SCRIPT, last_error=SCRIPT)
        Schedule.objects.filter(id=one.id).update(
            cron="never", interval_seconds=None, recur_interval=""
        )
        client = client_of(None)
        for url in (PAGE, f"{PAGE}{one.id}/", f"{PAGE}{one.id}/edit/"):
            assert SCRIPT not in read(client, url)

    def test_empty_names_the_next_step(self) -> None:
        assert ADD in read(client_of("Operator"), PAGE).partition("No schedules.")[2]
        assert ADD not in read(client_of("Viewer"), PAGE)


class TestOnePage:
    def test_it_shows_ten_runs_and_what_the_clocks_do(self) -> None:
        one = new(recur_interval=None, cron="30 2 * * *", time_zone="Europe/Berlin")
        Schedule.objects.filter(id=one.id).update(
            next_slot=datetime(2026, 3, 27, 1, 30, tzinfo=UTC)
        )
        text = read(client_of("Viewer"), f"{PAGE}{one.id}/")
        runs = text.partition('class="runs"')[2].partition("</ol>")[0]
        assert runs.count("<li>") == 10
        assert "is skipped that day" in runs

    def test_the_payload_is_for_who_may_read_it_and_masked(self) -> None:
        one = new(payload={"word": "plum", "password": "pear"})
        url = f"{PAGE}{one.id}/"
        assert "plum" not in read(client_of("Viewer"), url)
        text = read(client_of("Operator"), url)
        assert "plum" in text
        assert "pear" not in text
        assert "pear" in read(client_of(None), url)

    def test_what_went_wrong_is_for_who_may_read_errors(self) -> None:
        one = new()
        Schedule.objects.filter(id=one.id).update(last_error="payload: plum is no fruit")
        assert "plum" not in read(client_of("Viewer"), f"{PAGE}{one.id}/")
        assert "plum" in read(client_of("Operator"), f"{PAGE}{one.id}/")

    def test_none_is_not_found(self) -> None:
        read(client_of(None), f"{PAGE}00000000-0000-7000-8000-000000000000/", status=404)


class TestTheForm:
    def test_a_schedule_is_made_and_audited(self) -> None:
        client = client_of("Operator")
        save(
            client, ADD, name="mail", type="nightly", how="cron", cron="0 8 * * 1-5",
            time_zone="Europe/Berlin", payload='{"n": 1}', misfire="skip", overlap="yes",
            max_attempts="5", priority="1",
        )  # fmt: skip
        made = Schedule.objects.get(name="mail")
        assert (made.cron, made.time_zone, made.misfire) == ("0 8 * * 1-5", "Europe/Berlin", "skip")
        assert (made.payload, made.allow_overlap, made.max_attempts) == ({"n": 1}, True, 5)
        assert (made.priority, made.enabled) == (1, True)
        entry = AuditEntry.objects.get(action="schedule.create")
        assert entry.actor == client.username  # type: ignore[attr-defined]

    @pytest.mark.parametrize(
        ("changes", "told"),
        [
            ({"how": "cron", "cron": "61 * * * *"}, "cron"),
            ({"every": "0"}, "must be a whole number, 1 or more"),
            ({"every": "9" * 30}, "every"),
            ({"type": "unknown"}, "unknown"),
            ({"payload": "{"}, "is not JSON"),
            ({"max_attempts": "many"}, "must be a whole number"),
            ({"misfire": "perhaps"}, "must be skip, once or each"),
            ({"anchor_at": "soon"}, "must be a date and time"),
            ({"how": "cron", "cron": "0 8 * * *", "time_zone": "Mars/Base"}, "Mars/Base"),
            ({"name": ""}, "name"),
        ],
    )
    def test_what_is_wrong_is_said_and_nothing_is_made(
        self, changes: dict[str, str], told: str
    ) -> None:
        whole = {"name": "mail", "type": "nightly", **changes}
        text = save(client_of("Operator"), ADD, 422, **whole)
        assert "Nothing was saved." in text
        assert told in html.unescape(text)
        assert not Schedule.objects.exists()

    def test_a_name_that_is_taken_is_said(self) -> None:
        new(name="mail")
        assert "Nothing was saved." in save(
            client_of("Operator"), ADD, 422, name="mail", type="nightly"
        )

    def test_only_what_was_changed_is_changed(self) -> None:
        one = new(payload={"password": "pear", "n": 1}, priority=2)
        client = client_of("Operator")
        url = f"{PAGE}{one.id}/edit/"
        sent = {**fields(read(client, url)), "action": "save", "max_attempts": "9"}
        schedules.change(one, priority=1)  # meanwhile
        next_slot = Schedule.objects.get(id=one.id).next_slot
        assert client.post(url, sent).status_code == 302
        one.refresh_from_db()
        assert (one.max_attempts, one.priority, one.next_slot) == (9, 1, next_slot)
        assert one.payload == {"password": "pear", "n": 1}

    def test_a_masked_value_stays_when_the_rest_is_edited(self) -> None:
        one = new(payload={"password": "pear", "n": 1})
        save(
            client_of("Operator"),
            f"{PAGE}{one.id}/edit/",
            payload=json.dumps({"password": MASK, "n": 2}),
        )
        one.refresh_from_db()
        assert one.payload == {"password": "pear", "n": 2}

    def test_a_mask_cannot_be_carried_into_a_type_that_would_show_it(self) -> None:
        one = new(payload={"password": "pear"})

        @registry.handler("open")
        def opened(payload: Any) -> None:
            pass

        try:
            text = save(client_of("Operator"), f"{ADD}?copy={one.id}", 422, name="two", type="open")
        finally:
            registry.remove("open")
        assert "holds a mask that stands for no value there" in text

    def test_saving_nothing_says_so(self) -> None:
        one = new()
        client = client_of("Operator")
        save(client, f"{PAGE}{one.id}/edit/")
        assert "every field is as it was" in read(client, f"{PAGE}{one.id}/")
        assert not AuditEntry.objects.filter(action="schedule.change").exists()

    def test_a_duplicate_has_all_but_the_name(self) -> None:
        one = new(payload={"password": "pear"}, misfire="each", max_attempts=7)
        save(client_of("Operator"), f"{ADD}?copy={one.id}")
        made = Schedule.objects.get(name="night (copy)")
        assert made.id != one.id
        assert (made.payload, made.misfire, made.max_attempts) == (one.payload, "each", 7)
        assert made.interval_seconds == 7_200

    def test_a_preview_saves_nothing(self) -> None:
        response = client_of("Operator").post(
            ADD, {"action": "preview", "how": "cron", "cron": "0 0 1 1 *", "time_zone": "UTC"}
        )
        assert response.status_code == 200
        runs = response.content.decode().partition('class="runs"')[2].partition("</ol>")[0]
        assert runs.count("01-01 00:00:00 UTC") == 20  # as the text and in the title
        assert not Schedule.objects.exists()


class TestTheButtons:
    def test_disable_and_enable_say_what_changed(self) -> None:
        one, client = new(), client_of("Operator")
        assert "is disabled" in act(client, one, "disable").content.decode()
        assert "was disabled before" in act(client, one, "disable").content.decode()
        one.refresh_from_db()
        assert (one.enabled, one.next_slot) == (False, None)
        assert "is enabled" in act(client, one, "enable").content.decode()
        one.refresh_from_db()
        assert one.next_slot

    def test_what_the_type_refuses_is_said_in_one_sentence(self) -> None:
        one = new(type="geonames.find_city", payload={"name": "Ulm"})
        Schedule.objects.filter(id=one.id).update(payload={})
        text = act(client_of("Operator"), one, "run").content.decode()
        assert "Nothing was changed: payload.name: This field is required.<" in text

    def test_run_now_makes_a_job_and_moves_no_slot(self) -> None:
        one = new()
        before = Schedule.objects.get(id=one.id).next_slot
        text = act(client_of("Operator"), one, "run").content.decode()
        job = Job.objects.get(schedule=one)
        assert f"/admin/jobs/job/{job.id}/" in text
        assert Schedule.objects.get(id=one.id).next_slot == before

    def test_the_next_run_is_skipped_if_it_is_still_the_one_that_was_meant(self) -> None:
        one, client = new(), client_of("Operator")
        before = Schedule.objects.get(id=one.id).next_slot
        assert before
        assert 'value="skip"' in read(client, f"{PAGE}{one.id}/")
        said = act(client, one, "skip", slot=before.isoformat()).content.decode()
        assert "is skipped. The next one" in said
        after = Schedule.objects.get(id=one.id).next_slot
        assert after == before + timedelta(hours=2)
        late = act(client, one, "skip", slot=before.isoformat()).content.decode()
        assert "Nothing was changed" in late
        assert Schedule.objects.get(id=one.id).next_slot == after
        assert 'value="skip"' not in read(
            client_of("Viewer", "jobs.run_schedule"), f"{PAGE}{one.id}/"
        )

    def test_delete_asks_first_and_leaves_the_jobs(self) -> None:
        one, client = new(), client_of("Operator")
        job = schedules.run_now(one)
        asked = act(client, one, "delete").content.decode()
        assert "Deletes the schedule for good." in asked
        assert Schedule.objects.filter(id=one.id).exists()
        act(client, one, "delete", confirmed="yes")
        assert not Schedule.objects.filter(id=one.id).exists()
        assert Job.objects.filter(id=job.id).exists()

    @pytest.mark.parametrize("action", ["enable", "disable", "delete", "run", "skip", "explode"])
    def test_who_may_not_changes_nothing(self, action: str) -> None:
        one = new()
        assert act(client_of("Viewer"), one, action, confirmed="yes").status_code == 403
        one.refresh_from_db()
        assert one.enabled
        assert not Job.objects.exists()

    def test_running_and_editing_are_two_permissions(self) -> None:
        one = new()
        runner = client_of("Viewer", "jobs.run_schedule")
        text = read(runner, f"{PAGE}{one.id}/")
        assert 'value="run"' in text
        assert 'value="disable"' not in text
        assert act(runner, one, "disable").status_code == 403
        assert act(runner, one, "run").status_code == 200
        read(runner, ADD, status=403)
        read(runner, f"{PAGE}{one.id}/edit/", status=403)

    def test_looking_changes_nothing(self) -> None:
        one = new()
        assert client_of("Operator").get(f"{PAGE}{one.id}/act/?action=disable").status_code == 302
        one.refresh_from_db()
        assert one.enabled
        assert timedelta(0) < one.next_slot - timezone.now()  # type: ignore[operator]
