"""The page of events: what it lists, finds, follows and exports, for whom, and what that costs."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from jobs import lifecycle, registry
from jobs.admin import files
from jobs.admin.events import asking, exporting, reading
from jobs.live import topics
from jobs.masking import MASKED, Reader
from jobs.models import Job, JobLog
from tests.console.people import client_of, read
from tests.factories import ago, make_job, make_worker
from tests.plans import explain, nodes, rows_read, scans

pytestmark = pytest.mark.django_db

PAGE = "/admin/events/"
LINES = f"{PAGE}lines/"
EXPORT = f"{PAGE}export/"
SCRIPT = "<script>alert(1)</script>"


@pytest.fixture(autouse=True)
def handled() -> Iterator[None]:
    registry.handler("test", mask=("token",))(lambda payload: None)
    yield
    registry.remove("test")


def write(job: Job, event: str = "log", message: str = "", **columns: Any) -> int:
    return JobLog.objects.create(job=job, event=event, message=message, **columns).pk


def listed(text: str) -> list[int]:
    return [int(id) for id in re.findall(r'<tr data-row="(\d+)"', text)]


def link(text: str, rel: str) -> str:
    found = re.search(rf'href="([^"]*)" rel="{rel}"', text)
    return f"{PAGE}{unescape(found[1])}" if found else ""


def words(text: str) -> str:
    """What is to be read, without markup."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", text)).split())


def exported(client: Client, **query: Any) -> str:
    response: Any = client.get(EXPORT, query)
    assert response.status_code == 200
    return b"".join(response.streaming_content).decode()


class TestTheList:
    def test_the_newest_stands_first_and_pages_go_both_ways(self) -> None:
        job = make_job()
        ids = [write(job) for _ in range(60)]
        client = client_of("Viewer")
        first = read(client, PAGE, rows="25")
        assert listed(first) == ids[:-26:-1]
        second = read(client, link(first, "next"))
        assert listed(second) == ids[-26:-51:-1]
        last = read(client, link(second, "next"))
        assert listed(last) == ids[-51::-1]
        assert not link(last, "next")
        assert listed(read(client, link(second, "prev"))) == listed(first)

    def test_each_filter_finds_its_own(self) -> None:
        mine = make_job(type="send", queue="mail")
        one = write(mine, "retry_scheduled", "Timeout after 30 s", level="warning")
        write(make_job(), "completed")
        client = client_of("Supervisor")
        for query in (
            {"level": "warning"},
            {"event": "retry_scheduled"},
            {"type": "send"},
            {"queue": "mail"},
            {"job": str(mine.id)},
            {"text": "timeout"},
            {"level": "warning", "type": "send", "queue": "mail", "text": "30"},
        ):
            assert listed(read(client, PAGE, 200, **query)) == [one], query

    def test_a_level_means_itself_and_what_is_graver(self) -> None:
        job = make_job()
        levels = ("debug", "info", "warning", "error")
        ids = {level: write(job, level=level) for level in levels}
        client = client_of("Viewer")
        for place, level in enumerate(levels):
            expected = [ids[each] for each in levels[place:]][::-1]
            assert listed(read(client, PAGE, level=level)) == expected, level

    @pytest.mark.parametrize(
        ("text", "finds"),
        [
            ("CONNECTION", ["Connection reset by peer", "peer closed the connection"]),
            ("peer connection", ["Connection reset by peer", "peer closed the connection"]),
            ('"reset by"', ["Connection reset by peer"]),
            ("connection*", ["Connection reset by peer"]),
            ("100%", ["100% done"]),
            ("a_b", ["a_b"]),
            ("\\", ["C:\\"]),
        ],
    )
    def test_words_phrases_and_beginnings_are_found_as_they_stand(
        self, text: str, finds: list[str]
    ) -> None:
        job = make_job()
        for message in (
            "Connection reset by peer",
            "peer closed the connection",
            "100% done",
            "1000 done",
            "a_b",
            "axb",
            "C:\\",
        ):
            write(job, message=message)
        ids = listed(read(client_of("Supervisor"), PAGE, text=text))
        found = JobLog.objects.filter(id__in=ids).values_list("message", flat=True)
        assert sorted(found) == sorted(finds)

    def test_what_is_wrong_is_said_at_its_field_and_the_rest_counts(self) -> None:
        job = make_job(queue="mail")
        mine, _ = write(job), write(make_job())
        client = client_of("Supervisor")
        for name, value, said in (
            ("level", "loud", "must be one of debug, info, warning, error, critical"),
            ("event", "nonsense", "“nonsense” is no event of the log"),
            ("type", "x" * 300, "200"),
            ("job", "17", "must be the whole id of a job"),
            ("text", '""', "must have a word"),
            ("text", "a b c d e f g h i", "must have at most 8 words"),
            ("at", "soon", "must be a date and time"),
            ("at", "9999-12-31T23:59", "must be a date and time"),
            ("at", "0001-01-01T00:00", "must be a date and time"),
        ):
            text = read(client, PAGE, 200, queue="mail", **{name: value})
            at_field = re.search(rf'id="e-{name}">([^<]+)</p>', text)
            assert at_field, (name, value)
            assert said in unescape(at_field[1]), (name, value)
            assert f'aria-describedby="e-{name}"' in text
            assert listed(text) == [mine], (name, value)

    def test_what_is_no_filter_is_said(self) -> None:
        mine = write(make_job())
        text = read(client_of("Viewer"), PAGE, colour="red")
        assert "colour: is no filter" in text
        assert listed(text) == [mine]

    @pytest.mark.parametrize(
        "query", ["after=x", "before=-1", "after=" + "9" * 30, "rows=7", "x=%00"]
    )
    def test_a_place_that_is_none_is_the_newest(self, query: str) -> None:
        mine = write(make_job())
        assert listed(read(client_of("Viewer"), f"{PAGE}?{query}")) == [mine]

    def test_one_goes_to_a_time_and_on_from_there_both_ways(self) -> None:
        job = make_job()
        now = timezone.now().replace(microsecond=0)
        ids = [write(job, at=now - timedelta(minutes=9 - n)) for n in range(10)]
        JobLog.objects.filter(id__in=ids[1:3]).delete()
        client = client_of("Viewer")
        text = read(client, PAGE, at=(now - timedelta(minutes=5)).isoformat())
        assert listed(text) == [ids[4], ids[3], ids[0]]
        assert "back" in text
        assert listed(read(client, link(text, "prev"))) == ids[:4:-1]
        assert "at=" not in link(text, "prev")
        assert listed(read(client, PAGE, at=(now + timedelta(days=1)).isoformat()))[0] == ids[-1]
        before_all = read(client, PAGE, at=(now - timedelta(days=1)).isoformat())
        assert listed(before_all) == []
        assert "Nothing more in this direction." in before_all

    def test_each_moment_leads_to_the_last_line_before_it_whatever_was_deleted(self) -> None:
        job = make_job()
        begin = ago(hours=1).replace(microsecond=0)
        at = {write(job, at=begin + timedelta(seconds=n)): n for n in range(40)}
        kept = [id for id, n in at.items() if n % 7 not in (2, 3)]
        JobLog.objects.exclude(id__in=kept).delete()
        reader = Reader(reads=True)
        for n in range(-1, 41):
            moment = (begin + timedelta(seconds=n)).isoformat()
            found = reading.read(asking.parse({"at": moment}, reader, size=100))
            assert [line.id for line in found.lines] == [i for i in kept if at[i] <= n][::-1], n

    def test_hostile_text_is_text(self) -> None:
        job = make_job(type=SCRIPT, queue=SCRIPT)
        worker = make_worker(name=SCRIPT)
        write(job, message=SCRIPT, level=SCRIPT[:8], data={SCRIPT: SCRIPT}, worker_id=worker.id)
        write(job, "cancelled", f"by {SCRIPT}", data={"by": SCRIPT})
        client = client_of()
        for query in (
            "",
            f"?type={SCRIPT}&text={SCRIPT}",
            f"?{SCRIPT}=1&level={SCRIPT}&at={SCRIPT}",
        ):
            assert SCRIPT not in read(client, f"{PAGE}{query}")
        assert SCRIPT not in read(client, LINES)

    def test_a_line_says_who_where_and_what_and_leads_to_its_job(self) -> None:
        worker = make_worker(name="app-1:411")
        job = make_job(type="send", queue="mail")
        write(job, message="Sent", data={"city": "Oslo", "size": 3}, attempt=2, worker_id=worker.id)
        text = read(client_of("Supervisor"), PAGE)
        assert f'href="/admin/jobs/job/{job.id}/"' in text
        said = words(text)
        for each in ("handler", "send", "mail", "app-1:411", "Sent", "city =Oslo", "attempt 2"):
            assert each in said, each
        copied = re.search(r'data-copy="([^"]+)"', text)
        assert copied
        assert (
            f"info handler send {job.id} queue=mail attempt=2 worker=app-1:411 Sent city=Oslo"
            in (copied[1])
        )

    def test_what_a_person_did_has_their_name_once(self) -> None:
        job = make_job("dead")
        lifecycle.retry(job, by="rosa")
        text = words(read(client_of("Viewer"), PAGE))
        assert "retried" in text
        assert text.count("rosa") == 1

    def test_it_says_how_long_lines_are_kept(self, settings: Any) -> None:
        settings.COPPICE_RETENTION_DAYS = 3.5
        assert "3.5 days after their end" in words(read(client_of("Viewer"), PAGE))
        settings.COPPICE_RETENTION_DAYS = 0
        assert "Nothing is deleted for its age" in words(read(client_of("Viewer"), PAGE))

    def test_empty_says_what_will_be_here(self) -> None:
        client = client_of("Viewer")
        assert "Nothing has happened yet." in read(client, PAGE)
        assert "Nothing matches." in read(client, PAGE, queue="none")

    def test_other_pages_lead_here(self) -> None:
        job = make_job()
        client = client_of("Viewer")
        assert f'href="{PAGE}?job={job.id}"' in read(client, f"/admin/jobs/job/{job.id}/")
        assert re.search(rf'<a href="{PAGE}"[^>]*>All</a>', read(client, "/admin/"))


class TestHowFarItLooks:
    @pytest.fixture(autouse=True)
    def near(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(reading, "LOOKED_AT", 10)

    def test_it_says_how_far_it_looked_and_goes_on_until_the_rare_line_is_found(self) -> None:
        rare = write(make_job(type="rare"))
        job = make_job()
        for _ in range(25):
            write(job)
        client = client_of("Viewer")
        url, seen = f"{PAGE}?type=rare", []
        while url:
            text = read(client, url)
            seen.append(listed(text))
            further = re.search(r'href="([^"]+)">Look further back', text)
            url = f"{PAGE}{unescape(further[1])}" if further else ""
        assert seen == [[], [], [rare]]

    def test_a_page_that_is_not_full_says_so_and_loses_nothing(self) -> None:
        rare, job = make_job(type="rare"), make_job()
        ids = [write(rare if n % 4 == 0 else job) for n in range(30)]
        wanted = ids[::4][::-1]
        client = client_of("Viewer")
        url, last, down = f"{PAGE}?type=rare", "", list[int]()
        while url:
            text = read(client, url)
            down += listed(text)
            url, last = link(text, "next"), url
            assert ("10 lines were looked at" in text) == bool(url)
        assert down == wanted
        url, up = link(read(client, last), "prev"), list[int]()
        while url:
            text = read(client, url)
            up = listed(text) + up
            url = link(text, "prev")
        assert up == wanted[: len(up)]
        assert len(up) >= len(wanted) - 3

    def test_warnings_and_the_lines_of_a_job_are_found_however_far_back(self) -> None:
        old = make_job()
        bad = write(old, "dead_lettered", level="error")
        job = make_job()
        for _ in range(25):
            write(job)
        client = client_of("Viewer")
        for query in ({"level": "warning"}, {"event": "dead_lettered"}, {"job": str(old.id)}):
            text = read(client, PAGE, 200, **query)
            assert listed(text) == [bad], query
            assert "looked at" not in text

    def test_what_takes_too_long_ends_with_advice_and_the_filters(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(make_job())
        monkeypatch.setattr(reading, "SECONDS", 0.05)
        monkeypatch.setattr(reading, "NEWEST", "SELECT 1 FROM pg_sleep(0.2)")
        client = client_of("Viewer")
        text = read(client, PAGE, queue="mail")
        assert "was stopped. Narrow it" in text
        assert 'value="mail"' in text
        assert "data-too-broad" in read(client, LINES)


class TestWhoMay:
    def test_without_the_permission_there_is_no_log(self) -> None:
        client = client_of("")
        for path in (PAGE, LINES, EXPORT):
            read(client, path, status=403)
        assert PAGE not in read(client, "/admin/")
        assert PAGE in read(client_of("Viewer"), "/admin/")

    def test_what_may_quote_a_payload_is_hidden_as_on_the_page_of_the_job(self) -> None:
        job = make_job()
        write(job, message="plum", data={"fruit": "plum"})
        write(job, "dead_lettered", "ValueError: plum", level="error")
        write(job, "changed", "by rosa: priority 1", data={"by": "rosa"})
        viewer, boss = client_of("Viewer"), client_of("Supervisor")
        for path in (PAGE, LINES):
            assert "plum" not in read(viewer, path)
            assert "priority 1" in read(viewer, path)
            assert read(boss, path).count("plum") >= 4
        assert "plum" not in exported(viewer)
        assert "plum" not in exported(viewer, format="json")
        assert "priority 1" in exported(viewer)

    def test_nobody_searches_for_what_is_hidden_from_them(self) -> None:
        job = make_job()
        ids = [write(job, message="plum"), write(job, message="pear")]
        viewer = client_of("Viewer")
        text = read(viewer, PAGE, text="plum")
        assert "needs the permission to read payloads" in text
        assert listed(text) == ids[::-1]
        assert 'name="text"' not in text
        assert [
            row["id"] for row in json.loads(exported(viewer, format="json", text="plum"))["events"]
        ] == ids[::-1]

    def test_masked_keys_of_what_a_handler_said_stay_masked(self) -> None:
        write(make_job(), message="m", data={"token": "plum", "deep": [{"token": "plum"}]})
        boss = client_of("Supervisor")
        for text in (read(boss, PAGE), read(boss, LINES), exported(boss)):
            assert "plum" not in text
            assert MASKED in text
        assert "plum" in read(client_of(), PAGE)


class TestFollowing:
    def test_only_the_newest_page_follows(self) -> None:
        job = make_job()
        ids = [write(job) for _ in range(30)]
        client = client_of("Viewer")
        first = read(client, PAGE, rows="25")
        assert "data-follow" in first
        assert f'data-newest="{ids[-1]}"' in first
        for url in (link(first, "next"), f"{PAGE}?at={timezone.now():%Y-%m-%dT%H:%M}"):
            assert 'id="follow-switch"' not in read(client, url)

    def test_it_is_given_the_newest_lines_since_one_and_no_more_than_it_can_show(self) -> None:
        job = make_job()
        ids = [write(job) for _ in range(50)]
        client = client_of("Viewer")
        assert listed(read(client, LINES, since=str(ids[-4]))) == ids[:-4:-1]
        text = read(client, LINES, since=str(ids[0]))
        assert listed(text) == ids[:-41:-1]
        assert f'data-newest="{ids[-1]}"' in text
        for odd in ("x", "-1", "9" * 30, "²"):
            assert len(listed(read(client, LINES, since=odd))) == 40

    def test_the_filters_count_and_the_newest_of_all_is_told(self) -> None:
        mine = write(make_job(queue="mail"))
        other = write(make_job())
        text = read(client_of("Viewer"), LINES, queue="mail")
        assert listed(text) == [mine]
        assert f'data-newest="{other}"' in text

    def test_what_it_listens_to_is_understood_by_the_feed(self) -> None:
        reader = Reader(reads=True)
        for given in (
            {},
            {"queue": "mail"},
            {"type": "a b&c", "queue": "x", "job": str(make_job().id)},
            {"type": "a,b"},
            {"text": "x", "level": "error"},
        ):
            for topic in asking.topics(asking.parse(given, reader)):
                assert " " not in topic
                topics.parse(topic)
        [all_of_it] = asking.topics(asking.parse({}, reader))
        assert topics.parse(all_of_it).could_be("queue.paused")
        assert not topics.parse(all_of_it).could_be("node.split")


class TestTheFile:
    def test_csv_holds_what_the_filters_match(self) -> None:
        write(make_job(), message="other")
        job = make_job(queue="mail")
        mine = write(job, message="=1+1", data={"n": 2**70})
        rows = list(csv.DictReader(io.StringIO(exported(client_of("Supervisor"), queue="mail"))))
        assert [row["id"] for row in rows] == [str(mine)]
        assert rows[0]["message"] == "'=1+1"
        assert json.loads(rows[0]["data"]) == {"n": 2**70}

    def test_json_is_whole_and_begins_where_the_page_does(self) -> None:
        job = make_job()
        ids = [write(job) for _ in range(5)]
        client = client_of("Viewer")
        whole = json.loads(exported(client, format="json"))
        assert (whole["count"], whole["complete"]) == (5, True)
        part = json.loads(exported(client, format="json", after=str(ids[2])))
        assert [row["id"] for row in part["events"]] == ids[1::-1]
        page = read(client, PAGE, before=str(ids[1]), rows="25")
        later = write(job)
        file = re.search(r'href="([^"]+)" download>JSON', page)
        assert file
        answer: Any = client.get(unescape(file[1]))
        found = json.loads(b"".join(answer.streaming_content))
        assert [row["id"] for row in found["events"]] == ids[::-1]
        assert later not in ids

    def test_it_goes_on_over_many_chunks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(exporting, "CHUNK", 2)
        monkeypatch.setattr(exporting, "STEP", 4)
        rare, job = make_job(type="rare"), make_job()
        ids = [write(rare if n % 3 else job) for n in range(20)]
        client = client_of("Viewer")
        found = json.loads(exported(client, format="json"))
        assert [row["id"] for row in found["events"]] == ids[::-1]
        found = json.loads(exported(client, format="json", type="rare"))
        assert [row["id"] for row in found["events"]] == [i for n, i in enumerate(ids) if n % 3][
            ::-1
        ]
        assert found["complete"]

    @pytest.mark.parametrize(
        ("module", "limit", "why"),
        [(files, "MOST", "a file ends after 5"), (exporting, "LOOKED_AT", "search ends after 5")],
    )
    def test_it_ends_at_a_stated_number_and_says_so_if_there_is_more(
        self, monkeypatch: pytest.MonkeyPatch, module: Any, limit: str, why: str
    ) -> None:
        monkeypatch.setattr(module, limit, 5)
        monkeypatch.setattr(exporting, "CHUNK", 5)
        job, client = make_job(), client_of("Viewer")
        for _ in range(5):
            write(job)
        found = json.loads(exported(client, format="json"))
        assert (found["count"], found["complete"], found["note"]) == (5, True, "")
        assert len(exported(client).splitlines()) == 6
        for _ in range(7):
            write(job)
        found = json.loads(exported(client, format="json"))
        assert (found["count"], found["complete"]) == (5, False)
        assert why in found["note"]
        assert why in exported(client).splitlines()[-1]

    def test_another_format_is_not_found(self) -> None:
        read(client_of("Viewer"), EXPORT, status=404, format="xml")


MANY = 30_000
FILL = """
INSERT INTO jobs_joblog (job_id, event, level, message)
SELECT %(job)s, 'completed', CASE WHEN n %% 3000 = 0 THEN 'error' ELSE 'info' END, 'line ' || n
FROM generate_series(1, %(many)s) n
"""


class TestWhatItCosts:
    @pytest.fixture
    def long(self) -> Job:
        """A log of 30,000 lines, ten of them errors."""
        with connection.cursor() as cursor:
            cursor.execute(FILL, {"job": make_job(type="usual").id, "many": MANY})
            cursor.execute("ANALYZE jobs_joblog")
        return make_job(type="rare")

    def asked(self, **given: str) -> list[str]:
        """The statements about the log that the page makes."""
        ask = asking.parse(given, Reader(reads=True))
        with CaptureQueriesContext(connection) as captured:
            reading.read(ask)
        sqls = [query["sql"].replace("%", "%%") for query in captured.captured_queries]
        return [sql for sql in sqls if "jobs_joblog" in sql]

    def lines_read(self, **given: str) -> int:
        total = 0
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL enable_seqscan = off")
        for sql in self.asked(**given):
            plan = explain(sql)
            assert not [scan for scan in scans(plan) if scan.startswith(("Seq", "Bitmap"))], given
            assert not [node for node in nodes(plan) if node["Node Type"] == "Hash Join"], given
            total += rows_read(plan, "jobs_joblog")
        return total

    def test_a_page_reads_what_it_shows_however_long_the_log_is(self, long: Job) -> None:
        write(long)
        middle = JobLog.objects.order_by("id")[MANY // 2]
        assert self.lines_read() <= 55
        assert self.lines_read(after=str(middle.pk)) <= 55
        assert self.lines_read(before=str(middle.pk)) <= 55
        assert self.lines_read(type="usual") <= 55
        assert self.lines_read(job=str(long.id)) <= 55
        assert self.lines_read(level="error") <= 55
        assert self.lines_read(at=timezone.now().isoformat()) <= 100

    def test_a_rare_line_costs_no_more_than_the_stated_number(
        self, long: Job, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(long)
        monkeypatch.setattr(reading, "LOOKED_AT", 5_000)
        for query in ({"type": "rare"}, {"text": "nowhere"}, {"event": "log"}, {"queue": "none"}):
            # Once for the lines, once for where the search ended.
            assert self.lines_read(**query) <= 2 * 5_000 + 55, query

    @pytest.mark.usefixtures("frozen")
    def test_the_database_is_asked_for_few_things_and_never_for_a_count(self) -> None:
        job, worker = make_job(), make_worker()
        write(job, worker_id=worker.id)
        client = client_of("Supervisor")
        read(client, PAGE)
        for query in ("", "?type=x&text=y&level=error", "?at=2026-01-01T00:00", "?after=5"):
            with CaptureQueriesContext(connection) as captured:
                read(client, f"{PAGE}{query}")
            asked = [each["sql"].upper() for each in captured.captured_queries]
            selects = [sql for sql in asked if sql.lstrip().startswith(("SELECT", "WITH"))]
            assert len(selects) <= 12, (query, selects)
            for sql in selects:
                assert "OFFSET" not in sql
                assert not ("COUNT(" in sql and "JOBS_JOBLOG" in sql)
