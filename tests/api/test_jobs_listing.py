"""`GET /jobs` and `GET /jobs/dlq`: which jobs, in which order, on which page."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs import listing
from jobs.errors import TooBroad
from jobs.models import Job
from tests.api.conftest import Api
from tests.factories import ago, make_edge, make_job, make_schedule

pytestmark = pytest.mark.django_db

JOBS = "/api/v1/jobs"

# Jobs of one transaction: each has the very same times.
MANY = """
INSERT INTO jobs_job (id, type, payload, status, priority, attempt_count, max_attempts, failed_at,
    completed_at)
SELECT lpad(to_hex(n), 32, '0')::uuid, 'many', '{}', %(status)s, 1 + n %% 3, n %% 4, 1 + n %% 5,
    CASE WHEN %(status)s = 'failed' THEN now() END, CASE WHEN %(status)s = 'completed' THEN now() END
FROM generate_series(1, %(count)s) n
"""


def make_many(count: int, status: str = "completed") -> None:
    with connection.cursor() as cursor:
        cursor.execute(MANY, {"count": count, "status": status})


@pytest.fixture
def client(api: Api) -> Any:
    return api("Operator")


@pytest.fixture
def listed(client: Any) -> Callable[[str], list[str]]:
    """The ids that a query lists."""

    def ids(query: str = "", path: str = JOBS) -> list[str]:
        response = client.get(f"{path}?{query}")
        assert response.status_code == 200, response.content
        return [row["id"] for row in response.json()["results"]]

    return ids


def walk(client: Any, url: str, link: str = "next") -> list[str]:
    """The ids of all pages, from one link to the next."""
    seen: list[str] = []
    while url:
        found = client.get(url).json()
        seen += [row["id"] for row in found["results"]]
        url = found[link]
    return seen


class TestFilters:
    @pytest.mark.parametrize(
        ("query", "columns"),
        [
            ("type=a", {"type": "a"}),
            ("queue=mail", {"queue": "mail"}),
            ("priority=1", {"priority": 1}),
            ("error_fingerprint=abc", {"error_fingerprint": "abc"}),
            ("min_attempt_count=2", {"attempt_count": 2}),
            ("min_max_retries=9&max_max_retries=9", {"max_attempts": 9}),
        ],
    )
    def test_a_value_lists_the_jobs_that_have_it(
        self, listed: Any, query: str, columns: dict[str, Any]
    ) -> None:
        job = make_job(**columns)
        make_job()
        assert listed(query) == [str(job.id)]

    def test_a_job_lists_what_depends_on_it(self, listed: Any) -> None:
        parent, waits, has_waited, _ = (make_job() for _ in range(4))
        make_edge(waits, parent)
        make_edge(has_waited, parent, state="satisfied")
        assert listed(f"depends_on={parent.id}") == [str(has_waited.id), str(waits.id)]
        assert listed(f"depends_on={waits.id}") == []

    @pytest.mark.parametrize(
        "status", ["pending", "processing", "completed", "failed", "cancelled"]
    )
    def test_a_status_lists_its_jobs(self, listed: Any, status: str) -> None:
        traits = [[], ["processing"], ["completed"], ["dead"], ["cancelled"]]
        jobs = {str(job.status): str(job.id) for job in (make_job(*each) for each in traits)}
        assert listed(f"status={status}") == [jobs[status]]

    def test_a_state_tells_the_kinds_of_pending_apart(self, listed: Any) -> None:
        ready, held, scheduled = make_job(), make_job("held"), make_job("scheduled")
        assert listed("state=held") == [str(held.id)]
        assert listed("state=scheduled") == [str(scheduled.id)]
        assert listed("status=pending&state=ready") == [str(ready.id)]
        assert listed("status=completed&state=ready") == []

    @pytest.mark.parametrize(
        "name",
        [
            "created",
            "scheduled",
            "started",
            "completed",
            "failed",
            "cancelled",
            "next_retry",
            "updated",
        ],
    )
    def test_times_are_from_one_moment_on_and_before_another(self, listed: Any, name: str) -> None:
        early, late = ago(hours=3), ago(hours=1)
        others = {"created_at": ago(hours=4), "updated_at": ago(hours=4)}
        first = make_job(**{**others, f"{name}_at": early})
        second = make_job(**{**others, f"{name}_at": late})
        between = ago(hours=2)
        for moment in (quote(between.isoformat()), str(int(between.timestamp() * 1_000))):
            assert listed(f"type=test&{name}_after={moment}") == [str(second.id)]
            assert str(first.id) in listed(f"type=test&{name}_before={moment}")
            assert str(second.id) not in listed(f"type=test&{name}_before={moment}")
        exactly = quote(late.isoformat())
        assert listed(f"{name}_after={exactly}") == [str(second.id)]
        assert str(second.id) not in listed(f"{name}_before={exactly}")

    def test_a_plus_that_came_as_a_space_is_a_plus(self, listed: Any) -> None:
        job = make_job()
        assert listed("created_after=2026-01-01T00:00:00+01:00") == [str(job.id)]

    def test_old_jobs_are_found_by_their_time_of_creation(self, listed: Any) -> None:
        old, older = make_job(created_at=ago(days=30)), make_job(created_at=ago(days=60))
        make_job()
        after, before = (quote(ago(days=days).isoformat()) for days in (45, 15))
        assert listed(f"created_after={after}&created_before={before}") == [str(old.id)]
        assert listed(f"created_before={after}") == [str(older.id)]

    def test_an_interval_finds_its_jobs_however_it_was_written(self, listed: Any) -> None:
        schedule = make_schedule(recur_interval="every_1_hour", interval_seconds=3_600)
        job = make_job(schedule=schedule)
        make_job(schedule=make_schedule())
        make_job()
        for text in ("every_1_hour", "every_60_minutes", "every_3600_seconds"):
            assert listed(f"recur_interval={text}") == [str(job.id)]
        assert listed(f"schedule={schedule.id}") == [str(job.id)]

    def test_jobs_of_the_products_own_are_left_out_unless_asked_for(self, listed: Any) -> None:
        job, lane = make_job("dead"), make_job("dead", metadata={"internal": True, "run": 1})
        for path in (JOBS, f"{JOBS}/dlq"):
            assert listed(path=path) == [str(job.id)]
            assert listed("internal=false", path=path) == [str(job.id)]
            assert set(listed("internal=true", path=path)) == {str(job.id), str(lane.id)}

    def test_dead_letters_are_a_list_of_their_own(self, listed: Any) -> None:
        make_job()
        first = make_job("dead", failed_at=ago(hours=2), type="a")
        last = make_job("dead", failed_at=ago(hours=1))
        path = f"{JOBS}/dlq"
        assert listed(path=path) == listed("status=failed") == [str(last.id), str(first.id)]
        assert listed("type=a", path=path) == [str(first.id)]

    def test_empty_values_are_as_if_not_given(self, listed: Any) -> None:
        job = make_job()
        assert listed("status=&type=&created_before=&page=&limit=&cursor=") == [str(job.id)]


class TestPages:
    def test_ten_jobs_are_a_page_unless_a_limit_is_given(self, client: Any) -> None:
        make_many(60)
        assert len(client.get(JOBS).json()["results"]) == 10
        assert len(client.get(f"{JOBS}?limit=50").json()["results"]) == 50
        assert client.get(f"{JOBS}?limit=51").status_code == 400

    @pytest.mark.parametrize(
        ("status", "sort", "order"),
        [
            ("completed", "", ""),
            ("failed", "", ""),
            ("completed", "priority", "asc"),
            ("completed", "priority", "desc"),
            ("completed", "attempt_count", "asc"),
            ("failed", "max_retries", "desc"),
        ],
    )
    def test_all_pages_show_each_of_1000_equal_jobs_exactly_once(
        self, client: Any, status: str, sort: str, order: str
    ) -> None:
        make_many(1_000, status)
        sorting = f"&sort_by={sort}&sort_order={order}" if sort else ""
        numbered = walk(client, f"{JOBS}?status={status}&limit=50{sorting}")
        first = client.get(f"{JOBS}?status={status}&limit=37{sorting}").json()
        cursor = f"{JOBS}?status={status}&limit=37{sorting}&cursor={first['next_cursor']}"
        by_cursor = [row["id"] for row in first["results"]] + walk(client, cursor)
        assert numbered == by_cursor
        assert len(numbered) == len(set(numbered)) == 1_000
        if sort:
            column = "max_attempts" if sort == "max_retries" else sort
            values = dict(Job.objects.values_list("id", column))
            shown = [values[Job._meta.pk.to_python(id)] for id in numbered]
            assert shown == sorted(shown, reverse=order == "desc")

    @pytest.mark.parametrize("query", ["", "&status=failed", "&sort_by=priority&sort_order=desc"])
    def test_the_way_back_is_the_way_forth(self, client: Any, query: str) -> None:
        make_many(43, "failed")
        pages, url = [], f"{JOBS}?limit=10{query}"
        last = client.get(url).json()
        pages.append([row["id"] for row in last["results"]])
        url = f"{url}&cursor={last['next_cursor']}"
        while url:
            last = client.get(url).json()
            pages.append([row["id"] for row in last["results"]])
            url = last["next"]
        back, url = [], last["previous"]
        while url:
            found = client.get(url).json()
            back.append([row["id"] for row in found["results"]])
            url = found["previous"]
        assert back == pages[-2::-1]

    def test_jobs_that_are_made_meanwhile_push_no_other_out(self, client: Any) -> None:
        make_many(30)
        for sorting in ("", "&sort_by=priority"):
            first = client.get(f"{JOBS}?limit=10{sorting}").json()
            before = {row["id"] for row in first["results"]}
            new = {str(make_job(priority=1).id) for _ in range(5)}
            rest = walk(client, f"{JOBS}?limit=10{sorting}&cursor={first['next_cursor']}")
            assert len(rest) == len(set(rest))
            assert not before & set(rest)
            if sorting:
                assert not new & set(rest)
                assert len(before | set(rest)) == 35
            else:
                assert len(before | set(rest)) == 30

    def test_numbered_pages_end_where_the_counting_does(
        self, client: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(listing, "COUNTED", 100)
        make_many(120)
        last = client.get(f"{JOBS}?page=10").json()
        assert (last["count"], last["count_at_least"]) == (None, 101)
        assert "cursor=" in last["next"]
        refused = client.get(f"{JOBS}?page=11")
        assert refused.status_code == 400
        assert "next_cursor" in refused.json()["page"][0]
        assert len(walk(client, f"{JOBS}?page=10")) == 30

    def test_links_keep_the_filters(self, client: Any) -> None:
        make_many(30)
        found = client.get(f"{JOBS}?type=many&limit=10&page=2&status=completed").json()
        assert found["next"].endswith("/api/v1/jobs?limit=10&page=3&status=completed&type=many")
        assert found["previous"].endswith("/api/v1/jobs?limit=10&page=1&status=completed&type=many")
        assert client.get(found["next"]).json()["next"] is None

    def test_a_page_behind_the_end_is_empty(self, client: Any) -> None:
        make_many(5)
        found = client.get(f"{JOBS}?page=3").json()
        assert (found["results"], found["next"], found["count"]) == ([], None, 5)


class TestCounts:
    def test_counts_are_exact_as_far_as_they_go(
        self, client: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(listing, "COUNTED", 40)
        make_many(40)
        found = client.get(JOBS).json()
        assert (found["count"], found["count_at_least"]) == (40, 40)
        make_job("completed")
        found = client.get(JOBS).json()
        assert (found["count"], found["count_at_least"]) == (None, 41)
        assert client.get(f"{JOBS}?type=test").json()["count"] == 1
        cursor = client.get(JOBS).json()["next_cursor"]
        assert client.get(f"{JOBS}?cursor={cursor}").json()["count_at_least"] == 41

    def test_a_count_that_takes_too_long_is_said_to_be_at_least_what_was_seen(
        self, client: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        make_many(25)
        slow = listing.Count(exact=None, at_least=0)
        monkeypatch.setattr(listing, "count", lambda filters: slow)
        found = client.get(f"{JOBS}?page=2").json()
        assert (found["count"], found["count_at_least"]) == (None, 21)

    def test_a_search_that_takes_too_long_is_refused_as_too_broad(
        self, client: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def slow(*args: Any, **options: Any) -> None:
            raise TooBroad("is too broad: it took more than 3 s", field="filter")

        monkeypatch.setattr(listing, "page", slow)
        response = client.get(f"{JOBS}?type=rare")
        assert response.status_code == 400
        assert response.json()["code"] == "too_broad"

    def test_no_list_counts_or_skips_without_bound(self, client: Any) -> None:
        make_many(30, "failed")
        cursor = client.get(f"{JOBS}?status=failed").json()["next_cursor"]
        with CaptureQueriesContext(
            connection,
        ) as ran:
            for query in (
                "",
                "page=2",
                "status=failed",
                f"status=failed&cursor={cursor}",
                "type=x",
            ):
                client.get(f"{JOBS}?{query}")
            client.get(f"{JOBS}/dlq?sort_by=priority")
        for statement in (each["sql"] for each in ran.captured_queries):
            if "jobs_job" in statement and "SELECT" in statement:
                assert "LIMIT" in statement or '"id" IN (' in statement, statement


class TestRows:
    def test_lists_carry_no_payload_and_only_the_beginning_of_an_error(self, client: Any) -> None:
        make_job("dead", payload={"n": "hush"}, result="hush", last_error="x" * 2_000)
        response = client.get(JOBS)
        row = response.json()["results"][0]
        assert not {"payload", "result", "metadata"} & set(row)
        assert row["last_error"] == "x" * 300
        assert b"hush" not in response.content

    def test_who_may_not_read_payloads_gets_no_error_text(self, api: Api) -> None:
        make_job("dead", last_error="ValueError: hush")
        make_job("held", hold_reason="hush")
        response = api("Viewer").get(JOBS)
        assert b"hush" not in response.content
        held, dead = response.json()["results"]
        assert (held["hold_reason"], held["hidden"]) == (None, ["hold_reason"])
        assert (dead["last_error"], dead["hidden"]) == (None, ["last_error"])

    def test_a_blocked_job_says_what_it_waits_for(self, client: Any) -> None:
        parents = [make_job("dead") for _ in range(12)]
        child = make_job()
        for parent in parents:
            make_edge(child, parent)
        row = client.get(f"{JOBS}?state=blocked").json()["results"][0]
        assert row["unmet_dependencies"] == 12
        shown = [blocker["id"] for blocker in row["blocked_by"]]
        assert shown == [str(parent.id) for parent in parents[:10]]
        assert row["blocked_by"][0] == {
            "id": str(parents[0].id),
            "type": "test",
            "status": "failed",
            "kind": "completed",
        }

    def test_a_recurring_job_says_how_often(self, client: Any) -> None:
        schedule = make_schedule(
            recur_interval="", interval_seconds=None, cron="0 3 * * *", time_zone="UTC"
        )
        make_job(schedule=schedule)
        make_job(schedule=make_schedule())
        every, cron = client.get(JOBS).json()["results"]
        assert (every["recur_interval"], every["cron"]) == ("every_1_minute", None)
        assert (cron["recur_interval"], cron["cron"]) == (None, "0 3 * * *")

    def test_times_are_in_utc_with_an_offset(self, client: Any, settings: Any) -> None:
        settings.TIME_ZONE = "Asia/Tokyo"
        job = make_job()
        row = client.get(JOBS).json()["results"][0]
        assert row["created_at"].endswith("Z")
        job.refresh_from_db()
        assert row["created_at"] == job.created_at.isoformat().replace("+00:00", "Z")

    def test_a_page_takes_the_same_few_statements_however_many_jobs_it_shows(
        self, client: Any
    ) -> None:
        def statements(limit: int) -> int:
            with CaptureQueriesContext(connection) as ran:
                client.get(f"{JOBS}?limit={limit}")
            return len(ran)

        for _ in range(20):
            make_edge(make_job(schedule=make_schedule()), make_job())
        client.get(JOBS)  # notes the use of the token
        assert statements(2) == statements(30)


def test_the_browsable_pages_show_lists_and_jobs(api: Api) -> None:
    client = api("Supervisor")
    job = make_job("dead", payload={"text": "<script>alert(1)</script>"})
    for path in (JOBS, f"{JOBS}?sort_by=priority&limit=1", f"{JOBS}/dlq", f"{JOBS}/{job.id}"):
        response = client.get(path, HTTP_ACCEPT="text/html")
        assert response.status_code == 200
        assert response.headers["Content-Type"].startswith("text/html")
        assert b"<script>alert" not in response.content


def test_the_document_of_an_error_is_json_whoever_asks(api: Api) -> None:
    found = json.loads(api("Viewer").get(f"{JOBS}?x=1").content)
    assert found == {"x": ["is not a parameter of this address"]}
