"""The list of jobs: who sees what, what it costs, and what is done to many."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from jobs import registry
from jobs.admin import files
from jobs.admin.ledger import exporting, reading
from jobs.admin.ledger.tabs import TABS
from jobs.console import sample
from jobs.masking import MASKED
from jobs.models import AuditEntry, BulkOperation, Job
from jobs.states import Status
from tests.console.people import client_of, read
from tests.factories import ago, make_job, make_schedule, make_worker

pytestmark = pytest.mark.django_db

LIST = "/admin/jobs/job/"
SCRIPT = "<script>alert(1)</script>"


@pytest.fixture(autouse=True)
def handled() -> Iterator[None]:
    registry.handler("test", mask=("token",))(lambda payload: None)
    yield
    registry.remove("test")


def one_of_each() -> dict[str, Job]:
    names = ("scheduled", "retrying", "held", "completed", "dead", "cancelled")
    found = {name: make_job(name) for name in names}
    found["running"] = make_job("processing")
    found["ready"] = make_job()
    found["blocked"] = make_job(unmet_dependencies=1)
    return found


def ids_in(text: str) -> list[str]:
    return re.findall(r'<tr data-row="([^"]+)"', text)


def act(client: Client, action: str, *jobs: Job, query: str = "", **more: str) -> str:
    data = {"action": action, "_selected_action": [str(job.id) for job in jobs], **more}
    response = client.post(f"{LIST}{query}", data, follow=True)
    assert response.status_code == 200
    return response.content.decode()


class TestTabs:
    def test_each_shows_its_state_and_no_other(self) -> None:
        jobs = one_of_each()
        client = client_of("Viewer")
        for name, job in jobs.items():
            assert ids_in(read(client, LIST, state=name)) == [str(job.id)], name
        active = {str(jobs[name].id) for name in TABS if name in jobs} - {
            str(jobs[name].id) for name in ("completed", "dead", "cancelled")
        }
        assert set(ids_in(read(client, LIST))) == active
        assert len(ids_in(read(client, LIST, state="all"))) == len(jobs)

    def test_counts_are_those_of_everything_or_of_what_is_filtered(self) -> None:
        one_of_each()
        make_job("dead", queue="mail")
        client = client_of("Viewer")
        assert re.search(r'Dead<b class="badge badge-bad"[^>]*>2</b>', read(client, LIST))
        text = read(client, LIST, state="dead", queue="mail")
        assert re.search(r'Dead<b class="badge badge-bad"[^>]*>1</b>', text)
        assert "Completed<b" not in text

    def test_pages_lead_on_and_back_without_losing_or_repeating_a_row(self) -> None:
        for n in range(60):
            make_job("dead", failed_at=ago(minutes=n // 2))
            make_job("processing" if n % 3 else "retrying")
        client = client_of("Viewer")
        for state in ("dead", "active"):
            url, seen = f"{LIST}?state={state}&rows=25", []
            first = ids_in(read(client, url))
            while url:
                text = read(client, url)
                seen += ids_in(text)
                url = _link(text, "next")
            assert len(seen) == len(set(seen)) == 60
            second = read(client, _link(read(client, f"{LIST}?state={state}&rows=25"), "next"))
            assert ids_in(read(client, _link(second, "prev"))) == first

    def test_a_place_that_is_none_begins_at_the_newest(self) -> None:
        job = make_job("dead")
        for place in ("x", "2026-01-01~x", "~", "\x00"):
            assert ids_in(read(client_of("Viewer"), LIST, state="dead", after=place)) == [
                str(job.id)
            ]

    @pytest.mark.usefixtures("frozen")
    def test_the_database_is_asked_for_few_things_and_never_for_a_count_of_all(self) -> None:
        one_of_each()
        make_job("processing", worker_id=make_worker().id)
        make_job("completed", schedule=make_schedule())
        client = client_of("Operator")
        read(client, LIST)
        for tab in TABS:
            for query in ("", "&queue=default&q=error:bad+priority:medium"):
                sample.current()
                with CaptureQueriesContext(connection) as captured:
                    read(client, f"{LIST}?state={tab}{query}")
                asked = [q["sql"] for q in captured.captured_queries]
                selects = [
                    sql for sql in asked if sql.lstrip().upper().startswith(("SELECT", "WITH"))
                ]
                assert len(selects) <= 12, (tab, query, selects)
                for sql in selects:
                    assert "OFFSET" not in sql
                    if "COUNT(" in sql and "jobs_job" in sql:
                        assert "LIMIT" in sql, sql

    def test_what_takes_too_long_ends_with_advice_and_the_filters(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        make_job("dead")
        slow = Job.objects.extra(where=["pg_sleep(0.2) IS NOT NULL"])
        monkeypatch.setattr(reading, "SECONDS", 0.05)
        monkeypatch.setattr(reading, "queryset", lambda *_a, **_k: slow)
        text = read(client_of("Viewer"), LIST, state="dead", queue="mail")
        assert "was stopped. Narrow it" in text
        assert 'value="mail"' in text


def _link(text: str, rel: str) -> str:
    found = re.search(rf'href="([^"]+)" rel="{rel}"', text)
    return "" if found is None else LIST + found[1].replace("&amp;", "&")


class TestReading:
    def test_it_needs_the_permission_to_view(self) -> None:
        for path in ("", "export/", "bulk/?action=retry"):
            read(client_of(""), f"{LIST}{path}", 403)
        read(client_of("Viewer"), LIST)

    def test_errors_are_for_those_who_may_read_them(self) -> None:
        make_job("dead", last_error="ValueError: secret thing")
        assert "secret thing" not in read(client_of("Viewer"), LIST, state="dead")
        assert "secret thing" in read(client_of("Operator"), LIST, state="dead")
        assert "secret thing" not in read(client_of("Viewer"), LIST, state="dead", q="error:secret")

    def test_markup_in_jobs_and_addresses_is_text(self) -> None:
        job = make_job("dead", type=SCRIPT, queue=SCRIPT, last_error=SCRIPT)
        client = client_of()
        for query in (
            "state=all",
            f"state=dead&q={SCRIPT}",
            f"type={SCRIPT}&queue={SCRIPT}&{SCRIPT}=1&worker={SCRIPT}&from={SCRIPT}",
        ):
            assert SCRIPT not in read(client, f"{LIST}?{query}")
        assert SCRIPT not in act(client, "purge", job, make_job("dead"))

    def test_a_whole_id_leads_to_its_job_wherever_that_is(self) -> None:
        client = client_of("Viewer")
        job = make_job("cancelled")
        for text in (str(job.id), job.id.hex, f" id:{job.id}"):
            assert client.get(LIST, {"q": text})["Location"] == f"{LIST}{job.id}/"
        assert ids_in(read(client, LIST, q=str(job.id)[:23])) == [str(job.id)]
        assert ids_in(read(client, LIST, q=str(job.id), state="all")) == [str(job.id)]

    def test_the_rows_of_some_ids_come_alone(self) -> None:
        jobs = [make_job("dead"), make_job("completed")]
        text = read(
            client_of("Viewer"), LIST, state="dead", ids=f"{jobs[0].id},{jobs[1].id},nonsense"
        )
        assert set(ids_in(text)) == {str(job.id) for job in jobs}
        assert "<nav" not in text


class TestColumns:
    def test_it_is_kept_which_are_not_wanted(self) -> None:
        client = client_of("Operator")
        make_job("dead", queue="mail")
        assert 'scope="col" class="c-queue"' in read(client, LIST, state="dead")
        here = f"{LIST}?state=dead&queue=mail"
        data = {"tab": "dead", "shown": ["attempts", "error", "ended"], "next": here}
        response = client.post(f"{LIST}columns/", data)
        assert response["Location"] == here
        text = read(client, LIST, state="dead")
        assert 'scope="col" class="c-queue"' not in text
        assert 'scope="col" class="c-error"' in text
        assert 'scope="col" class="c-type"' in text
        assert 'scope="col" class="c-queue"' not in read(client, LIST)
        for odd in ({}, {"tab": "x", "shown": "y"}, {"tab": "dead", "shown": [SCRIPT]}):
            client.post(f"{LIST}columns/", odd)
            assert 'scope="col" class="c-type"' in read(client, LIST, state="dead")


class TestActions:
    def test_each_needs_its_permission(self) -> None:
        dead = make_job("dead")
        data = {"_selected_action": [str(dead.id)], "confirmed": "yes"}
        for action, first in (
            ("retry", "Operator"),
            ("cancel", "Operator"),
            ("run_now", "Operator"),
            ("change_priority", "Operator"),
            ("move_queue", "Operator"),
            ("purge", "Supervisor"),
            ("nonsense", "nobody"),
        ):
            groups = ["Viewer", "Operator", "Supervisor", "nobody"]
            for group in groups[: groups.index(first)]:
                client = client_of(group)
                assert client.post(LIST, {**data, "action": action}).status_code == 403
                assert f'value="{action}"' not in read(client, LIST, state="dead")
        dead.refresh_from_db()
        assert dead.status == Status.FAILED

    def test_one_retry_is_done_at_once_and_said(self) -> None:
        client = client_of("Operator")
        dead = make_job("dead")
        assert "1 retried." in act(client, "retry", dead)
        [entry] = AuditEntry.objects.all()
        assert (entry.action, entry.actor) == ("job.retry", client.username)  # type: ignore[attr-defined]

    def test_many_are_asked_about_first_and_the_answer_counts_what_changed(self) -> None:
        client = client_of("Supervisor")
        dead = [make_job("dead", failed_at=ago(minutes=n)) for n in range(3)]
        alive = make_job()
        text = act(client, "retry", *dead, alive)
        assert "Retries the 4 jobs that you have selected." in text
        assert Job.objects.dead().count() == 3
        text = act(client, "retry", *dead, alive, confirmed="yes", reason="fixed the server")
        assert "3 retried, 1 skipped (no longer dead: pending)." in text
        assert AuditEntry.objects.get().reason == "fixed the server"

    def test_purging_many_needs_the_words(self) -> None:
        client = client_of("Supervisor")
        jobs = [make_job("dead"), make_job("dead")]
        for typed in ("", "purge", "purge 3"):
            act(client, "purge", *jobs, confirmed="yes", typed=typed)
            assert Job.objects.count() == 2
        assert "2 purged." in act(client, "purge", *jobs, confirmed="yes", typed=" Purge  2 ")
        assert Job.objects.count() == 0

    def test_priority_and_queue_ask_for_the_new_one(self) -> None:
        client = client_of("Operator")
        job = make_job()
        text = act(client, "change_priority", job, confirmed="yes")
        assert "New priority" in text
        assert "1 given another priority." in act(
            client, "change_priority", job, confirmed="yes", priority="1"
        )
        assert "1 moved." in act(client, "move_queue", job, confirmed="yes", queue="mail")
        assert "Nothing was changed" in act(
            client, "move_queue", job, confirmed="yes", queue="no such name!"
        )
        job.refresh_from_db()
        assert (job.priority, job.queue) == (1, "mail")

    def test_one_is_afterwards_where_one_was(self) -> None:
        client = client_of("Operator")
        job = make_job("dead")
        here = f"{LIST}?state=dead&queue=default&after=x"
        data = {"action": "retry", "_selected_action": [str(job.id)], "next": here}
        assert client.post(LIST, data)["Location"] == here
        for elsewhere in (
            "https://evil.example/",
            "//evil.example/",
            "/admin/logout/",
            "javascript:x",
        ):
            data["next"] = elsewhere
            assert client.post(f"{LIST}?state=dead", data)["Location"] == f"{LIST}?state=dead"

    @pytest.mark.parametrize("ids", [["nonsense"], [], [str(UUID(int=n)) for n in range(501)]])
    def test_odd_selections_are_no_error(self, ids: list[str]) -> None:
        data = {"action": "retry", "_selected_action": ids, "confirmed": "yes"}
        response = client_of("Operator").post(LIST, data, follow=True)
        assert "Nothing was changed" in response.content.decode()

    def test_no_action_without_a_token_or_by_get(self) -> None:
        job = make_job("dead")
        client = client_of("Operator")
        strict = Client(enforce_csrf_checks=True)
        strict.cookies = client.cookies
        data = {"action": "retry", "_selected_action": [str(job.id)]}
        assert strict.post(LIST, data).status_code == 403
        client.get(LIST, data)
        assert Job.objects.dead().count() == 1


class TestAllThatMatch:
    def test_it_is_shown_first_and_then_handed_to_a_worker(self) -> None:
        client = client_of("Operator")
        for n in range(12):
            make_job("dead", queue="mail", failed_at=ago(minutes=n))
        make_job("dead")
        url = f"{LIST}bulk/?action=retry&state=dead&queue=mail"
        text = read(client, url)
        assert "Retries all 12 jobs that match." in text
        assert "state dead, queue mail" in text
        assert text.count("data-ago") >= 10
        assert not BulkOperation.objects.exists()
        client.post(url, {"action": "retry", "confirmed": "yes", "reason": "server is back"})
        operation = BulkOperation.objects.get()
        assert (operation.action, operation.matched, operation.reason) == (
            "retry",
            12,
            "server is back",
        )
        assert operation.filters == {"state": "dead", "queue": "mail"}
        assert Job.objects.dead().count() == 13

    def test_purging_needs_the_number_that_is_shown(self) -> None:
        client = client_of("Supervisor")
        make_job("dead", queue="mail")
        make_job("dead", queue="mail")
        url = f"{LIST}bulk/?action=purge&state=dead&queue=mail"
        for typed in ("", "purge 3"):
            client.post(url, {"action": "purge", "confirmed": "yes", "typed": typed})
        assert not BulkOperation.objects.exists()
        client.post(url, {"action": "purge", "confirmed": "yes", "typed": "purge 2"})
        assert BulkOperation.objects.get().matched == 2

    def test_what_was_asked_of_a_worker_is_said_in_words(self) -> None:
        make_job(queue="mail")
        for action, more, words in (
            ("move_queue", {"queue": "slow"}, "it moves 1 job to another queue."),
            ("change_priority", {"priority": "1"}, "it changes the priority of 1 job."),
            ("cancel", {}, "it cancels 1 job."),
        ):
            url = f"{LIST}bulk/?action={action}&state=ready"
            data = {"action": action, "confirmed": "yes", **more}
            text = client_of("Operator").post(url, data, follow=True).content.decode()
            assert f"A worker was asked: {words}" in text

    def test_nothing_is_asked_about_nothing(self) -> None:
        client = client_of("Operator")
        url = f"{LIST}bulk/?action=retry&state=dead&queue=mail"
        for answer in (client.get(url, follow=True), client.post(url, {}, follow=True)):
            assert "Nothing was changed. No job matches." in answer.content.decode()
        assert not BulkOperation.objects.exists()

    def test_the_way_back_leads_to_the_page_of_the_list_that_one_saw(self) -> None:
        for _ in range(26):
            make_job("dead")
        client = client_of("Operator")
        second = _link(read(client, LIST, state="dead", rows="25"), "next")
        link = re.search(r'href="([^"]+)">Retry all<', read(client, second))
        assert link
        asked = read(client, link[1].replace("&amp;", "&"))
        back = re.search(r'href="([^"]+)" data-focus', asked)
        assert back
        assert back[1].replace("&amp;", "&") == second

    def test_while_a_filter_is_red_there_is_no_menu_for_all(self) -> None:
        make_job("dead")
        text = read(client_of("Operator"), LIST, state="dead", priority="9")
        assert "All that match…" not in text

    def test_a_filter_that_was_not_understood_stops_it(self) -> None:
        make_job("dead")
        url = f"{LIST}bulk/?action=retry&state=dead&priority=9"
        response = client_of("Operator").get(url, follow=True)
        assert "Mend the filter in red first" in response.content.decode()
        assert not BulkOperation.objects.exists()

    def test_everybody_elses_dead_letters_are_a_right_of_their_own(self) -> None:
        make_job("dead")
        client = client_of("Operator", "jobs.purge_job")
        url = f"{LIST}bulk/?action=purge&state=dead"
        data = {"action": "purge", "confirmed": "yes", "typed": "purge 1"}
        assert client.post(url, data).status_code == 403
        assert not BulkOperation.objects.exists()


class TestExport:
    def rows(self, client: Client, **query: str) -> Any:
        response = client.get(f"{LIST}export/", query)
        assert response.status_code == 200
        assert "attachment" in response["Content-Disposition"]
        text = b"".join(response.streaming_content).decode()  # type: ignore[attr-defined]
        if query.get("format") == "json":
            return json.loads(text)
        return list(csv.reader(io.StringIO(text)))

    def test_it_holds_the_list_with_its_filters(self) -> None:
        job = make_job("dead", queue="mail")
        make_job("dead")
        make_job()
        rows = self.rows(client_of("Viewer"), state="dead", queue="mail", format="csv")
        assert [row[0] for row in rows] == ["id", str(job.id)]
        found = self.rows(client_of("Viewer"), state="all", format="json")
        assert (found["count"], found["complete"], len(found["jobs"])) == (3, True, 3)

    def test_it_hides_what_the_list_hides(self) -> None:
        make_job("dead", payload={"token": "hush", "note": "open"}, last_error="secret")
        text = json.dumps(self.rows(client_of("Viewer"), state="dead", format="json"))
        assert "secret" not in text
        assert "open" not in text
        found = self.rows(client_of("Operator"), state="dead", format="json")["jobs"][0]
        assert found["payload"] == {"token": MASKED, "note": "open"}
        assert found["error"] == "secret"
        found = self.rows(client_of(), state="dead", format="json")["jobs"][0]
        assert found["payload"]["token"] == "hush"

    def test_a_spreadsheet_finds_no_formula_in_it(self) -> None:
        make_job("dead", type="=cmd|' /C calc'!A0", last_error="@SUM(1)")
        _, row = self.rows(client_of("Operator"), state="dead", format="csv")
        assert row[1].startswith("'=")
        assert row[-1].startswith("'@")

    def test_it_goes_on_from_page_to_page_and_says_where_it_ends(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(exporting, "CHUNK", 4)
        for n in range(10):
            make_job("dead", failed_at=ago(minutes=n))
            make_job()
        client = client_of("Viewer")
        for state, count in (("dead", 10), ("all", 20), ("active", 10)):
            found = self.rows(client, state=state, format="json")
            assert len({job["id"] for job in found["jobs"]}) == found["count"] == count
        monkeypatch.setattr(files, "MOST", 6)
        found = self.rows(client, state="dead", format="json")
        assert (found["count"], found["complete"]) == (6, False)
        assert "ends after 6" in found["note"]
        assert "ends after 6" in self.rows(client, state="dead", format="csv")[-1][0]

    @pytest.mark.parametrize(("state", "count"), [("dead", 8), ("all", 16)])
    def test_one_that_is_just_full_is_not_said_to_be_cut(
        self, monkeypatch: pytest.MonkeyPatch, state: str, count: int
    ) -> None:
        monkeypatch.setattr(exporting, "CHUNK", 4)
        monkeypatch.setattr(files, "MOST", count)
        for _ in range(8):
            make_job("dead")
            make_job()
        client = client_of("Viewer")
        found = self.rows(client, state=state, format="json")
        assert (found["count"], found["complete"], found["note"]) == (count, True, "")
        assert len(self.rows(client, state=state, format="csv")) == 1 + count
        make_job("dead")
        found = self.rows(client, state=state, format="json")
        assert (found["count"], found["complete"]) == (count, False)
        assert f"ends after {count} jobs" in self.rows(client, state=state, format="csv")[-1][0]
