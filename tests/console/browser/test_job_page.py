"""The page of a job in a browser: live, and careful."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from django.utils import timezone

from jobs import lifecycle
from jobs.models import Job
from tests.console.browser.conftest import Person
from tests.factories import ago, make_edge, make_history, make_job, make_worker
from tests.live.conftest import CHECKOUT, Server

type Persons = Callable[..., Person]

LIST = "/admin/jobs/job/"
SCRIPT = "<img src=x onerror=alert(1)>"


def page_of(job: Job) -> str:
    return f"{LIST}{job.id}/"


def live(page: Any) -> Any:
    page.locator('#live[data-state="live"]').wait_for()
    return page


def test_state_and_buttons_change_with_the_job(person: Persons) -> None:
    job = make_job("dead")
    page = live(person("Operator").open(page_of(job)))
    assert page.get_by_role("button", name="Retry now").count() == 1
    lifecycle.retry(job, by="anna")
    page.get_by_role("button", name="Cancel job").wait_for()
    assert page.get_by_role("button", name="Retry now").count() == 0
    assert "ready" in page.locator(".facts.head").inner_text()
    assert "No worker is alive" in page.inner_text(".why")
    queue = page.locator(".facts.head a", has_text="default")
    queue.focus()
    lifecycle.cancel(job, by="anna")
    page.get_by_role("button", name="Retry as new copy").wait_for()
    page.locator(".facts.head .state-cancelled").wait_for()
    assert queue.evaluate("link => link === document.activeElement"), "the focus stays"


def test_a_job_can_be_taken_away_as_soon_as_its_grace_time_is_over(person: Persons) -> None:
    owner = make_worker(beat_at=timezone.now() + timedelta(hours=1))
    job = make_job("processing", worker_id=owner.id, cancel_requested_at=ago(seconds=1))
    page = live(person("Operator").open(page_of(job)))
    page.get_by_role("button", name="Force: mark lost").click()
    assert "nothing that it writes about this job counts" in page.inner_text("main")
    page.get_by_role("button", name="Force: mark lost").click()
    page.locator(".facts.head .state-cancelled").wait_for()
    job.refresh_from_db()
    assert job.status == "cancelled"


def test_progress_is_drawn_as_it_comes(person: Persons) -> None:
    from jobs import events

    job = make_job("processing", progress_done=1, progress_total=10)
    page = live(person("Viewer").open(page_of(job)))
    facts: dict[str, Any] = {"done": 7, "total": 10}
    events.emit("job.progress", job_id=job.id, type=job.type, queue=job.queue, **facts)
    page.get_by_text("7 of 10").wait_for()


def test_cancelling_takes_two_presses(person: Persons) -> None:
    job = make_job()
    page = person("Operator").open(page_of(job))
    button = page.locator('button[value="cancel"]')
    button.click()
    assert button.inner_text() == "Cancel this job for good?"
    page.keyboard.press("Escape")
    assert button.inner_text() == "Cancel job"
    button.click()
    button.click()
    page.locator(".messagelist .success").wait_for()
    job.refresh_from_db()
    assert job.status == "cancelled"


def test_an_impatient_press_makes_no_second_copy(person: Persons) -> None:
    job = make_job("completed", type="geonames.find_city", payload={"name": "Ulm"})
    page = live(person("Operator").open(page_of(job)))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.method))
    page.get_by_role("button", name="Retry as new copy").click(click_count=4)
    page.get_by_text("This is a new job with the same payload").wait_for()
    assert asked.count("POST") == 1
    assert Job.objects.count() == 2


def test_an_action_on_what_has_changed_asks_again(person: Persons) -> None:
    job = make_job("dead")
    boss = person("Operator")
    page = boss.open(page_of(job))
    page.keyboard.press("p")  # the page stays as it was
    lifecycle.retry(job, by="anna")
    Job.objects.filter(id=job.id).update(status="failed", failed_at=ago())
    page.locator('button[value="retry"]').click()
    page.locator(".messagelist .warning").wait_for()
    assert "retried by anna" in page.inner_text(".messagelist")
    job.refresh_from_db()
    assert job.status == "failed"


def test_hostile_text_is_text_everywhere(person: Persons) -> None:
    parent = make_job("dead", type=SCRIPT)
    job = make_job(
        "dead",
        type=SCRIPT,
        queue=SCRIPT,
        payload={SCRIPT: [SCRIPT]},
        metadata={"a": SCRIPT},
        result=SCRIPT,
        last_error=SCRIPT,
        unique_key=SCRIPT,
    )
    make_history(job, attempts=2, error=f'File "{SCRIPT}", line 1\n  {SCRIPT}')
    job.logs.create(event="log", level=SCRIPT[:8], message=SCRIPT, attempt=1)
    make_edge(make_job(type=SCRIPT), job)
    make_edge(job, parent, state="satisfied")
    boss = person()
    page = live(boss.open(page_of(job)))
    assert page.locator("img").count() == 0
    lifecycle.retry(job, by=SCRIPT, reason=SCRIPT)
    page.get_by_role("button", name="Cancel job").wait_for()
    assert page.locator("img").count() == 0
    boss.go(page, f"{LIST}?state=all&q=error:{SCRIPT}")
    assert page.locator("img").count() == 0


@contextmanager
def worker(server: Server) -> Iterator[None]:
    """A real worker on the server's database."""
    import os

    from django.conf import settings
    from django.db import connections

    database = connections["default"].settings_dict
    url = f"postgresql:///{database['NAME']}?host={database['HOST']}&user={database['USER']}"
    process = subprocess.Popen(
        [sys.executable, "manage.py", "runworker", "--concurrency", "2"],
        cwd=CHECKOUT,
        env={**os.environ, "DATABASE_URL": url, "REDIS_URL": settings.COPPICE_REDIS_URL},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)
