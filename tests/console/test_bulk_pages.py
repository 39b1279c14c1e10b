"""Bulk operations in the console: what is told of them, and who may pause, resume, abort, repeat."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from jobs import bulk
from jobs.filtering import Filters
from jobs.models import AuditEntry, BulkOperation
from jobs.states import Status
from tests.console.people import client_of, read
from tests.factories import make_job

pytestmark = pytest.mark.django_db

LIST = "/admin/jobs/bulkoperation/"
DEAD = Filters(status=Status.FAILED)
SCRIPT = "<script>alert(1)</script>"


def made(action: str = "retry", filters: Filters = DEAD, **columns: Any) -> BulkOperation:
    operation = bulk.create(action, filters, by="anna", reason="the provider is back")
    BulkOperation.objects.filter(id=operation.id).update(**columns)
    return bulk.get(operation.id)


def page_of(operation: BulkOperation) -> str:
    return f"{LIST}{operation.id}/"


def rows_in(text: str) -> list[str]:
    return re.findall(r'<tr data-row="([^"]+)"', text)


class TestTheList:
    def test_it_says_what_is_done_to_which_jobs_and_how_far_it_is(self) -> None:
        make_job("dead", type="mail")
        running = {
            "status": "running",
            "matched": 1_039,
            "changed": 500,
            "skipped": 12,
            "failed": 1,
        }
        made("retry", Filters(status=Status.FAILED, type="mail"), worked_seconds=2.0, **running)
        text = read(client_of("Viewer"), LIST)
        assert "status failed, type mail" in text
        for cell, value in (("changed", "500"), ("skipped", "12"), ("of", "1,039")):
            assert f'data-cell="{cell}">{value}<' in text, cell
        assert "49 %" in text
        assert 'data-cell="speed">256<' in text or 'data-cell="speed">257<' in text
        assert re.search(r'data-cell="left">2\.\d s<', text)
        assert ">anna<" in text

    def test_the_newest_come_first_and_pages_lose_and_repeat_none(self) -> None:
        all_of_them = [str(made().id) for _ in range(51)]
        client = client_of("Viewer")
        first = read(client, LIST)
        older = re.search(r'href="(\?[^"]+)" rel="next"', first)
        assert older
        second = read(client, LIST + older[1])
        assert rows_in(first) + rows_in(second) == all_of_them[::-1]

    def test_those_that_are_over_can_be_left_out(self) -> None:
        made(status="completed", finished_at=timezone.now())
        live = made()
        assert rows_in(read(client_of("Viewer"), LIST, show="live")) == [str(live.id)]

    @pytest.mark.parametrize("place", ["x", "\x00", "~"])
    def test_a_place_that_is_none_begins_at_the_newest(self, place: str) -> None:
        operation = made()
        assert rows_in(read(client_of("Viewer"), LIST, after=place)) == [str(operation.id)]

    def test_without_any_the_way_to_one_is_told(self) -> None:
        assert "No bulk operations." in read(client_of("Viewer"), LIST)

    @pytest.mark.usefixtures("frozen")
    def test_the_database_is_asked_for_few_things_however_many_wait(self) -> None:
        for _ in range(10):
            made()
        client = client_of("Supervisor")
        read(client, LIST)
        with CaptureQueriesContext(connection) as captured:
            read(client, LIST)
        assert len(captured.captured_queries) <= 14
        assert not any("COUNT(" in q["sql"] for q in captured.captured_queries)


class TestThePage:
    def test_it_tells_reasons_failures_and_history(self) -> None:
        job = make_job("dead")
        operation = made(
            status="running",
            skipped=3,
            skipped_reasons={"no longer dead": 3},
            failed=1,
            failures=[{"id": str(job.id), "error": "DataError: too long"}],
        )
        text = read(client_of("Supervisor"), page_of(operation))
        assert "no longer dead" in text
        assert "DataError: too long" in text
        assert "the provider is back" in text
        assert "bulk.retry" in text
        viewer = read(client_of("Viewer"), page_of(operation))
        assert "DataError" not in viewer
        assert "What people did" not in viewer

    def test_one_that_waits_says_for_what(self) -> None:
        first, second = made(), made()
        text = read(client_of("Viewer"), page_of(second))
        assert page_of(first) in text
        assert "waits for a worker" in read(client_of("Viewer"), page_of(first))

    def test_what_is_searched_in_errors_is_for_those_who_may_read_them(self) -> None:
        operation = made("retry", Filters(status=Status.FAILED, error="card 4929"))
        for url in (LIST, page_of(operation)):
            assert "4929" not in read(client_of("Viewer"), url)
            assert "4929" in read(client_of("Operator"), url)

    def test_hostile_text_is_text(self) -> None:
        operation = made(created_by=SCRIPT, reason=SCRIPT, status="failed", error=SCRIPT,
                         finished_at=timezone.now(), skipped_reasons={SCRIPT: 1})  # fmt: skip
        for url in (LIST, page_of(operation)):
            assert SCRIPT not in read(client_of(), url)

    @pytest.mark.parametrize(
        ("columns", "told"),
        [
            ({"changed": 4_120, "skipped": 30}, "4,150 handled so far, at least 5,850 left"),
            ({"changed": 12_000}, "12,000 handled so far; how many are left is not known"),
            ({"changed": 9_999, "cap": 50_000}, "9,999 handled so far, at least 1 left"),
            (
                {"changed": 12_000, "status": "aborted"},
                "12,000 handled so far; how many are left is",
            ),
        ],
    )
    def test_of_a_least_number_the_bar_claims_no_share(
        self, columns: dict[str, Any], told: str
    ) -> None:
        least: dict[str, Any] = {"status": "running", "matched": 10_000, "matched_is_capped": True}
        operation = made(worked_seconds=2.0, **{**least, **columns})
        for url in (page_of(operation), LIST):
            text = read(client_of("Viewer"), url)
            assert '<svg class="done-bar is-open"' in text
            assert not re.search(r'<rect class="is-\w+"', text), (
                "a piece would say how much is done"
            )
            assert not re.search(r"\d %|about .* left", text)
        assert told in re.sub("<[^>]*>", "", read(client_of("Viewer"), page_of(operation)))
        found = bulk.as_json(operation)
        assert (found["share"], found["seconds_left"]) == (None, None)

    def test_with_a_cap_what_was_changed_is_measured_by_it(self) -> None:
        least: dict[str, Any] = {"status": "running", "matched": 10_000, "matched_is_capped": True}
        operation = made(cap=500, changed=100, skipped=300, worked_seconds=2.0, **least)
        text = read(client_of("Viewer"), page_of(operation))
        assert "<b>100</b> of at most 500 changed, 20 %, about 8.0 s left" in text
        assert re.findall(r'<rect class="is-\w+" x="([^"]+)" width="([^"]+)"', text) == [
            ("0", "5"),
            ("5", "15"),
        ]
        assert bulk.as_json(operation)["share"] == 0.2

    def test_at_the_end_the_number_is_known(self) -> None:
        operation = made(
            status="completed",
            finished_at=timezone.now(),
            matched=10_000,
            matched_is_capped=True,
            changed=33_822,
        )
        text = read(client_of("Viewer"), page_of(operation))
        assert re.search(r"<b>33,822</b> of 33,822 handled, 100 %<", text)

    def test_nothing_is_there_for_an_id_that_is_none(self) -> None:
        nowhere = "0198c0de-0000-7000-8000-000000000000"
        assert client_of("Viewer").get(f"{LIST}{nowhere}/").status_code == 404
        assert client_of().post(f"{LIST}{nowhere}/act/", {"action": "pause"}).status_code == 404


class TestActions:
    def test_pause_resume_and_abort_say_what_they_did_and_are_audited(self) -> None:
        operation = made()
        client = client_of("Operator")
        for name, status in (("pause", "paused"), ("resume", "pending"), ("abort", "aborted")):
            data = {"action": name, "confirmed": "yes"}
            response = client.post(f"{page_of(operation)}act/", data, follow=True)
            assert response.redirect_chain == [(page_of(operation), 302)]
            assert f'state-{status}"' in response.content.decode()
            assert bulk.get(operation.id).status == status
            assert AuditEntry.objects.filter(action=f"bulk.{name}").count() == 1

    def test_aborting_asks_first(self) -> None:
        operation = made()
        answer = client_of("Operator").post(f"{page_of(operation)}act/", {"action": "abort"})
        assert "cannot be resumed" in answer.content.decode()
        assert bulk.get(operation.id).status == "pending"

    def test_what_has_ended_meanwhile_is_told_and_left_alone(self) -> None:
        operation = made(status="completed", finished_at=timezone.now())
        client = client_of("Operator")
        for name in ("pause", "resume", "abort"):
            data = {"action": name, "confirmed": "yes"}
            answer = client.post(f"{page_of(operation)}act/", data, follow=True)
            assert "Nothing was changed" in answer.content.decode(), name
        assert bulk.get(operation.id).status == "completed"

    def test_who_may_not_do_it_may_not_stop_it_either(self) -> None:
        make_job("dead")
        operation = made("purge", Filters(status=Status.FAILED, type="test"))
        for group, allowed in (("Viewer", False), ("Operator", False), ("Supervisor", True)):
            client = client_of(group)
            text = read(client, page_of(operation))
            assert ('value="pause"' in text) is allowed, group
            answer = client.post(f"{page_of(operation)}act/", {"action": "pause"})
            assert answer.status_code == (302 if allowed else 403), group
            assert client.get(f"{page_of(operation)}again/").status_code == (
                200 if allowed else 403
            )

    def test_the_same_again_asks_and_makes_one_of_what_matches_now(self) -> None:
        make_job("dead", type="mail")
        make_job("dead", type="other")
        filters = Filters(status=Status.FAILED, type="mail")
        operation = made("purge", filters, status="completed", finished_at=timezone.now())
        make_job("dead", type="mail")
        client = client_of("Supervisor")
        url = f"{page_of(operation)}again/"
        assert "Purges all 2 jobs that match" in read(client, url)
        client.post(url, {"confirmed": "yes", "typed": "purge 1"})
        assert BulkOperation.objects.count() == 1
        client.post(url, {"confirmed": "yes", "typed": "purge 2"})
        again = BulkOperation.objects.exclude(id=operation.id).get()
        assert (again.action, again.filters, again.matched) == ("purge", operation.filters, 2)

    def test_the_same_again_begins_with_the_same_priority_and_queue(self) -> None:
        make_job()
        for action, arguments, shown in (
            ("change_priority", {"priority": 1}, '<option value="1" selected>'),
            ("move_queue", {"queue": "slow"}, 'name="queue" value="slow"'),
        ):
            operation = bulk.create(action, Filters(), arguments=arguments, by="anna")
            BulkOperation.objects.update(status="completed", finished_at=timezone.now())
            assert shown in read(client_of("Operator"), f"{page_of(operation)}again/"), action

    def test_asking_by_the_page_of_the_ledger_leads_here(self) -> None:
        make_job("dead")
        url = "/admin/jobs/job/bulk/?action=retry&state=dead"
        answer = client_of("Operator").post(url, {"action": "retry", "confirmed": "yes"})
        assert answer["Location"] == page_of(BulkOperation.objects.get())
