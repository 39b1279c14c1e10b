"""The overview: is what it says true, who sees what, and what does it cost."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
import redis
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from jobs import permissions, registry
from jobs.admin.overview import active, figures, health, letters, log, numbers
from jobs.admin.overview.figures import SPANS
from jobs.admin.overview.numbers import Duties, Numbers, Paused
from jobs.console import kept
from jobs.database import DjangoDatabase
from jobs.histograms import pack
from jobs.live import stream
from jobs.models import Job, Rollup, Total
from jobs.publishing import STREAM
from jobs.skew import ClockSkew
from jobs.workers import WorkerFacts, living
from ranges.models import RangeRun
from tests.console import scenery
from tests.console.anew import look_anew
from tests.console.people import client_of, read
from tests.factories import ago, make_job, make_queue, make_schedule, make_worker

pytestmark = pytest.mark.django_db

OVERVIEW = "/admin/"
PARTS = "/admin/overview/"
SCRIPT = "<script>alert(1)</script>"
BIG = ("jobs_job", "jobs_rollup", "jobs_attempt", "jobs_joblog", "ranges_rangenode")


@pytest.fixture(autouse=True)
def handled() -> Iterator[None]:
    registry.handler("test")(lambda payload: None)
    yield
    registry.remove("test")


@pytest.fixture(autouse=True)
def live(redis_url: str) -> None:
    """With an empty Redis."""


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Redis."""

    def refuse() -> Any:
        raise ConnectionError

    monkeypatch.setattr(stream, "client", refuse)


def text_of(name: str, *, client: Any = None) -> str:
    """A panel, as a viewer has it."""
    look_anew()
    return read(client or client_of("Viewer"), PARTS, parts=name)


def plain(html: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", html).split())


def card(html: str, name: str) -> str:
    found = re.search(
        rf'<li><a class="[^"]*" href="[^"]*" data-card="{name}".*?</a></li>', html, re.DOTALL
    )
    assert found, name
    return plain(found[0])


class TestCards:
    def test_each_says_its_number_and_leads_to_its_list(self) -> None:
        make_worker(concurrency=8)
        make_job(due_at=ago(minutes=3))
        make_job(due_at=ago(minutes=1))
        make_job("processing")
        make_job("retrying")
        make_job("dead", failed_at=ago(minutes=5))
        make_job("dead", failed_at=ago(hours=3))
        make_job(unmet_dependencies=1)
        rollup(minutes=0, jobs=30)
        html = text_of("cards")
        assert re.match(r"Ready 2 oldest 3 min", card(html, "ready"))
        assert card(html, "running") == "Running 1 of 8 slots"
        assert card(html, "completed").startswith("Completed / min 30")
        assert card(html, "retrying").startswith("Retrying 1")
        assert card(html, "dead") == "Dead 2 1 new in the last hour"
        assert card(html, "blocked").startswith("Blocked 1")
        client = client_of("Viewer")
        places = re.findall(r'href="(/admin/[^"]+)"', html)
        assert "/admin/jobs/job/dead-letters/" in places
        for place in places:
            read(client, place)

    def test_a_paused_queue_keeps_nobody_waiting(self) -> None:
        make_queue(name="default", paused=True)
        make_job(due_at=ago(hours=2))
        assert "nothing waits" in card(text_of("cards"), "ready")

    def test_the_rate_is_told_against_the_hour(self) -> None:
        for minute in range(1, 60):
            rollup(minutes=minute, jobs=10)
        rollup(minutes=0, jobs=10)
        assert "%" in card(text_of("cards"), "completed")
        Rollup.objects.all().delete()
        assert "nothing to compare" in card(text_of("cards"), "completed")


class TestHealth:
    def test_all_is_well_with_a_worker_and_nothing_late(self) -> None:
        make_worker(concurrency=4)
        assert "All well 1 worker, 0 of 4 slots busy, nothing waits" in plain(text_of("health"))

    def test_without_a_worker_it_is_not(self) -> None:
        make_job()
        assert "No worker is running: 1 job waits for one" in plain(text_of("health"))

    def test_a_worker_that_is_silent_is_told(self) -> None:
        make_worker()
        make_worker(beat_at=ago(minutes=5))
        html = text_of("health")
        assert "1 worker shows no sign of life" in plain(html)
        assert 'href="/admin/jobs/worker/"' in html

    def test_due_jobs_that_nobody_knows_are_told(self) -> None:
        make_worker(types=["other"])
        make_job()
        assert "no live worker knows the type test" in plain(text_of("health"))

    def test_a_rise_of_dead_letters_is_told(self) -> None:
        make_worker()
        for _ in range(12):
            make_job("dead", failed_at=ago(minutes=5))
        make_job("dead", failed_at=ago(minutes=90))
        told = "Dead letters rise: 12 in the last hour, 1 in the one before"
        assert told in plain(text_of("health"))
        for _ in range(11):
            make_job("dead", failed_at=ago(minutes=90))
        assert "rise" not in plain(text_of("health"))

    def test_a_queue_that_is_late_and_one_that_is_paused_for_long_are_told(self) -> None:
        make_worker()
        make_job(due_at=ago(minutes=7))
        make_queue(
            name="mail", paused=True, reason=SCRIPT, changed_by="anna", changed_at=ago(minutes=20)
        )
        make_queue(name="fresh", paused=True, changed_at=ago(minutes=5))
        html = text_of("health")
        assert "Jobs in default wait for up to 7 min" in plain(html)
        assert re.search(r"Queue mail has been paused for 20 min( \d+ s)? by anna", plain(html))
        assert "fresh" not in html
        assert SCRIPT not in html
        assert 'href="/admin/jobs/queue/mail/"' in html

    def test_a_schedule_that_is_overdue_is_told_without_its_error(self) -> None:
        make_worker()
        make_schedule(name="nightly", next_slot=ago(minutes=5), last_error="the secret")
        html = text_of("health")
        assert "Schedule nightly is overdue by 5 min" in plain(html)
        assert "secret" not in html

    def test_the_worst_comes_first(self) -> None:
        found = health.facts(
            {"at": timezone.now().timestamp(), "feed": {}},
            given(paused=[Paused(name="a", since=ago(hours=1), reason="", by="", seconds=3_600)]),
            Duties(unknown=[], overdue=[("late", 120.0)]),
            [],
        )
        assert [fact.level for fact in found] == sorted(fact.level for fact in found)
        assert found[0].text == "No worker is running"

    def test_a_clock_that_is_off_is_told(self) -> None:
        texts = [fact.text for fact in health.facts({}, given(skew=-4.2), NO_DUTIES, workers())]
        assert "This host's clock is 4.2 s behind the database's" in texts
        texts = [fact.text for fact in health.facts({}, given(skew=0.5), NO_DUTIES, workers())]
        assert not any("clock" in text for text in texts)

    def test_a_workers_clock_that_is_off_is_told_once_for_its_host(self) -> None:
        for host, seconds in (("a", 30.0), ("a", 30.1), ("b", -1.0), ("c", -3_600.0)):
            make_worker(host=host, clock_skew_seconds=seconds, clock_skew_uncertainty_seconds=0.002)
        make_worker(host="silent", clock_skew_seconds=60.0, beat_at=ago(minutes=3))
        make_worker(host="far", clock_skew_seconds=5.0, clock_skew_uncertainty_seconds=4.0)
        assert re.findall("The clock of (.*?) the database", plain(text_of("health"))) == [
            "a is 30.1 s ahead of", "c is 1 h behind"
        ]  # fmt: skip

    @pytest.mark.usefixtures("away")
    def test_without_redis_it_says_that_jobs_go_on(self) -> None:
        make_worker()
        assert "Redis cannot be reached" in plain(text_of("health"))

    def test_old_numbers_are_said_to_be_old(self) -> None:
        stats = {"at": timezone.now().timestamp() - 42, "states": {}, "queues": []}
        texts = [fact.text for fact in health.facts({"jobs": stats}, given(), NO_DUTIES, workers())]
        assert "These numbers are 42.0 s old" in texts or "These numbers are 42 s old" in texts


NO_DUTIES = Duties(unknown=[], overdue=[])


def given(*, paused: list[Paused] | None = None, skew: float = 0.0) -> Numbers:
    return Numbers(
        completed_per_minute=0,
        dead_lately=0,
        dead_before=0,
        dead_is_capped=False,
        paused=paused or [],
        skew=ClockSkew(seconds=skew, uncertainty_seconds=0.01),
    )


def workers() -> list[WorkerFacts]:
    make_worker()
    return living(DjangoDatabase())


def rollup(*, minutes: int, jobs: int, outcome: str = "succeeded", **columns: Any) -> Rollup:
    at = columns.pop("minute", None) or _minute() - timedelta(minutes=minutes)
    wait, run = columns.pop("wait", 6), columns.pop("run", 9)
    return Rollup.objects.create(
        minute=at, jobs=jobs, outcome=outcome, wait_seconds=1, run_seconds=1, folded=True,
        timings=[pack(jobs, wait=wait, run=run)],
        **{"queue": "default", "type": "test", **columns},
    )  # fmt: skip


def _minute() -> datetime:
    with connection.cursor() as cursor:
        cursor.execute("SELECT date_trunc('minute', now())")
        found: datetime = cursor.fetchone()[0]
        return found


class TestFigures:
    def at(self, found: figures.Figures, minutes: int) -> int:
        return found.times.index(int((_minute() - timedelta(minutes=minutes)).timestamp()))

    def test_nothing_counted_is_a_gap_and_nothing_done_is_a_zero(self) -> None:
        rollup(minutes=10, jobs=6)
        rollup(minutes=5, jobs=12, outcome="failed")
        found = figures.figures()
        before, ten, between, five = (self.at(found, n) for n in (20, 10, 7, 5))
        assert found.completed[before] is None
        assert found.completed[ten] == 6
        assert found.completed[between] == 0
        assert found.failed[five] == 12
        assert found.wait[between] is None
        assert found.wait[ten] is not None

    def test_percentiles_come_from_all_queues_and_types_together(self) -> None:
        rollup(minutes=5, jobs=90, wait=0, run=3)
        rollup(minutes=5, jobs=10, wait=9, run=12, queue="mail", type="other")
        found = figures.figures()
        assert 0.5 <= (found.wait[self.at(found, 5)] or 0) < 1.0
        assert 5.0 <= (found.run[self.at(found, 5)] or 0) < 10.0

    def test_of_a_queue_only_its_own_and_nothing_that_was_handed_back(self) -> None:
        rollup(minutes=5, jobs=3, queue="mail")
        rollup(minutes=5, jobs=50)
        rollup(minutes=5, jobs=70, queue="mail", outcome="handed_back")
        found = figures.figures(queue="mail")
        assert found.completed[self.at(found, 5)] == 3
        assert found.failed[self.at(found, 5)] == 0

    def test_what_is_over_is_summed_once_and_what_is_new_is_seen(self) -> None:
        rollup(minutes=50, jobs=1)
        gone = rollup(minutes=30, jobs=5)
        figures.figures()
        kept.forget("figures:1h:")
        gone.delete()
        rollup(minutes=1, jobs=8)
        found = figures.figures()
        assert found.completed[self.at(found, 30)] == 5
        assert found.completed[self.at(found, 1)] == 8

    @pytest.mark.parametrize("name", list(SPANS))
    def test_each_span_has_few_points_and_says_jobs_a_minute(self, name: str) -> None:
        span = SPANS[name]
        for minute in range(0, span.seconds // 60, span.step // 60):
            rollup(minutes=minute + 2, jobs=span.step // 60)
        found = figures.figures(span)
        assert len(found.times) <= 100
        middle = found.completed[len(found.times) // 2]
        assert middle == pytest.approx(1.0)

    def test_the_page_of_figures_needs_the_permission(self) -> None:
        assert client_of("").get("/admin/figures/").status_code == 403
        rollup(minutes=3, jobs=4)
        found = json.loads(read(client_of("Viewer"), "/admin/figures/", span="6h"))
        assert found["step"] == 300
        assert sum(value or 0 for value in found["completed"]) > 0
        for odd in ("\x00", "x" * 500, "' OR 1=1"):
            read(client_of("Viewer"), "/admin/figures/", queue=odd, span=odd)


class TestActive:
    def test_the_longest_come_first_and_those_over_their_usual_time_say_so(self) -> None:
        Total.objects.create(
            queue="default", type="test", outcome="succeeded", jobs=100, wait_seconds=1,
            run_seconds=1, timings=[pack(100, wait=1, run=10)],
        )  # fmt: skip
        made = [make_job("processing", started_at=ago(seconds=n)) for n in (1, 900, 60)]
        html = text_of("active")
        assert re.findall(r'data-row="([^"]+)"', html) == [str(made[n].id) for n in (1, 2, 0)]
        shown = re.findall(r'<span class="over"( hidden)?', html)
        assert shown == ["", "", " hidden"]

    def test_no_more_than_a_few_are_shown_and_all_are_counted(self) -> None:
        for _ in range(12):
            make_job("processing")
        html = text_of("active")
        assert html.count("data-row=") == active.ROWS
        assert 'data-cell="total">12<' in html

    def test_progress_is_shown(self) -> None:
        make_job("processing", progress_done=30, progress_total=120)
        assert "25 %" in plain(text_of("active"))


class TestDeadLetters:
    def test_errors_are_for_those_who_may_read_them(self) -> None:
        make_job("dead", last_error="the secret")
        assert "the secret" not in text_of("letters")
        assert "the secret" in text_of("letters", client=client_of("Operator"))

    def test_retry_is_offered_to_those_who_may_and_asks_first_with_the_same_number(self) -> None:
        for _ in range(3):
            make_job("dead", type="test", error_fingerprint="a1")
        make_job("dead", type="test", error_fingerprint="b2")
        assert "Retry" not in text_of("letters")
        operator = client_of("Operator")
        html = text_of("letters", client=operator)
        [url] = re.findall(r'href="([^"]*bulk/[^"]*error_fingerprint=a1)"', html)
        asked = read(operator, url.replace("&amp;", "&"))
        assert "Retry 3 jobs" in asked
        assert Job.objects.filter(status="failed").count() == 4

    def test_five_groups_are_shown_the_biggest_first(self) -> None:
        for place in range(7):
            for _ in range(place + 1):
                make_job("dead", error_fingerprint=f"{place}")
        html = text_of("letters")
        counts = [int(n) for n in re.findall(r'<b class="bad">(\d+)</b>', html)]
        assert counts == [7, 6, 5, 4, 3]
        assert len(counts) == letters.MOST
        assert "there are more" in html


class TestLog:
    def test_a_line_hides_what_may_quote_a_payload(self) -> None:
        event = {
            "at": 1.0, "name": "job.failed", "job_id": None, "type": "test", "queue": "mail",
            "facts": {"error": "boom", "by": "anna", "attempt": 2},
        }  # fmt: skip
        shown = log.line(event)
        assert shown["text"] == "boom · anna"
        assert shown["level"] == "warning"
        assert not log.is_told("job.log")
        assert not log.is_told("node.split")
        assert log.is_told("range.started")

    def test_whatever_is_in_the_stream_the_others_are_shown(self, redis_url: str) -> None:
        odd: list[dict[str, Any]] = [
            {"job_id": "x"}, {"job_id": "a/b"}, {"at": 1e300}, {"at": float("nan")}, {"type": "\ud800"},
            {"facts": {"error": "\udfff"}}, {"facts": {"error": {"deep": [float("inf")]}}}, {"facts": 7},
        ]  # fmt: skip
        with redis.Redis.from_url(redis_url) as client:
            for each in ({}, *odd, {"job_id": str(make_job("dead").id)}):
                event = {"name": "job.dlq_entry", "at": 1.0, "type": "fine", **each}
                client.xadd(STREAM, {"event": json.dumps(event)})
            client.xadd(STREAM, {"event": b"\xff"})
            client.xadd(STREAM, {"other": "1"})
        html = text_of("log")
        assert html.count("<b>job.dlq_entry</b>") == 2
        assert "could not be read" not in html

    @pytest.mark.usefixtures("away")
    def test_when_redis_does_not_answer_it_says_so_and_is_read_again(self) -> None:
        html = text_of("log")
        assert "The newest events could not be read: Redis does not answer." in html
        assert "data-failed" in html
        assert '<p class="empty log-empty" hidden>' in html

    def test_without_redis_it_says_where_else_to_look(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(stream, "is_configured", lambda: False)
        html = text_of("log")
        assert 'What jobs wrote is under <a href="/admin/events/">Events</a>' in html
        assert "data-failed" not in html


class TestRuns:
    def test_they_are_shown_once_there_has_been_one(self) -> None:
        assert "panel-runs" not in text_of("runs")
        RangeRun.objects.create(name="t.Old", axis={"type": "int"}, lo=0, hi=9, status="completed")
        assert "No range run is active" in text_of("runs")
        RangeRun.objects.create(name=SCRIPT, axis={"type": "int"}, lo=0, hi=9, status="running")
        RangeRun.objects.create(name="t.Far", axis={"type": "unknown"}, lo=0, hi=9, status="paused")
        html = text_of("runs")
        assert "0.0 %" in plain(html)
        assert "t.Far" in html
        assert SCRIPT not in html


class TestPage:
    def test_an_empty_one_says_what_to_do_next(self) -> None:
        html = read(client_of("Viewer"), OVERVIEW)
        assert "No jobs yet" in html
        assert "manage.py runworker" in html
        make_job()
        make_worker()
        look_anew()
        html = read(client_of("Viewer"), OVERVIEW)
        assert "No jobs yet" not in html

    def test_a_part_that_fails_leaves_the_others_alone(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail() -> Any:
            raise RuntimeError("boom")

        make_worker(name="the-worker")
        monkeypatch.setattr("jobs.admin.overview.letters.letters", fail)
        html = read(client_of("Viewer"), OVERVIEW)
        assert html.count("This part could not be read") == 1
        assert "the-worker" in html
        assert "boom" not in html

    def test_controls_are_for_those_who_may(self) -> None:
        make_job()
        make_job("dead")
        viewer, operator = (
            read(client_of("Viewer"), OVERVIEW),
            read(client_of("Operator"), OVERVIEW),
        )
        for control in ('value="pause"', "action=retry"):
            assert control not in viewer
            assert control in operator
        only = read(client_of("", permissions.VIEW, permissions.PAUSE_QUEUE), OVERVIEW)
        assert 'value="pause"' in only
        assert "action=retry" not in only

    def test_whatever_a_name_holds_is_shown_as_text(self) -> None:
        make_worker(name=SCRIPT, host=SCRIPT, version=SCRIPT)
        make_job("processing", type=SCRIPT)
        make_job("dead", type=SCRIPT, last_error=SCRIPT)
        html = read(client_of(None), OVERVIEW)
        assert SCRIPT not in html
        assert html.count("&lt;script&gt;") >= 3

    def test_figures_stand_in_a_table_too(self) -> None:
        rollup(minutes=5, jobs=77)
        html = read(client_of("Viewer"), OVERVIEW)
        assert re.search(r'<td class="num">77</td>', html)
        assert 'href="?span=7d"' in html
        read(client_of("Viewer"), OVERVIEW, span="7d")
        read(client_of("Viewer"), OVERVIEW, span="nonsense")


class TestCost:
    @pytest.mark.usefixtures("frozen")
    def test_few_questions_and_never_a_whole_table(self) -> None:
        scenery.build(minutes=90)
        client = client_of("Operator")
        read(client, OVERVIEW)
        look_anew()
        with CaptureQueriesContext(connection) as cold:
            read(client, OVERVIEW)
        with CaptureQueriesContext(connection) as warm:
            read(client, OVERVIEW)
        assert len(selects(warm)) <= 12, selects(warm)
        asked = selects(cold)
        assert len(asked) <= 40, len(asked)  # for all who look together, once a second
        for sql in asked:
            assert not scanned(sql), sql
            assert " OFFSET " not in sql.upper()

    @pytest.mark.usefixtures("frozen")
    def test_its_numbers_are_of_the_last_second_however_many_look(self) -> None:
        make_worker()
        numbers.numbers()
        with CaptureQueriesContext(connection) as captured:
            numbers.numbers()
        assert len(captured) == 0


def selects(captured: CaptureQueriesContext) -> list[str]:
    found = [query["sql"] for query in captured.captured_queries]
    return [
        sql
        for sql in found
        if sql.lstrip().upper().startswith(("SELECT", "WITH")) and "set_config(" not in sql
    ]


def scanned(sql: str) -> list[str]:
    """The big tables that the statement would read from end to end, were they big."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off")
        cursor.execute("EXPLAIN (FORMAT JSON) " + sql.replace("%", "%%"), [])
        plan = cursor.fetchone()[0]
        cursor.execute("SET LOCAL enable_seqscan = on; SET LOCAL enable_bitmapscan = on")
    found: list[str] = []
    waiting = [(json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]]
    while waiting:
        node = waiting.pop()
        if node["Node Type"] == "Seq Scan" and node["Relation Name"] in BIG:
            found.append(node["Relation Name"])
        waiting += node.get("Plans", [])
    return found
