"""How the console looks to each person: chosen in a form, kept by the database, obeyed by every page."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from html import unescape
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.contrib.auth.models import User
from django.db import DatabaseError, connection, transaction
from django.test import Client, override_settings
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from jobs.admin.ledger import columns
from jobs.console import preferences
from jobs.filtering import Filters
from jobs.models import (
    AuditEntry,
    BulkOperation,
    Job,
    Preferences,
    Schedule,
    Webhook,
    WebhookDelivery,
)
from jobs.models.preferences import ROWS
from ranges.models import RangeFailure, RangeRun
from tests.console.people import client_of, read
from tests.factories import make_history, make_job, make_queue, make_schedule

pytestmark = pytest.mark.django_db

PAGE = "/admin/settings/"
LIST = "/admin/jobs/job/"
KATHMANDU = "Asia/Kathmandu"  # five hours and three quarters before UTC, all year round
NOON = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)
THERE = "2026-03-04 17:45:00 +0545"
ALL = {
    "theme": "dark",
    "density": "compact",
    "time_zone": KATHMANDU,
    "rows": "25",
    "reduced_colour": "on",
    "columns": ["queue", "error"],
}
"""The boxes that are not named here are not ticked."""


def user_of(client: Client) -> User:
    return User.objects.get(username=client.username)  # type: ignore[attr-defined]


def chosen_by(client: Client) -> Preferences:
    return Preferences.objects.get(user=user_of(client))


def choose(client: Client, **chosen: Any) -> None:
    preferences.save(user_of(client), **chosen)


def head(text: str) -> str:
    return text[text.index("<html") : text.index(">", text.index("<html"))]


def body(text: str) -> str:
    return text[text.index("<body") : text.index(">", text.index("<body"))]


class TestTheForm:
    def test_what_is_chosen_is_kept_and_shown(self) -> None:
        client = client_of("Operator")
        response = client.post(PAGE, ALL, follow=True)
        assert response.redirect_chain == [(PAGE, 302)]
        text = response.content.decode()
        assert "Saved how the console looks to you." in text
        assert re.search(r'<option value="dark" selected>', text)
        assert re.search(r'<option value="compact" selected>', text)
        assert re.search(r'<option value="25" selected>', text)
        assert f'value="{KATHMANDU}"' in text
        found = chosen_by(client)
        assert (found.theme, found.density, found.time_zone) == ("dark", "compact", KATHMANDU)
        assert (found.rows, found.reduced_colour, found.live) == (25, True, False)
        assert (found.follow_log, found.shortcuts) == (False, False)
        shown = {name for name in columns.COLUMNS if name not in found.hidden_columns}
        assert shown == {*columns.ALWAYS, "queue", "error"}

    def test_each_page_obeys(self) -> None:
        client = client_of("Operator")
        for url in ("/admin/", LIST, PAGE, "/admin/password_change/"):
            text = read(client, url)
            assert 'data-theme="auto" data-theme-kept=""' in head(text)
            assert not re.search("density|colours", head(text))
            assert not re.search("live-begins|data-log|data-keys", body(text))
            assert "reduced.css" not in text
        client.post(PAGE, ALL)
        for url in ("/admin/", LIST, PAGE, "/admin/password_change/"):
            text = read(client, url)
            for said in (
                'data-theme="dark" data-theme-kept="dark"',
                'data-density="compact"',
                'data-colours="reduced"',
            ):
                assert said in head(text), url
            for said in ('data-live-begins="paused"', 'data-log="still"', 'data-keys="off"'):
                assert said in body(text), url
            assert '<meta name="color-scheme" content="dark">' in text
            assert "reduced.css" in text

    @pytest.mark.parametrize(
        ("field", "value", "message"),
        [
            ("time_zone", "Europe/Atlantis", "This is not a known IANA time zone"),
            ("time_zone", "localtime", "This is not a known IANA time zone"),
            ("time_zone", "../../etc/passwd", "This is not a known IANA time zone"),
            ("time_zone", "x" * 65, "at most 64 characters"),
            ("time_zone", "Europe/Ber\0lin", "Null characters are not allowed"),
            ("theme", "pink", "pink is not one of the available choices"),
            ("theme", "", "This field is required"),
            ("density", "<b>", "&lt;b&gt; is not one of the available choices"),
            ("rows", "1000000", "1000000 is not one of the available choices"),
            ("columns", ["queue", "password"], "password is not one of the available choices"),
        ],
    )
    def test_a_fault_stands_beside_its_field_and_keeps_nothing(
        self, field: str, value: Any, message: str
    ) -> None:
        client = client_of("Operator")
        response = client.post(PAGE, ALL | {field: value})
        assert response.status_code == 422
        text = response.content.decode()
        errors = re.findall(r'<ul class="errorlist" id="d-(\w+)_error"><li>(.*?)</li>', text)
        assert [name for name, _ in errors] == [field]
        assert message in unescape(errors[0][1]) or message in errors[0][1]
        assert not Preferences.objects.exists()
        if field != "density":
            assert '<option value="compact" selected>' in text  # what was typed is still there

    def test_reset_makes_it_as_at_first(self) -> None:
        client = client_of("Operator")
        client.post(PAGE, ALL)
        response = client.post(PAGE, ALL | {"do": "reset"}, follow=True)
        assert "The console looks as it does at first." in response.content.decode()
        assert not Preferences.objects.exists()
        assert 'data-theme="auto" data-theme-kept=""' in head(read(client, LIST))

    def test_who_sees_no_jobs_chooses_what_concerns_them(self) -> None:
        client = client_of("")
        text = read(client, PAGE)
        assert "Health" not in text
        assert "COPPICE_" not in text
        assert all(f'name="{name}"' in text for name in ("theme", "density", "time_zone"))
        assert not any(f'name="{name}"' in text for name in ("rows", "live", "columns"))
        assert client.post(PAGE, ALL).status_code == 302
        found = chosen_by(client)
        assert (found.theme, found.time_zone) == ("dark", KATHMANDU)
        assert (found.rows, found.live, found.hidden_columns) == (None, True, [])
        assert f'href="{PAGE}#display"' in read(client, "/admin/")

    def test_a_column_that_one_may_not_see_is_not_offered_and_stays_as_it_was(self) -> None:
        client = client_of("Viewer")
        assert 'value="error"' not in read(client, PAGE)
        client.post(PAGE, ALL | {"columns": ["queue"]})
        assert "error" not in chosen_by(client).hidden_columns
        assert "wait" in chosen_by(client).hidden_columns

    def test_it_needs_a_token(self) -> None:
        client = client_of("Operator")
        strict = Client(enforce_csrf_checks=True)
        strict.cookies = client.cookies
        assert strict.post(PAGE, ALL).status_code == 403
        assert strict.post(PAGE, {"only": "theme", "theme": "dark"}).status_code == 403
        assert not Preferences.objects.exists()

    def test_nothing_names_whose_it_is(self) -> None:
        mine, other = client_of("Operator"), client_of("Operator")
        choose(other, theme="light")
        key = user_of(other).pk
        mine.post(PAGE, ALL | {"user": key, "user_id": key, "id": key, "pk": key})
        assert chosen_by(mine).theme == "dark"
        assert chosen_by(other).theme == "light"
        mine.post(PAGE, {"do": "reset", "user": key})
        assert chosen_by(other).theme == "light"


class TestSingly:
    def test_the_button_changes_the_theme_and_leads_back(self) -> None:
        client = client_of("Viewer")
        choose(client, density="compact", theme="light")
        here = f"{LIST}?state=dead"
        text = read(client, here)
        button = re.search(r'<button[^>]* id="theme" name="theme" value="(\w+)"', text)
        assert button
        assert button[1] == "dark"
        page = f"http://testserver{here}"
        data = {"only": "theme", "theme": button[1]}
        response = client.post(PAGE, data, headers={"Referer": page})
        assert (response.status_code, response["Location"]) == (302, page)
        assert 'data-theme="dark"' in head(read(client, here))
        assert chosen_by(client).density == "compact"

    def test_a_script_is_answered_without_a_page(self) -> None:
        client = client_of("Viewer")
        headers = {"X-Coppice-Part": "1"}
        for data in ({"only": "theme", "theme": "dark"}, {"only": "shortcuts"}):
            response = client.post(PAGE, data, headers=headers)
            assert (response.status_code, response.content) == (204, b"")
        assert (chosen_by(client).theme, chosen_by(client).shortcuts) == ("dark", False)
        client.post(PAGE, {"only": "shortcuts", "shortcuts": "on"}, headers=headers)
        assert chosen_by(client).shortcuts

    def test_what_is_no_choice_changes_nothing(self) -> None:
        client = client_of("Viewer")
        for data in ({"only": "theme", "theme": "pink"}, {"only": "theme"}, {"only": "user"}):
            assert client.post(PAGE, data).status_code == 422
        assert not Preferences.objects.exists()

    def test_it_leads_to_no_other_site(self) -> None:
        client = client_of("Viewer")
        data = {"only": "theme", "theme": "dark", "next": "https://evil.example/"}
        for page in ("https://evil.example/", "//evil.example", "javascript:x", ""):
            assert client.post(PAGE, data, headers={"Referer": page})["Location"] == PAGE


class TestZone:
    def test_times_are_told_in_it_and_it_is_named(self) -> None:
        client = client_of("Operator")
        job = make_job("dead", failed_at=NOON, created_at=NOON)
        make_history(job)
        text = read(client, f"{LIST}{job.id}/")
        assert "2026-03-04 12:00:00 UTC" in text
        assert re.search(r"Times are in <a [^>]*>UTC</a>\.", text)
        choose(client, time_zone=KATHMANDU)
        text = read(client, f"{LIST}{job.id}/")
        assert THERE in unescape(text)
        assert "2026-03-04 12:00:00" not in text
        assert re.search(rf"Times are in <a [^>]*>{KATHMANDU}</a>, UTC\+05:45\.", unescape(text))
        assert f'data-admin-utc-offset="20700" data-admin-server-timezone="{KATHMANDU}"' in text

    def test_the_pages_of_django_tell_them_in_it_too(self) -> None:
        client = client_of()
        User.objects.filter(pk=user_of(client).pk).update(date_joined=NOON)
        url = f"/admin/auth/user/{user_of(client).pk}/change/"
        assert 'value="12:00:00"' in read(client, url)
        choose(client, time_zone=KATHMANDU)
        assert 'value="17:45:00"' in read(client, url)

    def test_sentences_tell_them_in_it(self) -> None:
        client = client_of("Supervisor")
        choose(client, time_zone=KATHMANDU)
        job = make_job("scheduled", due_at=NOON.replace(year=2036), scheduled_at=NOON)
        assert "not due until 2036-03-04 17:45:00 +0545" in unescape(
            read(client, f"{LIST}{job.id}/")
        )
        made = BulkOperation.objects.create(
            action="retry",
            filters=Filters.from_json({"created_after": NOON.isoformat()}).as_json(),
            before=NOON,
            matched=1,
        )
        url = f"/admin/jobs/bulkoperation/{made.id}/"
        assert f"created after {THERE}" in unescape(read(client, url))
        AuditEntry.objects.create(
            action="job.change",
            actor="anna",
            data={"before": {"due_at": None}, "after": {"due_at": NOON.isoformat()}},
        )
        assert f"→ {THERE}" in unescape(read(client, "/admin/jobs/auditentry/"))

    @pytest.mark.parametrize("url", [LIST, f"{LIST}dead-letters/", "/admin/jobs/auditentry/"])
    def test_what_is_typed_is_meant_in_it_and_means_the_same_to_others(self, url: str) -> None:
        mine, other = client_of("Supervisor"), client_of("Supervisor")
        choose(mine, time_zone=KATHMANDU)
        response = mine.get(url, {"from": "2026-03-04T17:45", "to": "2036-03-04 17:45"})
        assert response.status_code == 302
        address = response["Location"]
        assert "from=2026-03-04T12%3A00%3A00Z" in address
        assert "to=2036-03-04T12%3A00%3A00Z" in address
        text = unescape(read(mine, address))
        assert 'name="from" value="2026-03-04T17:45"' in text
        assert THERE in text
        text = unescape(read(other, address))
        assert 'name="from" value="2026-03-04T12:00"' in text
        assert "2026-03-04 12:00:00 UTC" in text

    def test_a_time_that_is_given_to_a_job_is_meant_in_it(self) -> None:
        client = client_of("Operator")
        choose(client, time_zone=KATHMANDU)
        text = read(client, f"{LIST}add/", type="send_email")
        assert f'name="zone" value="{KATHMANDU}"' in text

    def test_a_field_names_it_and_not_its_clock_of_today(self) -> None:
        client = client_of("Operator")
        choose(client, time_zone="Europe/Berlin")  # CET or CEST: the day that is typed decides
        job = make_job("scheduled")
        for url in (f"{LIST}{job.id}/", "/admin/jobs/schedule/add/"):
            assert "Not before, Europe/Berlin" in read(client, url)

    def test_runs_to_come_are_told_by_the_clock_of_their_rule_and_by_ones_own(self) -> None:
        client = client_of("Operator")
        schedule = make_schedule(
            cron="0 8 * * *", time_zone="Europe/Berlin", interval_seconds=None, next_slot=NOON
        )
        url = f"/admin/jobs/schedule/{schedule.id}/"
        both = ">Wed 2026-03-04 13:00:00 CET</time>", ">Wed 2026-03-04 12:00:00 UTC</span>"
        assert all(each in read(client, url) for each in both)
        choose(client, time_zone=KATHMANDU)
        assert ">Wed 2026-03-04 17:45:00 +0545</span>" in unescape(read(client, url))
        choose(client, time_zone="Europe/Paris")  # whose clock is Berlin's
        assert both[0] in read(client, url)
        assert both[1] not in read(client, url)
        choose(client, time_zone=KATHMANDU)
        rule = {"recurs": "cron", "cron": "0 8 * * *", "cron_zone": "UTC"}
        mail = {"to": "anna@example.org", "subject": "Hello", "text": "Good morning."}
        form = {"type": "send_email", "mode": "json", "payload": json.dumps(mail), "start": "now"}
        response = client.post(f"{LIST}add/", form | rule | {"step": "check"})
        assert "13:45:00 +0545</small>" in unescape(response.content.decode())

    def test_it_ends_with_the_page(self) -> None:
        client = client_of("Operator")
        choose(client, time_zone=KATHMANDU)
        read(client, LIST)
        read(client, f"{LIST}nowhere/", 404)
        assert timezone.get_current_timezone() == ZoneInfo("UTC")

    def test_nobody_sees_the_zone_of_another(self) -> None:
        """Also not in what is read once for all."""
        mine, other = client_of("Operator"), client_of("Operator")
        choose(mine, time_zone=KATHMANDU)
        job = make_job("dead", failed_at=NOON, created_at=NOON)
        make_queue(name="paused", paused=True)
        for url in ("/admin/", LIST, f"{LIST}dead-letters/", f"{LIST}{job.id}/"):
            read(mine, url)
            assert "+0545" not in unescape(read(other, url)), url

    def test_a_zone_that_is_known_no_more_is_the_servers(self) -> None:
        client = client_of("Operator")
        choose(client, time_zone="Europe/Atlantis")
        assert re.search(r"Times are in <a [^>]*>UTC</a>\.", read(client, LIST))

    @override_settings(ROOT_URLCONF="tests.console.test_site")
    def test_pages_on_another_site_obey_too(self) -> None:
        client = client_of("Supervisor")
        choose(client, time_zone=KATHMANDU, theme="dark", rows=25)
        job = make_job("dead", failed_at=NOON, created_at=NOON)
        text = unescape(read(client, f"/stock/jobs/job/{job.id}/"))
        assert THERE in text
        assert 'data-theme="dark"' in head(text)
        response = client.get("/stock/jobs/job/", {"from": "2026-03-04T17:45"})
        assert response["Location"].endswith("?from=2026-03-04T12%3A00%3A00Z")
        assert timezone.get_current_timezone() == ZoneInfo("UTC")


def _jobs() -> None:
    Job.objects.bulk_create(Job(type="test", status="failed", failed_at=NOON) for _ in range(26))


def _entries() -> None:
    AuditEntry.objects.bulk_create(AuditEntry(action="job.retry", actor="a") for _ in range(26))


def _operations() -> None:
    BulkOperation.objects.bulk_create(
        BulkOperation(action="retry", filters={"status": "failed"}, before=NOON, matched=0)
        for _ in range(26)
    )


def _schedules() -> None:
    like = make_schedule(name="s00")
    Schedule.objects.bulk_create(
        Schedule(
            name=f"s{n:02}",
            type=like.type,
            interval_seconds=like.interval_seconds,
            cron=like.cron,
            anchor_at=like.anchor_at,
            next_slot=like.next_slot,
            enabled=False,
        )
        for n in range(1, 26)
    )


def _queues() -> None:
    for n in range(26):
        make_queue(name=f"q{n:02}", paused=True)


def _runs() -> None:
    RangeRun.objects.bulk_create(
        RangeRun(name="a.B", axis={"type": "int"}, lo=0, hi=9) for _ in range(26)
    )


def _failures() -> RangeRun:
    run = RangeRun.objects.create(name="a.B", axis={"type": "int"}, lo=0, hi=99)
    RangeFailure.objects.bulk_create(
        RangeFailure(run=run, key=str(n), attempts=1, error="bad") for n in range(26)
    )
    return run


LISTS: dict[str, Callable[[], object]] = {
    f"{LIST}?state=dead": _jobs,
    f"{LIST}dead-letters/": _jobs,
    "/admin/jobs/auditentry/": _entries,
    "/admin/jobs/bulkoperation/": _operations,
    "/admin/jobs/schedule/": _schedules,
    "/admin/jobs/queue/": _queues,
    "/admin/ranges/rangerun/": _runs,
    "/admin/ranges/rangefailure/": _failures,
}


class TestRows:
    @pytest.mark.parametrize("url", LISTS)
    def test_every_list_has_as_many_as_one_wants(self, url: str) -> None:
        LISTS[url]()
        client = client_of("Supervisor")
        choose(client, rows=25)
        text = read(client, url)
        assert (rows_in(text), "Older" in text or "next" in text) == (25, True)
        choose(client, rows=50)
        assert rows_in(read(client, url)) == 26

    def test_lists_inside_pages_obey_too(self) -> None:
        run = _failures()
        hook = Webhook.objects.create(name="ops", url="https://example.org/", secret="s")
        WebhookDelivery.objects.bulk_create(
            WebhookDelivery(webhook=hook, event="worker.lost", body="{}") for _ in range(26)
        )
        client = client_of("Supervisor")
        urls = (f"/admin/ranges/rangerun/{run.id}/", f"/admin/jobs/webhook/{hook.id}/")
        for rows, shown in ((25, 25), (50, 26)):
            choose(client, rows=rows)
            assert [rows_in(read(client, url)) for url in urls] == [shown, shown]

    def test_the_address_wins(self) -> None:
        _jobs()
        client = client_of("Supervisor")
        choose(client, rows=25)
        text = read(client, f"{LIST}?state=dead&rows=50")
        assert rows_in(text) == 26
        assert "<b>50</b>" in text


def rows_in(text: str) -> int:
    """Of the list: lines of its table, without those of other tables on the page."""
    table = max(re.findall(r"<table.*?</table>", text, re.DOTALL), key=lambda t: t.count("<tr"))
    return len(re.findall(r"<tr", table)) - len(re.findall(r"<thead", table))


class TestColumns:
    def test_the_chooser_of_the_list_and_the_form_are_one(self) -> None:
        client = client_of("Operator")
        make_job("dead")
        data = {"tab": "dead", "shown": ["attempts", "error", "ended", "id", "ran"]}
        client.post(f"{LIST}columns/", data)
        assert chosen_by(client).hidden_columns == ["queue"]
        text = read(client, PAGE)
        assert re.search(r'value="attempts"[^>]*checked', text)
        assert not re.search(r'value="queue"[^>]*checked', text)
        assert 'scope="col" class="c-queue"' not in read(client, LIST, state="dead")
        everything = [name for name in columns.COLUMNS if name not in columns.ALWAYS]
        client.post(PAGE, ALL | {"columns": everything})
        assert 'scope="col" class="c-queue"' in read(client, LIST, state="dead")

    def test_they_are_those_of_the_person_not_of_the_browser(self) -> None:
        client = client_of("Operator")
        make_job("dead")
        client.post(f"{LIST}columns/", {"tab": "dead", "shown": ["error"]})
        elsewhere = Client()
        elsewhere.force_login(user_of(client))
        assert 'scope="col" class="c-queue"' not in read(elsewhere, LIST, state="dead")
        assert 'scope="col" class="c-queue"' in read(client_of("Operator"), LIST, state="dead")


class TestStored:
    def test_it_is_read_once_for_each_page(self) -> None:
        client = client_of("Supervisor")
        choose(client, time_zone=KATHMANDU, rows=25, hidden_columns=["queue"])
        job = make_job("dead")
        for url in ("/admin/", LIST, f"{LIST}{job.id}/", PAGE, "/admin/badges/"):
            with CaptureQueriesContext(connection) as asked:
                read(client, url)
            found = [each["sql"] for each in asked if "jobs_preferences" in each["sql"]]
            assert len(found) == 1, (url, found)

    def test_it_goes_with_the_person(self) -> None:
        client, other = client_of("Viewer"), client_of("Viewer")
        choose(client, theme="dark")
        choose(other, theme="dark")
        user_of(client).delete()
        assert [row.user for row in Preferences.objects.all()] == [user_of(other)]

    def test_choices_made_at_once_do_not_undo_each_other(self) -> None:
        client = client_of("Viewer")
        user = user_of(client)
        for chosen in ({"theme": "dark"}, {"shortcuts": False}, {"rows": 100}):
            preferences.save(user, **chosen)
        found = chosen_by(client)
        assert (found.theme, found.shortcuts, found.rows) == ("dark", False, 100)

    @pytest.mark.parametrize("wrong", [{"theme": "pink"}, {"density": ""}, {"rows": 7}])
    def test_the_database_refuses_what_is_no_choice(self, wrong: dict[str, Any]) -> None:
        user = user_of(client_of("Viewer"))
        with pytest.raises(DatabaseError), transaction.atomic():
            preferences.save(user, **wrong)

    def test_every_zone_that_is_offered_is_one(self) -> None:
        names = preferences.zone_names()
        assert {"UTC", "Europe/Berlin", KATHMANDU} <= set(names)
        assert all(ZoneInfo(name) for name in names)
        assert "localtime" not in names

    def test_rows_are_those_that_lists_know(self) -> None:
        from jobs.console.lists import SIZES

        assert SIZES == ROWS
