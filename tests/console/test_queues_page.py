"""Queues in the console: what is said of them, and pause and resume."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from jobs import permissions, registry
from jobs.console import kept, sample
from jobs.models import AuditEntry, Queue
from tests.console.people import client_of, read
from tests.console.test_overview import plain, rollup, scanned, selects
from tests.factories import ago, make_job, make_queue, make_worker

pytestmark = pytest.mark.django_db

LIST = "/admin/jobs/queue/"
SCRIPT = "<script>alert(1)</script>"


@pytest.fixture(autouse=True)
def handled() -> Iterator[None]:
    registry.handler("test")(lambda payload: None)
    yield
    registry.remove("test")


def row(html: str, name: str) -> str:
    found = re.search(rf'<tr data-row="{re.escape(name)}".*?</tr>', html, re.DOTALL)
    assert found, name
    return plain(found[0])


def page(client: Client, name: str, status: int = 200, **data: Any) -> str:
    sample.forget()
    kept.forget()
    return read(client, f"{LIST}{name}/", status, **data)


def act(client: Client, name: str, action: str, status: int = 200, **more: str) -> str:
    response = client.post(f"{LIST}{name}/act/", {"action": action, **more}, follow=True)
    assert response.status_code == status
    return response.content.decode()


class TestList:
    def test_each_says_how_deep_how_late_and_who_serves_it(self) -> None:
        make_worker(concurrency=8)
        make_worker(concurrency=2, queues=["mail"])
        make_job(queue="mail", due_at=ago(minutes=6))
        make_job(queue="mail")
        make_job("scheduled", queue="mail")
        make_job("processing", queue="mail")
        make_job("dead", queue="mail")
        make_queue(name="old", paused=True, reason="the mover", changed_by="anna")
        html = read(client_of("Viewer"), LIST)
        told = row(html, "mail")
        assert "2 1 later 6 min" in told
        assert "1/10" in told
        assert told.endswith("1 2")  # dead, workers
        assert "late" in html
        assert "paused now by anna: the mover" in row(html, "old")

    def test_a_queue_that_nobody_serves_says_so(self) -> None:
        make_worker(queues=["other"])
        make_job(queue="mail")
        assert "no worker serves it" in row(read(client_of("Viewer"), LIST), "mail")

    def test_an_empty_list_says_when_queues_appear(self) -> None:
        assert "appear with the first job" in read(client_of("Viewer"), LIST)

    def test_a_long_list_goes_on(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("jobs.admin.queues.ROWS", 2)
        for name in "abcde":
            make_job(queue=name)
        client, seen, url = client_of("Viewer"), [], LIST
        while url:
            html = read(client, url)
            seen += re.findall(r'<tr data-row="(\w)"', html)
            more = re.search(r'href="(\?after=\w)"', html)
            url = LIST + more[1] if more else ""
        assert seen == list("abcde")

    @pytest.mark.usefixtures("frozen")
    def test_few_questions_and_never_a_whole_table(self) -> None:
        for n in range(20):
            make_job(queue=f"q{n % 4}", type=f"t{n % 3}")
        client = client_of("Operator")
        read(client, LIST)
        for url in (LIST, f"{LIST}q1/"):
            sample.current()
            kept.forget()
            with CaptureQueriesContext(connection) as captured:
                read(client, url)
            asked = selects(captured)
            assert len(asked) <= 24, (url, len(asked))
            for sql in asked:
                assert not scanned(sql), sql
        read(client, LIST)
        with CaptureQueriesContext(connection) as captured:
            read(client, LIST)
        assert len(selects(captured)) <= 12


class TestPage:
    def test_it_says_what_is_in_it_and_what_waits_longest(self) -> None:
        make_worker(types=["test"])
        young, old = make_job(due_at=ago(minutes=1)), make_job(due_at=ago(minutes=9), priority=3)
        make_job(type="unheard", due_at=ago(minutes=5))
        make_job(queue="mail")
        rollup(minutes=3, jobs=40)
        rollup(minutes=3, jobs=2, outcome="failed")
        html = page(client_of("Viewer"), "default")
        waiting = html[html.index('data-part="waiting"') :]
        found = re.findall(r'<tr data-row="([0-9a-f-]{36})"', waiting)
        assert found[0] == str(old.id)
        assert found[2] == str(young.id)
        types = html[html.index('data-part="types"') : html.index('data-part="waiting"')]
        assert row(types, "test").startswith("test 2 40 2")
        assert "no worker of this queue knows it" in row(types, "unheard")
        assert "no worker of this queue knows it" not in row(types, "test")

    def test_it_says_when_it_will_be_empty(self) -> None:
        for _ in range(4):
            make_job()
        rollup(minutes=0, jobs=120)
        assert "at the present rate" in page(client_of("Viewer"), "default")
        make_queue(name="default", paused=True)
        html = page(client_of("Viewer"), "default")
        assert "it is paused" in html
        assert "at the present rate" not in html

    def test_without_a_worker_it_says_how_to_start_one(self) -> None:
        make_worker(queues=["other"])
        make_job(queue="mail")
        assert "manage.py runworker --queues mail" in page(client_of("Viewer"), "mail")

    @pytest.mark.parametrize("name", ["never-seen", "a b", "%00", "x" * 200, "a%2Fb"])
    def test_a_queue_that_is_none_is_not_found(self, name: str) -> None:
        page(client_of("Viewer"), name, 404)

    def test_what_may_be_done_to_all_that_are_ready_asks_first(self) -> None:
        make_job()
        make_job()
        make_job("scheduled")
        assert "action=move_queue" not in page(client_of("Viewer"), "default")
        operator = client_of("Operator")
        html = page(operator, "default")
        for action in ("move_queue", "cancel", "change_priority"):
            [url] = re.findall(rf'href="([^"]*action={action}[^"]*)"', html)
            assert "2 jobs" in read(operator, url.replace("&amp;", "&"))

    def test_history_is_for_those_who_may_see_the_audit(self) -> None:
        act(client_of("Operator"), "mail", "pause", reason="the mover")
        assert "What people did" not in page(client_of("Operator"), "mail")
        assert "queue.pause" in page(client_of("Supervisor"), "mail")

    def test_whatever_a_reason_holds_is_shown_as_text(self) -> None:
        make_queue(name="mail", paused=True, reason=SCRIPT, changed_by=SCRIPT)
        make_job(queue="mail", type=SCRIPT)
        rollup(minutes=1, jobs=1, queue="mail", type=SCRIPT)
        for html in (page(client_of(), "mail"), read(client_of(), LIST)):
            assert SCRIPT not in html
            assert "&lt;script&gt;" in html


class TestPausing:
    def test_pause_and_resume_with_who_and_why(self) -> None:
        operator = client_of("Operator")
        assert "Queue mail is paused" in act(operator, "mail", "pause", reason="the mover")
        queue = Queue.objects.get(name="mail")
        assert (queue.paused, queue.reason, queue.changed_by) == (
            True,
            "the mover",
            operator.username,  # type: ignore[attr-defined]
        )
        assert "Queue mail goes on" in act(operator, "mail", "resume")
        assert not Queue.objects.get(name="mail").paused
        actions = AuditEntry.objects.order_by("id").values_list("action", flat=True)
        assert list(actions) == ["queue.pause", "queue.resume"]

    def test_an_end_is_by_the_readers_clock_and_shown_where_the_pause_is(self) -> None:
        operator = client_of("Operator")
        said = act(operator, "mail", "pause", until="2031-01-01T06:00")
        assert "Queue mail is paused until 2031-01-01 06:00:00 UTC" in said
        assert Queue.objects.get().paused_until == datetime(2031, 1, 1, 6, tzinfo=UTC)
        assert "until 2031-01-01 06:00:00 UTC" in plain(page(operator, "mail"))
        assert re.search(r"goes on in [0-9,]+ d", row(read(operator, LIST), "mail"))
        for bad in ("noon", "2020-01-01T06:00"):
            assert "until: must be" in act(operator, "mail", "pause", until=bad)
        assert Queue.objects.get().paused_until == datetime(2031, 1, 1, 6, tzinfo=UTC)

    def test_what_changes_nothing_says_so(self) -> None:
        operator = client_of("Operator")
        make_job(queue="mail")
        assert "mail was not paused" in act(operator, "mail", "resume")
        act(operator, "mail", "pause", reason="first")
        assert "mail was paused before" in act(operator, "mail", "pause", reason="second")
        assert Queue.objects.get(name="mail").reason == "first"
        assert "no such action" in act(operator, "mail", "explode")

    def test_only_those_who_may_and_only_by_post(self) -> None:
        make_job(queue="mail")
        for group in ("Viewer", ""):
            client = client_of(group)
            assert client.post(f"{LIST}mail/act/", {"action": "pause"}).status_code == 403
        viewer = read(client_of("Viewer"), LIST)
        assert "Pause" not in viewer
        alone = client_of("", permissions.VIEW, permissions.PAUSE_QUEUE)
        assert "Pause" in read(alone, LIST)
        assert alone.get(f"{LIST}mail/act/?action=pause").status_code == 302
        assert not Queue.objects.exists()

    def test_a_name_that_no_queue_can_have_is_not_found(self) -> None:
        act(client_of("Operator"), "a b", "pause", 404)
        assert not Queue.objects.exists()

    def test_one_is_afterwards_where_one_was(self) -> None:
        operator = client_of("Operator")
        response = operator.post(f"{LIST}mail/act/", {"action": "pause", "next": "/admin/"})
        assert response["Location"] == "/admin/"
        response = operator.post(
            f"{LIST}mail/act/", {"action": "resume", "next": "https://evil.example/"}
        )
        assert response["Location"] == f"{LIST}mail/"
        assert "paused" not in read(operator, "/admin/overview/", parts="queues")
