"""Workers in the console: who lives, on what they work, and stopping one."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs import permissions, registry
from jobs.console import kept, sample
from jobs.ids import new_uuid
from jobs.models import AuditEntry, Worker
from tests.console.people import client_of, read
from tests.console.test_overview import plain, scanned, selects
from tests.factories import ago, make_job, make_worker

pytestmark = pytest.mark.django_db

LIST = "/admin/jobs/worker/"
SCRIPT = "<script>alert(1)</script>"


@pytest.fixture(autouse=True)
def handled() -> Iterator[None]:
    registry.handler("test")(lambda payload: None)
    yield
    registry.remove("test")


def row(html: str, worker: Worker) -> str:
    found = re.search(rf'<tr data-row="{worker.id}".*?</tr>', html, re.DOTALL)
    assert found
    return found[0]


class TestList:
    def test_they_stand_by_host_with_what_each_does(self) -> None:
        one = make_worker(name="a:1", host="a", concurrency=4)
        make_worker(name="a:2", host="a", concurrency=4)
        make_worker(name="b:1", host="b", concurrency=8, queues=["mail"])
        job = make_job("processing", worker_id=one.id)
        html = read(client_of("Viewer"), LIST)
        assert "3 alive on 2 hosts, 1 of 16 slots busy" in plain(html)
        assert "a 2 workers, 1 of 8 slots busy" in plain(html)
        shown = row(html, one)
        assert shown.count("<li>") == 4
        assert f'href="/admin/jobs/job/{job.id}/"' in shown
        assert "1 of 4 slots busy" in shown

    def test_each_state_has_its_word_and_stale_is_never_green(self) -> None:
        stale = make_worker(beat_at=ago(minutes=3))
        asked = make_worker(stop_requested_at=ago(seconds=5))
        drains = make_worker(state="draining")
        stopped = make_worker(state="stopped", stopped_at=ago(minutes=9))
        dead = make_worker(state="dead", stopped_at=ago(minutes=8))
        html = read(client_of("Operator"), LIST)
        for worker, state in (
            (stale, "stale"), (asked, "draining"), (drains, "draining"), (stopped, "stopped"),
            (dead, "dead"),
        ):  # fmt: skip
            assert f"state-{state}" in row(html, worker)
        assert "state-running" not in row(html, stale)
        assert "asked to stop" in row(html, asked)
        assert "Stop" not in plain(row(html, asked))
        assert "1 stale" in plain(html)

    def test_mixed_versions_are_told(self) -> None:
        make_worker(version="1.0")
        assert "Mixed versions" not in read(client_of("Viewer"), LIST)
        make_worker(version="1.1")
        kept.forget()
        assert "Mixed versions: 1.0, 1.1" in plain(read(client_of("Viewer"), LIST))

    def test_a_clock_is_shown_only_where_it_is_off(self) -> None:
        fine = make_worker(clock_skew_seconds=0.4, clock_skew_uncertainty_seconds=0.1)
        for url in (LIST, f"{LIST}{fine.id}/"):
            assert "the database's" not in read(client_of("Viewer"), url).replace("&#x27;", "'")
        off = make_worker(clock_skew_seconds=90.0, clock_skew_uncertainty_seconds=0.1)
        kept.forget()
        for url in (LIST, f"{LIST}{off.id}/"):
            html = read(client_of("Viewer"), url).replace("&#x27;", "'")
            assert "1 min 30 s ahead of the database's" in html

    def test_an_empty_list_says_how_to_start_one(self) -> None:
        assert "manage.py runworker" in read(client_of("Viewer"), LIST)

    @pytest.mark.usefixtures("frozen")
    def test_few_questions_and_never_a_whole_table(self) -> None:
        workers = [make_worker() for _ in range(5)]
        for n in range(20):
            make_job("processing" if n % 2 else "completed", worker_id=workers[n % 5].id)
        client = client_of("Operator")
        for url in (LIST, f"{LIST}{workers[0].id}/"):
            sample.current()
            kept.forget()
            with CaptureQueriesContext(connection) as captured:
                read(client, url)
            asked = selects(captured)
            assert len(asked) <= 12, (url, asked)
            for sql in asked:
                assert not scanned(sql), sql


class TestPage:
    def test_it_shows_what_it_runs_what_it_ran_and_what_it_knows(self) -> None:
        worker = make_worker(types=["test", "other"], queues=["mail"], version="3.1")
        now = make_job("processing", worker_id=worker.id)
        done = make_job("completed", worker_id=worker.id, started_at=ago(seconds=9))
        dead = make_job("dead", worker_id=worker.id)
        strange = make_job("completed", worker_id=make_worker().id)
        html = read(client_of("Viewer"), f"{LIST}{worker.id}/")
        for job in (now, done, dead):
            assert f'data-row="{job.id}"' in html
        assert str(strange.id) not in html
        for fact in ("mail", "3.1", "<code>other</code>", str(worker.pid)):
            assert fact in html

    def test_of_one_that_ended_what_it_ran_before_its_end_is_found(self) -> None:
        worker = make_worker(state="stopped", stopped_at=ago(hours=1))
        job = make_job("completed", worker_id=worker.id, created_at=ago(hours=2))
        html = read(client_of("Operator"), f"{LIST}{worker.id}/")
        assert f'data-row="{job.id}"' in html
        assert "Stop after" not in html

    def test_one_that_is_silent_says_what_happens_to_its_jobs(self) -> None:
        worker = make_worker(beat_at=ago(minutes=3))
        assert "No sign of life" in read(client_of("Viewer"), f"{LIST}{worker.id}/")

    def test_one_that_is_none_is_not_found(self) -> None:
        read(client_of("Viewer"), f"{LIST}{new_uuid()}/", 404)
        read(client_of("Viewer"), f"{LIST}no-id/", 404)

    def test_whatever_it_says_of_itself_is_shown_as_text(self) -> None:
        worker = make_worker(
            name=SCRIPT, host=SCRIPT, version=SCRIPT, queues=[SCRIPT], types=[SCRIPT]
        )
        make_job("processing", type=SCRIPT, worker_id=worker.id)
        for url in (LIST, f"{LIST}{worker.id}/"):
            html = read(client_of(), url)
            assert SCRIPT not in html
            assert html.count("&lt;script&gt;") >= 4


class TestStopping:
    def test_it_asks_first_and_then_asks_the_worker(self) -> None:
        worker, operator = make_worker(), client_of("Operator")
        url = f"{LIST}{worker.id}/stop/"
        asked = operator.post(url).content.decode()
        assert "It finishes what it runs" in asked
        worker.refresh_from_db()
        assert worker.stop_requested_at is None
        told = operator.post(url, {"confirmed": "yes"}, follow=True).content.decode()
        assert "was asked to stop" in told
        worker.refresh_from_db()
        assert worker.stop_requested_at is not None
        assert AuditEntry.objects.get().action == "worker.stop"
        again = operator.post(url, {"confirmed": "yes"}, follow=True).content.decode()
        assert "had been asked to stop before" in again

    def test_one_that_has_ended_is_left_alone(self) -> None:
        worker = make_worker(state="stopped", stopped_at=ago(minutes=1))
        url = f"{LIST}{worker.id}/stop/"
        told = client_of("Operator").post(url, {"confirmed": "yes"}, follow=True).content.decode()
        assert "Nothing was changed" in told

    def test_only_those_who_may_and_only_by_post(self) -> None:
        worker = make_worker()
        url = f"{LIST}{worker.id}/stop/"
        for group in ("Viewer", ""):
            assert client_of(group).post(url, {"confirmed": "yes"}).status_code == 403
        assert "Stop" not in plain(read(client_of("Viewer"), LIST))
        alone = client_of("", permissions.VIEW, permissions.CONTROL_WORKER)
        assert "Stop" in plain(read(alone, LIST))
        assert alone.get(url).status_code == 302
        worker.refresh_from_db()
        assert worker.stop_requested_at is None


class TestAsking:
    def press(self, worker: Worker, action: str, group: str = "Operator", **form: str) -> str:
        url = f"{LIST}{worker.id}/act/"
        answer = client_of(group).post(url, {"action": action, **form}, follow=True)
        assert answer.status_code == 200
        return answer.content.decode()

    def test_what_it_has_not_heard_yet_is_told_until_it_says_so(self) -> None:
        worker = make_worker()
        url = f"{LIST}{worker.id}/"
        assert "claims nothing until it is resumed" in self.press(worker, "quiet")
        html = read(client_of("Operator"), url)
        assert "asked to be quiet" in plain(html)
        assert "has not said yet" in html
        Worker.objects.update(quiet_at=ago(seconds=1))
        kept.forget()
        html = read(client_of("Operator"), url)
        assert "state-quiet" in html
        assert "Quiet since" in plain(html)
        assert "state-quiet" in row(read(client_of("Viewer"), LIST), worker)
        assert "was asked to go on" in self.press(worker, "resume")
        assert "asked to go on" in plain(read(client_of("Operator"), url))

    def test_asking_again_or_for_nonsense_changes_nothing(self) -> None:
        worker = make_worker()
        self.press(worker, "quiet")
        for action in ("quiet", "forget", "boom", ""):
            assert "Nothing was changed" in self.press(worker, action)
        assert "Nothing was changed" in self.press(worker, "recover", confirmed="yes")
        assert AuditEntry.objects.count() == 1

    def test_the_jobs_of_a_silent_one_are_recovered_after_a_second_step(self) -> None:
        worker = make_worker(beat_at=ago(minutes=3))
        job = make_job("processing", worker_id=worker.id)
        assert "none has done so for 1" in read(client_of("Operator"), f"{LIST}{worker.id}/")
        assert "Declares it dead" in self.press(worker, "recover")
        assert "1 job was taken back" in self.press(worker, "recover", confirmed="yes")
        job.refresh_from_db()
        assert job.status == "pending"

    def test_a_lost_one_is_forgotten_from_the_list(self) -> None:
        worker = make_worker(state="dead", stopped_at=ago(minutes=1))
        assert "Forget" in row(read(client_of("Operator"), LIST), worker)
        assert "Forget" not in row(read(client_of("Viewer"), LIST), worker)
        assert "is forgotten" in self.press(worker, "forget")
        assert not Worker.objects.exists()

    def test_only_those_who_may_and_only_by_post(self) -> None:
        worker = make_worker()
        url = f"{LIST}{worker.id}/act/"
        for action in ("quiet", "resume", "recover", "forget"):
            form = {"action": action, "confirmed": "yes"}
            assert client_of("Viewer").post(url, form).status_code == 403
        assert client_of("Operator").get(url).status_code == 302
        worker.refresh_from_db()
        assert worker.quiet_requested_at is None
