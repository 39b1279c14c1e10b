"""The audit's page: what it lists, finds and exports, and for whom."""

from __future__ import annotations

import csv
import io
import json
import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from jobs.console import kept
from jobs.models import AuditEntry
from tests.console.people import client_of, read
from tests.factories import make_job

pytestmark = pytest.mark.django_db

PAGE = "/admin/jobs/auditentry/"
EXPORT = f"{PAGE}export/"
SCRIPT = "<script>alert(1)</script>"


@pytest.fixture(autouse=True)
def _nothing_kept() -> None:
    kept.forget()


def entry(action: str = "job.retry", actor: str = "rosa", **columns: Any) -> AuditEntry:
    return AuditEntry.objects.create(action=action, actor=actor, **columns)


def listed(text: str) -> list[int]:
    return [int(id) for id in re.findall(r'<tr data-row="(\d+)"', text)]


def exported(client: Client, **query: str) -> str:
    response: Any = client.get(EXPORT, query)
    assert response.status_code == 200
    return b"".join(response.streaming_content).decode()


class TestTheList:
    def test_the_newest_stands_first_and_pages_go_both_ways(self) -> None:
        ids = [entry().id for _ in range(60)]
        client = client_of("Supervisor")
        first = read(client, PAGE, rows="25")
        assert listed(first) == ids[:-26:-1]
        older = re.search(r'href="\?([^"]*after=\d+)" rel="next"', first)
        assert older
        second = read(client, f"{PAGE}?{older[1].replace('&amp;', '&')}")
        assert listed(second) == ids[-26:-51:-1]
        newer = re.search(r'href="\?([^"]*before=\d+)" rel="prev"', second)
        assert newer
        assert listed(read(client, f"{PAGE}?{newer[1].replace('&amp;', '&')}")) == listed(first)

    def test_each_filter_finds_its_own(self) -> None:
        mine = entry("queue.pause", "rosa", object_id="mail", scope="queue mail")
        other = entry("job.retry", "ivo", object_id="x")
        AuditEntry.objects.filter(id=other.id).update(at=timezone.now() - timedelta(days=3))
        client = client_of("Supervisor")
        yesterday = f"{timezone.localtime() - timedelta(days=1):%Y-%m-%dT%H:%MZ}"
        for query in (
            {"actor": "rosa"},
            {"action": "queue.pause"},
            {"object": "mail"},
            {"from": yesterday},
        ):
            assert listed(read(client, PAGE, 200, **query)) == [mine.id], query
        assert listed(read(client, PAGE, to=yesterday)) == [other.id]

    def test_a_bad_time_is_named_and_finds_nothing(self) -> None:
        entry()
        text = read(client_of("Supervisor"), PAGE, 200, **{"from": "soon"})
        assert "from soon is not a date and time" in text
        assert listed(text) == []

    @pytest.mark.parametrize("query", ["after=x", "before=9%7E9", "after=" + "9" * 39, "actor=%00"])
    def test_a_bad_address_is_no_error(self, query: str) -> None:
        entry()
        read(client_of("Supervisor"), f"{PAGE}?{query}")

    def test_hostile_text_is_text(self) -> None:
        entry(SCRIPT, SCRIPT, scope=SCRIPT, reason=SCRIPT, data={SCRIPT: SCRIPT}, object_id=SCRIPT)
        assert SCRIPT not in read(client_of("Supervisor"), PAGE)

    def test_it_leads_to_what_it_was_about(self) -> None:
        job = make_job()
        entry("job.cancel", object_id=str(job.id), scope="job")
        entry("queue.pause", object_id="a/b", scope="queue")
        text = read(client_of("Supervisor"), PAGE)
        assert f'href="/admin/jobs/job/{job.id}/"' in text

    def test_before_and_after_are_shown_side_by_side(self) -> None:
        entry("schedule.change", data={"before": {"priority": 2}, "after": {"priority": 1}})
        assert "2 → 1" in read(client_of("Supervisor"), PAGE)

    @pytest.mark.usefixtures("frozen")
    def test_it_costs_the_same_few_queries_however_long_it_is(self) -> None:
        client = client_of("Supervisor")
        for _ in range(30):
            entry()
        read(client, PAGE)
        with CaptureQueriesContext(
            connection,
        ) as asked:
            read(client, PAGE)
        assert len(asked) <= 12
        assert not any("COUNT(" in each["sql"].upper() for each in asked)

    def test_it_says_how_long_it_is_kept(self, settings: Any) -> None:
        assert "Older than 365 days: deleted." in read(client_of("Supervisor"), PAGE)
        settings.COPPICE_AUDIT_DAYS = 0
        assert "Nothing is deleted from the audit." in read(client_of("Supervisor"), PAGE)

    def test_empty_says_what_will_be_here(self) -> None:
        assert "Nobody has done anything yet." in read(client_of("Supervisor"), PAGE)


class TestWhoMay:
    @pytest.mark.parametrize("group", ["", "Viewer", "Operator"])
    def test_without_the_permission_there_is_no_audit(self, group: str) -> None:
        client = client_of(group)
        read(client, PAGE, status=403)
        read(client, EXPORT, status=403)
        assert PAGE not in client.get("/admin/").content.decode()

    def test_what_was_said_of_it_is_only_for_who_may_read_payloads(self) -> None:
        entry(data={"word": "plum"})
        assert "plum" in read(client_of("Supervisor"), PAGE)
        without = client_of("", "jobs.view_job", "jobs.view_audit")
        assert "plum" not in read(without, PAGE)
        assert "plum" not in exported(without)


class TestTheExport:
    def test_csv_holds_what_the_filters_match(self) -> None:
        entry(actor="ivo")
        mine = entry(actor="rosa", reason="=1+1")
        rows = list(csv.DictReader(io.StringIO(exported(client_of("Supervisor"), actor="rosa"))))
        assert [row["id"] for row in rows] == [str(mine.id)]
        assert rows[0]["reason"] == "'=1+1"

    def test_json_is_whole_and_masked(self) -> None:
        entry(data={"password": "plum", "fields": ["name"]})
        found = json.loads(exported(client_of("Supervisor"), format="json"))
        assert (found["count"], found["complete"]) == (1, True)
        assert found["entries"][0]["data"] == {"password": "••••••", "fields": ["name"]}
        whole = json.loads(exported(client_of(None), format="json"))
        assert whole["entries"][0]["data"]["password"] == "plum"

    def test_it_goes_on_over_many_chunks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("jobs.admin.audit.exporting.CHUNK", 2)
        ids = [entry().id for _ in range(5)]
        found = json.loads(exported(client_of("Supervisor"), format="json"))
        assert [each["id"] for each in found["entries"]] == ids[::-1]

    def test_one_that_is_just_full_is_not_said_to_be_cut(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("jobs.admin.audit.exporting.CHUNK", 2)
        monkeypatch.setattr("jobs.admin.files.MOST", 4)
        for _ in range(4):
            entry()
        client = client_of("Supervisor")
        found = json.loads(exported(client, format="json"))
        assert (found["count"], found["complete"]) == (4, True)
        assert len(exported(client).splitlines()) == 5
        entry()
        found = json.loads(exported(client, format="json"))
        assert (found["count"], found["complete"]) == (4, False)
        assert "ends after 4 entries" in exported(client).splitlines()[-1]

    def test_another_format_is_not_found(self) -> None:
        read(client_of("Supervisor"), EXPORT, status=404, format="xml")
