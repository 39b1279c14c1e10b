"""Ten thousand dead letters are retried from the screen, by a real worker, while one goes on working."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db import connection
from playwright.sync_api import expect

from jobs import lifecycle
from jobs.models import AuditEntry, BulkOperation, Job, JobLog
from jobs.states import Status
from tests.console.browser.conftest import Person
from tests.console.browser.test_job_page import worker
from tests.factories import make_job
from tests.live.conftest import Server

type Persons = Callable[..., Person]

LIST = "/admin/jobs/job/"
LETTERS = f"{LIST}dead-letters/"
TYPE = "nobody.resize"
"""No worker knows it: what is retried stays as it is."""
JOBS = 10_000
BURY = """
INSERT INTO jobs_job (id, type, payload, status, failed_at, attempt_count, last_error, error_fingerprint)
SELECT gen_random_uuid(), %s, '{}', 'failed', now() - n * interval '1 s', 3, 'OSError: no space', 'aa'
FROM generate_series(1, %s) n
"""
NOTE_PROGRESS = """() => {
  window.progress = [];
  new MutationObserver(() => {
    const words = document.querySelector('[data-part="progress"] [role=status] b');
    if (words) window.progress.push(Number(words.textContent.replaceAll(",", "")));
  }).observe(document.body, {subtree: true, childList: true, characterData: true});
}"""


def live(page: Any) -> Any:
    page.locator('#live[data-state="live"]').wait_for()
    return page


def test_ten_thousand_are_retried_and_the_number_told_is_the_number_changed(
    person: Persons, server: Server
) -> None:
    with connection.cursor() as cursor:
        cursor.execute(BURY, [TYPE, JOBS])
    other = make_job("dead", type="mail")
    boss = person("Operator")
    page = live(boss.open(LETTERS))
    page.get_by_role("link", name=f"Retry all {TYPE}").click()
    page.get_by_role("button", name="Retry 10,000 jobs").click()
    page.wait_for_url("**/bulkoperation/*/")
    live(page).evaluate(NOTE_PROGRESS)
    # Somebody is faster with one of them.
    lifecycle.retry(Job.objects.filter(type=TYPE)[0], by="anna")

    with worker(server):
        expect(page.locator('[data-part="progress"] .state-running')).to_be_visible(timeout=60_000)
        beside = boss.open(f"{LIST}?state=all&type={TYPE}")
        expect(beside.locator("#result_list tr[data-row]").first).to_be_visible()
        boss.go(beside, LETTERS)
        boss.go(beside, "/admin/")
        expect(page.locator('[data-part="progress"] .state-completed')).to_be_visible(
            timeout=90_000
        )

    expect(page.locator(".numbers .value").first).to_have_text("9,999")
    assert any(0 < met < JOBS - 1 for met in page.evaluate("window.progress"))
    assert BulkOperation.objects.get().changed == JOBS - 1
    assert JobLog.objects.filter(event="retried").count() == JOBS
    assert AuditEntry.objects.get(action="bulk.retry").changed == JOBS - 1
    assert Job.objects.filter(type=TYPE, status=Status.PENDING).count() == JOBS
    assert Job.objects.get(id=other.id).status == Status.FAILED
    boss.check()
