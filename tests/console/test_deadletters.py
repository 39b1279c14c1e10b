"""The page of dead letters: what it counts, who may do what, and that numbers told are rows changed."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs.admin.deadletters import reading
from jobs.console import kept, sample
from jobs.deadletters import Hour
from jobs.models import AuditEntry, BulkOperation, Job
from jobs.states import Status
from tests.console.people import client_of, read
from tests.factories import ago, make_job

pytestmark = pytest.mark.django_db

PAGE = "/admin/jobs/job/dead-letters/"
BULK = "/admin/jobs/job/bulk/"
SCRIPT = "<script>alert(1)</script>"


@pytest.fixture(autouse=True)
def _nothing_kept() -> None:
    kept.forget()


def groups_in(text: str) -> list[str]:
    table = text.partition('aria-label="Groups of dead letters"')[2].partition("</table>")[0]
    return re.findall(r'<tr data-row="([^"]+)"', table)


def jobs_in(text: str) -> list[str]:
    return re.findall(r'<tr data-row="([^"]+)"', text.partition('id="result_list"')[2])


class TestWhatItShows:
    def test_groups_stand_above_the_jobs_the_biggest_first(self) -> None:
        for n in range(3):
            make_job("dead", type="mail", error_fingerprint="a" * 16, failed_at=ago(hours=n + 1))
        make_job("dead", type="resize", error_fingerprint="b" * 16, last_error="OSError: no space")
        make_job("completed")
        text = read(client_of("Operator"), PAGE)
        assert groups_in(text) == ["mail " + "a" * 16, "resize " + "b" * 16]
        assert len(jobs_in(text)) == 4
        assert "OSError: no space" in text
        assert re.search(r'data-cell="total">4<', text)

    def test_a_group_leads_to_its_jobs(self) -> None:
        job = make_job("dead", type="mail", error_fingerprint="a" * 16)
        make_job("dead", type="mail", error_fingerprint="b" * 16)
        client = client_of("Viewer")
        link = re.search(
            r'href="(\?state=dead&amp;type=mail&amp;error_fingerprint=a+)', read(client, PAGE)
        )
        assert link
        text = read(client, PAGE + link[1].replace("&amp;", "&"))
        assert jobs_in(text) == [str(job.id)]
        assert len(groups_in(text)) == 2

    def test_the_chart_counts_each_hour(self) -> None:
        for past in (0, 0, 5, 30):
            make_job("dead", failed_at=ago(hours=past))
        text = read(client_of("Viewer"), PAGE)
        hours = [int(n) for n in re.findall(r'data-cell="hour-\d+">(\d+)<', text)]
        assert len(hours) == 24
        assert hours[-1] == 2
        assert sum(hours) == 3

    def test_only_the_dead_are_listed_whatever_the_address_says(self) -> None:
        make_job("completed")
        dead = make_job("dead", priority=1)
        for query in ("?state=completed", "?status=completed", "?priority=high", "?status=failed"):
            assert jobs_in(read(client_of("Viewer"), PAGE + query)) == [str(dead.id)], query

    def test_nothing_dead_is_said_in_words(self) -> None:
        make_job("completed")
        assert "No dead jobs." in read(client_of("Viewer"), PAGE)
        make_job("dead")
        sample.forget()
        kept.forget()
        from jobs.live.sample import _Own

        _Own.counted_at = float("-inf")
        assert "No dead jobs." not in read(client_of("Viewer"), PAGE)

    def test_hostile_text_is_text(self) -> None:
        make_job("dead", type="x", last_error=SCRIPT, queue="q", error_fingerprint=SCRIPT[:16])
        text = read(client_of("Operator"), PAGE)
        assert SCRIPT not in text
        assert "&lt;script&gt;" in text

    def test_errors_are_for_those_who_may_read_them(self) -> None:
        make_job("dead", last_error="ValueError: 4929 1234")
        assert "4929" not in read(client_of("Viewer"), PAGE)
        assert "4929" in read(client_of("Operator"), PAGE)

    @pytest.mark.usefixtures("frozen")
    def test_the_database_is_asked_for_few_things_and_never_for_a_count_of_all(
        self, settings: Any
    ) -> None:
        local = {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "LOCATION": "letters"}
        settings.CACHES = {"default": local}
        for n in range(20):
            make_job("dead", type=f"t{n}", error_fingerprint=f"{n:016x}")
        client = client_of("Supervisor")
        read(client, PAGE)
        sample.current()
        with CaptureQueriesContext(connection) as captured:
            read(client, f"{PAGE}?queue=default")
        asked = [q["sql"] for q in captured.captured_queries]
        selects = [sql for sql in asked if sql.lstrip().upper().startswith(("SELECT", "WITH"))]
        assert len(selects) <= 12, selects
        for sql in selects:
            assert "OFFSET" not in sql
            if "COUNT(" in sql and "jobs_job" in sql:
                assert "LIMIT" in sql, sql

    def test_the_hours_and_the_ends_come_from_the_index_of_the_dead(self) -> None:
        Job.objects.bulk_create(
            Job(type="t", status="failed", failed_at=ago(minutes=n))
            if n % 10 == 0
            else Job(type="t", status="completed", completed_at=ago(minutes=n))
            for n in range(5_000)
        )
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE jobs_job")
            for sql in (reading.BY_HOUR, reading.ENDS):
                cursor.execute(f"EXPLAIN {sql}", {"cap": 2_000})
                plan = "\n".join(row[0] for row in cursor.fetchall())
                assert "job_dead" in plan
                assert "Seq Scan on jobs_job" not in plan


class TestWhatIsDone:
    def test_one_is_retried_at_once_and_one_is_where_one_was(self) -> None:
        job = make_job("dead")
        here = f"{PAGE}?state=dead&queue=default"
        client = client_of("Operator")
        response = client.post(PAGE, {"one": f"retry:{job.id}", "next": here})
        assert response["Location"] == here
        assert Job.objects.get(id=job.id).status == Status.PENDING
        assert "1 retried" in read(client, here)

    def test_a_retry_twice_changes_one_and_says_so(self) -> None:
        job = make_job("dead")
        client = client_of("Operator")
        client.post(PAGE, {"one": f"retry:{job.id}"})
        text = client.post(PAGE, {"one": f"retry:{job.id}"}, follow=True).content.decode()
        assert "0 retried, 1 skipped" in text

    def test_purging_one_asks_and_then_does_it(self) -> None:
        job = make_job("dead")
        client = client_of("Supervisor")
        asked = client.post(PAGE, {"one": f"purge:{job.id}"}).content.decode()
        assert "Purges the 1 job" in asked
        assert Job.objects.filter(id=job.id).exists()
        client.post(PAGE, {"one": f"purge:{job.id}", "confirmed": "yes"})
        assert not Job.objects.filter(id=job.id).exists()
        assert AuditEntry.objects.filter(action="job.purge").count() == 1

    def test_purging_what_is_ticked_needs_the_typed_number(self) -> None:
        jobs = [make_job("dead") for _ in range(3)]
        ids = [str(job.id) for job in jobs]
        client = client_of("Supervisor")
        data = {"action": "purge", "_selected_action": ids, "confirmed": "yes"}
        assert "purge 3" in client.post(PAGE, {**data, "typed": "purge 2"}).content.decode()
        assert Job.objects.count() == 3
        text = client.post(PAGE, {**data, "typed": "purge 3"}, follow=True).content.decode()
        assert "3 purged" in text
        assert Job.objects.count() == 0

    def test_what_one_may_not_do_is_not_shown_and_not_done(self) -> None:
        job = make_job("dead")
        for group, shown, hidden in (
            ("Viewer", [], ["retry:", "purge:", "Retry all", "Empty…"]),
            ("Operator", ["retry:", "Retry all"], ["purge:", "Empty…"]),
            ("Supervisor", ["retry:", "purge:", "Retry all", "Empty…"], []),
        ):
            text = read(client_of(group), PAGE)
            for each in shown:
                assert each in text, (group, each)
            for each in hidden:
                assert each not in text, (group, each)
        for group, name in (("Viewer", "retry"), ("Operator", "purge")):
            answer = client_of(group).post(PAGE, {"one": f"{name}:{job.id}", "confirmed": "yes"})
            assert answer.status_code == 403
        assert Job.objects.get(id=job.id).status == Status.FAILED

    @pytest.mark.parametrize("one", ["", "retry", "retry:x", "retry:\x00", "drop:1"])
    def test_a_button_that_nobody_made_changes_nothing(self, one: str) -> None:
        make_job("dead")
        answer = client_of().post(PAGE, {"one": one})
        assert answer.status_code in (302, 403)
        assert Job.objects.get().status == Status.FAILED

    def test_a_whole_group_becomes_a_bulk_operation_of_that_group_alone(self) -> None:
        for fingerprint in ("a" * 16, "a" * 16, "b" * 16):
            make_job("dead", error_fingerprint=fingerprint)
        client = client_of("Supervisor")
        url = f"{BULK}?action=purge&state=dead&type=test&error_fingerprint={'a' * 16}&next={PAGE}"
        text = read(client, url)
        assert "Purges all 2 jobs that match" in text
        assert f'href="{PAGE}" data-focus' in text
        client.post(url, {"action": "purge", "confirmed": "yes", "typed": "purge 3"})
        assert not BulkOperation.objects.exists()
        client.post(url, {"action": "purge", "confirmed": "yes", "typed": "purge 2"})
        made = BulkOperation.objects.get()
        assert (made.action, made.matched) == ("purge", 2)
        assert made.filters["error_fingerprint"] == "a" * 16

    def test_emptying_is_a_right_of_its_own(self) -> None:
        make_job("dead")
        client = client_of("Viewer", "jobs.purge_job")
        assert "Empty…" not in read(client, PAGE)
        assert client.get(f"{BULK}?action=purge&state=dead").status_code == 403
        assert client.get(f"{BULK}?action=purge&state=dead&queue=default").status_code == 200
        assert "Empty…" in read(client_of("Viewer", "jobs.purge_all_dead", "jobs.purge_job"), PAGE)

    def test_who_may_not_purge_is_not_asked_to_empty(self) -> None:
        make_job("dead")
        assert "Empty…" not in read(client_of("Viewer", "jobs.purge_all_dead"), PAGE)

    def test_asking_about_a_group_leads_back_to_the_same_list(self) -> None:
        make_job("dead", type="mail", queue="slow", error_fingerprint="a" * 16)
        client = client_of("Supervisor")
        text = read(client, PAGE, queue="slow", groups="all")
        for words in ("Retry all<", "Purge<", "Empty…"):
            link = re.search(rf'href="([^"]+)">{words}', text)
            assert link, words
            asked = read(client, link[1].replace("&amp;", "&"))
            back = f"{PAGE}?queue=slow&amp;state=dead&amp;groups=all"
            assert f'href="{back}" data-focus' in asked, words

    def test_more_groups_are_shown_above_the_same_list(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(reading, "FEW", 1)
        for fingerprint in "ab":
            make_job("dead", queue="slow", error_fingerprint=fingerprint * 16)
        client = client_of("Viewer")
        link = re.search(r'href="([^"]+)">Show up to 200', read(client, PAGE, queue="slow"))
        assert link
        more = read(client, PAGE + link[1].replace("&amp;", "&").partition("#")[0])
        assert len(groups_in(more)) == 2
        assert 'name="queue" value="slow"' in more

    @pytest.mark.parametrize("place", ["//evil.example/", "https://evil.example/", "javascript:x"])
    def test_the_way_back_leads_nowhere_else(self, place: str) -> None:
        job = make_job("dead")
        client = client_of()
        assert f'href="{place}' not in read(client, BULK, action="retry", state="dead", next=place)
        answer = client.post(PAGE, {"one": f"retry:{job.id}", "next": place})
        assert answer["Location"].startswith(PAGE)


def test_a_job_leads_back_to_where_it_was_opened() -> None:
    job = make_job("dead")
    client = client_of("Operator")
    link = re.search(
        rf'href="(/admin/jobs/job/{job.id}/[^"]*)" data-open', read(client, f"{PAGE}?queue=default")
    )
    assert link
    assert f'href="{PAGE}?queue=default&amp;state=dead' in read(
        client, link[1].replace("&amp;", "&")
    )


def test_old_addresses_show_the_same_dead_jobs() -> None:
    job = make_job("dead")
    for query in ("status=failed", "state=dead"):
        assert str(job.id) in read(client_of("Viewer"), f"/admin/jobs/job/?{query}")


def test_an_hour_beyond_the_cap_says_so_and_no_bar_is_higher_than_the_chart() -> None:
    hours = [
        Hour(start=ago(hours=2), count=0, is_capped=False),
        Hour(start=ago(hours=1), count=1, is_capped=False),
        Hour(start=ago(), count=2_000, is_capped=True),
    ]
    bars = reading.bars_of(hours)
    assert [bar.text for bar in bars] == ["0", "1", "2,000+"]
    assert [bar.height for bar in bars] == [0, 2, 100]


def test_what_takes_long_to_read_is_read_less_often() -> None:
    assert reading.fresh_seconds(0.01) == 2
    assert reading.fresh_seconds(0.5) == 5
    assert reading.fresh_seconds(60) == 15
