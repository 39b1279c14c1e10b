"""The overview, queues and workers in a browser: live, still under the hand, readable by everybody."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
import redis
from django.db import connection
from django.utils import timezone

from jobs import events, lifecycle
from jobs.histograms import pack
from jobs.models import Job, Rollup, Worker
from jobs.publishing import STREAM
from tests.console import scenery
from tests.console.browser.conftest import Person, under_a_moving_hand
from tests.factories import ago, make_job, make_worker
from tests.processes.running import eventually

type Persons = Callable[..., Person]

BROKEN = "[data-panel]:has([data-failed])"


def live(page: Any) -> None:
    page.locator('#live[data-state="live"]').wait_for()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nobody_is_shut_out_of_a_busy_page(person: Persons, theme: str) -> None:
    made = scenery.build(minutes=90)
    boss = person(color_scheme=theme)
    page = boss.open("/admin/")
    live(page)
    assert page.locator(".chart canvas").count() == 2
    assert boss.serious(page) == []
    worker = made["workers"][0].id
    for path in ("jobs/queue/", "jobs/queue/reports/", "jobs/worker/", f"jobs/worker/{worker}/"):
        boss.go(page, f"/admin/{path}")
        assert boss.serious(page) == [], path


def test_what_happens_is_on_the_page_without_reloading_it(person: Persons) -> None:
    worker = make_worker(name="host:7", beat_at=timezone.now())
    job = make_job("processing", worker_id=worker.id)
    page = person("Operator").open("/admin/")
    live(page)
    page.evaluate("window.stays = true")
    page.locator('[data-stat="running"]:text-is("1")').wait_for()
    Job.objects.filter(id=job.id).update(
        status="failed", failed_at=timezone.now(), last_error="ValueError: boom"
    )
    events.emit("job.dlq_entry", job_id=str(job.id), type="test", queue="default", error="boom")
    page.locator('[data-stat="dead"]:text-is("1")').wait_for()
    page.locator('[data-panel="letters"]', has_text="ValueError: boom").wait_for()
    page.locator("[data-log] li.is-error", has_text="job.dlq_entry").wait_for()
    lifecycle.pause_queue("mail", by="anna", reason="the mover")
    page.locator('[data-panel="queues"] tr[data-row="mail"]', has_text="paused").wait_for()
    Worker.objects.filter(id=worker.id).update(beat_at=ago(minutes=2))
    page.locator('[data-panel="health"]', has_text="No worker is running").wait_for()
    page.locator('[data-panel="workers"] tr.is-stale').wait_for()
    assert page.evaluate("window.stays")


def test_a_part_that_could_not_be_read_says_so_and_comes_back_by_itself(
    person: Persons, live_redis_url: str
) -> None:
    boss = person("Operator")
    with broken(live_redis_url):
        page = boss.open("/admin/")
        parts = page.locator(BROKEN)

        # What was read a moment before is shown as long as it lasts.
        def both_are_broken() -> bool:
            failed = page.locator(":is([data-panel=charts], [data-panel=log]) [data-failed]")
            if failed.count() < 2:
                boss.go(page, "/admin/")
            return bool(failed.count() == 2)

        eventually(both_are_broken, "the charts and the log could not be read")
        assert all("could not be read" in text for text in parts.all_inner_texts())
        page.evaluate("window.stays = true")
    page.locator('[data-panel="charts"] canvas').nth(1).wait_for(state="attached")
    page.locator('[data-panel="cards"] [data-stat="ready"]').wait_for()
    page.locator("[data-log]").wait_for()
    live(page)
    events.emit("queue.paused", queue="after-that", by="anna")
    page.locator("[data-log] li", has_text="after-that").wait_for()
    page.get_by_role("link", name="6 h").click()
    page.locator('[data-span="6h"][aria-current]').wait_for()
    eventually(lambda: parts.count() == 0, "every part has come back")
    assert page.evaluate("window.stays")


@contextmanager
def broken(redis_url: str) -> Iterator[None]:
    """Neither the sums of each minute nor the stream of events can be read."""
    with redis.Redis.from_url(redis_url) as client, connection.cursor() as cursor:
        cursor.execute("ALTER TABLE jobs_rollup RENAME TO jobs_rollup_away")
        client.delete(STREAM)
        client.set(STREAM, "not a stream")
        try:
            yield
        finally:
            cursor.execute("ALTER TABLE jobs_rollup_away RENAME TO jobs_rollup")
            client.delete(STREAM)


def test_the_first_steps_leave_when_there_is_something(person: Persons) -> None:
    page = person("Operator").open("/admin/")
    live(page)
    page.locator('[data-panel="start"]').wait_for()
    make_job("dead")
    page.locator('[data-panel="start"]').wait_for(state="detached")
    page.locator('[data-panel="letters"] tr[data-row]').wait_for()


def test_the_switch_of_a_queue_pauses_and_resumes_it(person: Persons) -> None:
    make_job(queue="mail")
    page = person("Operator").open("/admin/")
    page.get_by_role("button", name="Pause mail").click()
    page.get_by_text("Queue mail is paused").wait_for()
    assert page.url.endswith("/admin/")
    page.get_by_role("button", name="Resume mail").click()
    page.get_by_text("Queue mail goes on").wait_for()
    page.goto(page.url + "jobs/queue/")
    page.locator("summary", has_text="Pause").click()
    page.get_by_label("Why?").fill("the mover")
    page.get_by_role("button", name="Pause mail", exact=True).click()
    page.get_by_text("the mover").wait_for()


def test_rows_stay_under_the_pointer_and_come_when_it_has_left(person: Persons) -> None:
    first = make_job("processing", started_at=ago(seconds=50))
    page = person("Operator").open("/admin/")
    live(page)
    row = page.locator(f'[data-panel="active"] tr[data-row="{first.id}"]')
    row.hover()
    before = row.bounding_box()
    second = make_job("processing", started_at=ago(seconds=90))
    total = page.locator('[data-panel="active"] [data-cell="total"]:text-is("2")')
    under_a_moving_hand(row, total.count, "the number is right")
    assert row.bounding_box() == before
    page.mouse.move(5, 5)
    newer = page.locator(f'[data-panel="active"] tr[data-row="{second.id}"]')
    newer.wait_for()
    assert newer.bounding_box()["y"] < row.bounding_box()["y"]


def test_the_log_waits_while_somebody_reads_it(person: Persons) -> None:
    page = person("Operator").open("/admin/")
    live(page)
    log = page.locator("[data-log]")
    events.emit("queue.paused", queue="first", by="anna")
    log.locator("li", has_text="first").wait_for()
    log.hover()
    events.emit("job.dlq_entry", job_id=str(make_job("dead").id), type="second", queue="mail")
    pill = page.locator("[data-log-thaw]")
    pill.wait_for()
    assert pill.inner_text() == "1 new"
    assert log.locator("li", has_text="second").count() == 0
    pill.click()
    log.locator("li", has_text="second").wait_for()
    assert "second" in log.locator("li").first.inner_text()
    page.get_by_label("Show").select_option("error")
    assert not log.locator("li", has_text="first").is_visible()
    assert log.locator("li", has_text="second").is_visible()


def test_a_name_in_an_event_is_text(person: Persons) -> None:
    page = person("Operator").open("/admin/")
    live(page)
    events.emit("queue.paused", queue="<img src=x onerror=alert(1)>", by="<b>anna</b>")
    line = page.locator("[data-log] li", has_text="<img src=x").first
    line.wait_for()
    assert "<b>anna</b>" in line.inner_text()
    assert page.locator("[data-log] img").count() == 0


def test_charts_follow_the_span_and_the_theme_and_say_the_same_in_a_table(person: Persons) -> None:
    for ago_minutes in range(2, 300):
        at = timezone.now().replace(second=0, microsecond=0) - timedelta(minutes=ago_minutes)
        Rollup.objects.create(
            minute=at, queue="default", type="test", outcome="succeeded", jobs=7, wait_seconds=1,
            run_seconds=1, timings=[pack(7, wait=5, run=8)], folded=True,
        )  # fmt: skip
    page = person("Viewer", color_scheme="light").open("/admin/")
    legend = page.locator('[data-legend="throughput"]')
    rows = page.locator(".twin tbody tr")
    count = rows.count()
    assert 59 <= count <= 60
    page.get_by_role("link", name="6 h").click()
    page.locator('[data-span="6h"][aria-current]').wait_for()
    assert rows.count() >= 71
    assert "span=6h" in page.url
    chart = page.locator('[data-chart="throughput"]')
    chart.hover()
    page.locator('[data-legend="latency"] span', has_text=":").first.wait_for()
    assert "completed" in legend.inner_text()
    picture = "document.querySelector('[data-chart=\"throughput\"] canvas').toDataURL()"
    before = page.evaluate(picture)
    page.locator("#theme").click()
    page.locator("#theme").click()
    page.wait_for_function(f"before => {picture} !== before", arg=before)


def test_without_script_it_is_all_there_to_be_read(person: Persons) -> None:
    make_worker(name="host:7")
    make_job("dead")
    page = person("Operator", java_script_enabled=False).open("/admin/")
    # The numbers may be those of a second ago.
    eventually(lambda: page.reload() and page.get_by_text("host:7").count(), "the worker is shown")
    assert page.get_by_text("host:7").first.is_visible()
    assert not page.locator(".chart").first.is_visible()
    page.locator(".twin summary").click()
    assert page.locator(".twin tbody tr").first.is_visible()
    page.goto(page.url + "jobs/worker/")
    page.get_by_role("button", name="Stop host:7").click()
    page.get_by_role("button", name="Stop after current jobs").click()
    page.get_by_text("was asked to stop").wait_for()


def test_lists_of_queues_and_workers_are_live(person: Persons) -> None:
    worker = make_worker(name="host:7")
    make_job(queue="mail")
    boss = person("Operator")
    queues, workers = boss.open("/admin/jobs/queue/"), boss.open("/admin/jobs/worker/")
    live(queues)
    live(workers)
    lifecycle.pause_queue("mail", by="anna")
    make_job(queue="later")
    queues.locator('tr[data-row="mail"].is-paused').wait_for()
    queues.locator('tr[data-row="later"]').wait_for()
    lifecycle.stop_worker(worker.id, by="anna")
    workers.locator(f'tr[data-row="{worker.id}"]', has_text="asked to stop").wait_for()
