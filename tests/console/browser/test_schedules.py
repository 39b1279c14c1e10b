"""Schedules in a browser: the next runs beside the rule while it is typed, and pages that follow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from playwright.sync_api import expect

from jobs import schedules
from jobs.models import Job, Schedule
from tests.console.browser.conftest import Person

type Persons = Callable[..., Person]

LIST = "/admin/jobs/schedule/"


def live(page: Any) -> Any:
    page.locator('#live[data-state="live"]').wait_for()
    return page


def test_a_schedule_is_made_with_its_next_runs_in_sight(person: Persons) -> None:
    boss = person("Operator")
    page = boss.open(f"{LIST}add/")
    page.get_by_label("Name").fill("morning")
    page.get_by_label("Job type").fill("geonames.find_city")
    page.get_by_label("Payload, as JSON").fill('{"name": "Oslo"}')
    preview = page.locator("[data-part=preview]")
    # The rule is chosen by typing it.
    page.get_by_label("Cron expression").fill("0 8 * * 1-5")
    page.get_by_label("Time zone").fill("Europe/Berlin")
    expect(preview.locator("li")).to_have_count(10)
    expect(preview.locator("li").first).to_contain_text("08:00")
    page.get_by_label("Cron expression").fill("0 8 30 2 *")
    expect(preview.locator(".error")).to_be_visible()
    page.get_by_label("Cron expression").fill("30 9 * * *")
    expect(preview.locator("li").first).to_contain_text("09:30")
    page.get_by_role("button", name="Make the schedule").click()
    schedule = Schedule.objects.get()
    page.wait_for_url(f"**{LIST}{schedule.id}/")
    assert (schedule.cron, schedule.time_zone) == ("30 9 * * *", "Europe/Berlin")

    page.get_by_role("button", name="Run now").click()
    page.get_by_role("link", name="job").first.wait_for()
    assert Job.objects.get().payload == {"name": "Oslo"}
    page.get_by_role("button", name="Disable").click()
    page.get_by_text("Disabled: it makes no jobs").wait_for()
    live(page)
    schedules.enable(schedule, by="ben")  # by another operator
    page.get_by_role("button", name="Disable").wait_for()
    page.get_by_role("button", name="Delete…").click()
    page.get_by_role("button", name="Delete the schedule").click()
    page.get_by_text("No schedules.").wait_for()
