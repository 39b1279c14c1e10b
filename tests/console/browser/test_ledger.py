"""The list of jobs in a browser: live rows, selection, actions, and where one is afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jobs import lifecycle
from jobs.models import Job
from jobs.states import Status
from tests.console.browser.conftest import Person
from tests.factories import ago, make_job

type Persons = Callable[..., Person]

LIST = "/admin/jobs/job/"
SCRIPT = "<img src=x onerror=alert(1)>"


def row(page: Any, job: Job, state: str = "") -> Any:
    more = f'[data-state="{state}"]' if state else ""
    return page.locator(f'tr[data-row="{job.id}"]{more}')


def live(page: Any) -> Any:
    page.locator('#live[data-state="live"]').wait_for()
    return page


def test_rows_change_in_place_and_new_ones_wait_to_be_asked_for(person: Persons) -> None:
    first, second = make_job(), make_job()
    page = live(person("Operator").open(LIST))
    order = page.locator("tr[data-row]").evaluate_all("rows => rows.map(row => row.dataset.row)")
    lifecycle.cancel(first, by="anna")
    row(page, first, "cancelled").wait_for()
    new = Job.objects.create(type="test", payload={})
    _tell_created(new)
    pill = page.locator("#show-new")
    pill.wait_for(state="visible")
    assert pill.inner_text() == "1 new: show"
    now = page.locator("tr[data-row]").evaluate_all("rows => rows.map(row => row.dataset.row)")
    assert now == order == [str(second.id), str(first.id)]
    row(page, second).locator("input").check()
    pill.click()
    row(page, new).wait_for()
    assert row(page, second).locator("input").is_checked()
    assert not pill.is_visible()


def test_a_purged_row_says_so_and_cannot_be_selected(person: Persons) -> None:
    job = make_job("dead")
    page = live(person("Supervisor").open(f"{LIST}?state=dead"))
    lifecycle.purge(job, by="anna")
    page.locator(f'tr.is-gone[data-row="{job.id}"]').wait_for()
    assert row(page, job).locator("input").is_disabled()
    assert "purged" in row(page, job).inner_text()


def test_a_burst_that_is_only_counted_leaves_the_rows_right(person: Persons) -> None:
    jobs = [make_job() for _ in range(40)]
    page = live(person("Viewer").open(LIST))
    others = [make_job() for _ in range(200)]
    lifecycle.cancel_many([job.id for job in [*others, *jobs]], by="anna")
    page.wait_for_function(
        "() => [...document.querySelectorAll('tr[data-row]')].every(row => row.dataset.state === 'cancelled')"
    )


def test_one_is_retried_at_once_and_many_after_a_second_press(person: Persons) -> None:
    jobs = [make_job("dead", failed_at=ago(minutes=n)) for n in range(3)]
    boss = person("Operator")
    page = boss.open(f"{LIST}?state=dead&priority=2")
    retry = page.locator('#selection button[value="retry"]')
    assert retry.is_disabled()
    row(page, jobs[0]).locator("input").check()
    retry.click()
    page.locator(".messagelist .success").wait_for()
    assert page.inner_text(".messagelist").strip() == "1 retried."
    assert page.url.endswith("?state=dead&priority=2")
    page.locator("#tick-all").check()
    retry.click()
    assert Job.objects.dead().count() == 2
    assert retry.inner_text() == "Retry 2?"
    retry.click()
    page.wait_for_function(
        "() => document.querySelector('.messagelist')?.innerText.includes('2 retried')"
    )
    assert Job.objects.dead().count() == 0


def test_shift_selects_all_between(person: Persons) -> None:
    for n in range(5):
        make_job("dead", failed_at=ago(minutes=n))
    page = person("Operator").open(f"{LIST}?state=dead")
    boxes = page.locator('input[name="_selected_action"]')
    boxes.nth(1).click()
    boxes.nth(3).click(modifiers=["Shift"])
    assert page.inner_text("#selected") == "3 selected"


def test_purging_many_asks_for_the_words_and_counts_what_it_did(person: Persons) -> None:
    jobs = [make_job("dead", failed_at=ago(minutes=n)) for n in range(3)]
    page = person("Supervisor").open(f"{LIST}?state=dead")
    page.locator("#tick-all").check()
    page.locator('#selection button[value="purge"]').click()
    assert "Purges the 3 jobs that you have selected" in page.inner_text("main")
    lifecycle.retry(jobs[0], by="anna")
    page.get_by_label("To confirm").fill("purge 2")
    page.get_by_role("button", name="Purge 3 jobs").click()
    assert "type purge 3 to confirm" in page.inner_text("main")
    page.get_by_label("To confirm").fill("purge 3")
    page.get_by_role("button", name="Purge 3 jobs").click()
    assert "2 purged, 1 skipped (no longer dead: pending)." in page.inner_text(".messagelist")
    assert list(Job.objects.values_list("status", flat=True)) == [Status.PENDING]


def test_what_one_may_not_do_is_not_there(person: Persons) -> None:
    make_job("dead")
    viewer = person("Viewer").open(f"{LIST}?state=dead")
    assert viewer.locator("#selection, input[name=_selected_action]").count() == 0
    operator = person("Operator").open(f"{LIST}?state=dead")
    assert operator.locator('#selection button[value="retry"]').count() == 1
    assert operator.locator('#selection button[value="purge"]').count() == 0


def test_filters_become_the_address_and_chips_undo_them(person: Persons) -> None:
    job = make_job("dead", type="kept", queue="mail")
    other = make_job("dead")
    page = person("Operator").open(f"{LIST}?state=dead")
    page.locator("#f-queue").fill("mail")
    page.locator("#f-q").fill("type:kept priority:urgent")
    page.get_by_role("button", name="Apply").click()
    page.wait_for_url("**queue=mail**")
    assert "time=" not in page.url
    assert row(page, job).count() == 1
    assert row(page, other).count() == 0
    assert "must be high, medium or low" in page.locator(".chip.is-wrong").inner_text()
    page.get_by_role("link", name="Remove queue mail").click()
    page.get_by_role("link", name="Remove type kept").click()
    row(page, other).wait_for()


def test_on_a_narrow_screen_the_tab_in_hand_is_in_sight(person: Persons) -> None:
    page = person("Viewer").open(f"{LIST}?state=dead")
    page.set_viewport_size({"width": 320, "height": 640})
    page.reload()
    tab = page.locator(".tabs [aria-current]")
    page.locator("#live").wait_for()
    box = tab.bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 320


def test_hostile_text_is_text_also_when_it_comes_live(person: Persons) -> None:
    job = make_job("retrying", type=SCRIPT, queue=SCRIPT, last_error=SCRIPT)
    boss = person()
    page = live(boss.open(f"{LIST}?state=all"))
    assert page.locator("img").count() == 0
    assert row(page, job).inner_text().count(SCRIPT) == 3
    Job.objects.filter(id=job.id).update(last_error=f"more {SCRIPT}")
    lifecycle.cancel(job, by=SCRIPT, reason=SCRIPT)
    row(page, job, "cancelled").get_by_text(f"more {SCRIPT}").wait_for()
    assert page.locator("img").count() == 0


def _tell_created(job: Job) -> None:
    from jobs import events

    events.emit("job.created", job_id=job.id, type=job.type, queue=job.queue)
