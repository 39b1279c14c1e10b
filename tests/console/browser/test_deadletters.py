"""Dead letters, bulk operations and a new job in the browser: live, by the keyboard's and finger's ways."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from playwright.sync_api import expect

from jobs import bulk, lifecycle
from jobs.filtering import Filters
from jobs.models import Job
from jobs.states import Status
from tests.console.browser.conftest import Person
from tests.factories import make_job

type Persons = Callable[..., Person]

PAGE = "/admin/jobs/job/dead-letters/"
NEW = "/admin/jobs/job/add/?type=geonames.locate_city"


def live(page: Any) -> Any:
    page.wait_for_selector("#live[data-state=live]")
    return page


def test_what_others_retry_is_counted_off_while_one_looks(person: Persons) -> None:
    jobs = [make_job("dead", type="mail") for _ in range(3)]
    boss = person("Supervisor")
    page = live(boss.open(PAGE))
    expect(page.locator("[data-cell=total]")).to_have_text("3")
    group = page.locator("table.letters [data-cell=count]")
    expect(group).to_have_text("3")
    lifecycle.retry(jobs[0], by="anna")
    row = page.locator(f'#result_list tr[data-row="{jobs[0].id}"]')
    expect(row.locator("[data-cell=state]")).to_contain_text("ready")
    expect(page.locator("[data-cell=total]")).to_have_text("2")
    expect(group).to_have_text("2")
    purge = page.locator(f'#result_list tr[data-row="{jobs[1].id}"]').get_by_role(
        "button", name="Purge"
    )
    purge.click()
    assert Job.objects.filter(id=jobs[1].id).exists()
    page.get_by_role("button", name="Purge it?").click()
    expect(page.locator(".messagelist")).to_contain_text("1 purged")
    boss.check()


def test_a_bulk_operation_is_watched_paused_and_aborted(person: Persons) -> None:
    make_job("dead", type="mail")
    operation = bulk.create("retry", Filters(status=Status.FAILED), by="anna")
    boss = person("Operator")
    page = live(boss.open(f"/admin/jobs/bulkoperation/{operation.id}/"))
    page.get_by_role("button", name="Pause", exact=True).click()
    expect(page.locator(".state-paused")).to_be_visible()
    live(page)
    bulk.resume(operation.id, by="ben")  # by another operator
    expect(page.get_by_role("button", name="Pause", exact=True)).to_be_visible()
    page.get_by_role("button", name="Abort").click()
    page.get_by_role("button", name="Abort it?").click()
    expect(page.locator(".state-aborted").first).to_be_visible()
    assert bulk.get(operation.id).status == "aborted"
    boss.check()


def test_a_new_job_shows_its_runs_and_is_made_once_by_a_double_click(person: Persons) -> None:
    boss = person("Operator")
    page = boss.open(NEW)
    page.get_by_label("City").fill("5")
    page.fill("[name='payload.at']", "2030-01-01T00:00:00")
    page.get_by_text("by cron").click()
    page.get_by_label("Cron expression").fill("0 8 * * *")
    expect(page.locator(".runs li")).to_have_count(5)
    page.get_by_text("once", exact=True).click()
    page.get_by_role("button", name="JSON").click()
    payload = page.get_by_label("Payload, as JSON")
    payload.fill('{"city": 123456789012345678901, "at": "2030-01-01T00:00:00Z"}')
    page.get_by_role("button", name="Format").click()
    expect(payload).to_have_value(
        '{\n  "city": 123456789012345678901,\n  "at": "2030-01-01T00:00:00Z"\n}'
    )
    page.locator("aside").get_by_role("button", name="Create", exact=True).dblclick()
    page.wait_for_url("**/jobs/job/0*/")
    assert Job.objects.get().payload["city"] == 123456789012345678901
    boss.check()


def test_without_script_a_job_is_made_all_the_same(person: Persons) -> None:
    page = person("Operator", java_script_enabled=False).open("/admin/jobs/job/add/")
    page.get_by_label("Type").select_option("geonames.locate_city")
    page.get_by_role("button", name="Show its form").click()
    page.get_by_role("button", name="JSON").click()
    page.get_by_label("Payload, as JSON").fill('{"city": 7, "at": "2030-01-01T00:00:00Z"}')
    page.locator("aside").get_by_role("button", name="Create", exact=True).click()
    assert Job.objects.get().payload["city"] == 7
    page.close()
