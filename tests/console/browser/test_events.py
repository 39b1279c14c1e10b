"""The page of events in a browser: it follows, waits while somebody reads, and says what it leaves out."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone
from playwright.sync_api import expect

from jobs import events, lifecycle
from jobs.models import Job, JobLog
from tests.console.browser.conftest import Person, under_a_moving_hand
from tests.factories import make_job, make_worker

type Persons = Callable[..., Person]

PAGE = "/admin/events/"


def say(job: Job, message: str, level: str = "info") -> None:
    """A handler's line, as a worker writes and tells it."""
    JobLog.objects.create(job=job, event="log", message=message, level=level, at=timezone.now())
    events.emit("job.log", job_id=str(job.id), level=level)


def full(lines: int = 60) -> Job:
    job = make_job("processing", type="send_email", queue="mail", worker_id=make_worker().id)
    for n in range(lines):
        level = ("info", "warning", "error")[n % 3]
        JobLog.objects.create(
            job=job, event="log", level=level, message=f"line {n}", data={"n": n}, attempt=1,
            worker_id=job.worker_id,
        )  # fmt: skip
    return job


def live(page: Any) -> Any:
    page.locator('#live[data-state="live"]').wait_for()
    return page


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nobody_is_shut_out(person: Persons, theme: str) -> None:
    full()
    boss = person(color_scheme=theme)
    page = live(boss.open(f"{PAGE}?level=loud&type=send_email&text=line"))
    assert boss.serious(page) == []
    for width in (1024, 320):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width, width


def test_lines_come_by_themselves_and_only_what_the_filters_want(person: Persons) -> None:
    mail, other = make_job(type="send_email", queue="mail"), make_job(type="sync")
    boss = person("Operator")
    everything, errors = live(boss.open(PAGE)), live(boss.open(f"{PAGE}?queue=mail&level=error"))
    for page in (everything, errors):
        page.evaluate("window.stays = true")
    assert everything.get_by_text("Nothing has happened yet.").is_visible()
    say(mail, "Sent <b>it</b>")
    say(other, "elsewhere", "error")
    say(mail, "refused", "error")
    lifecycle.cancel(mail, by="anna")
    lifecycle.pause_queue("mail", by="anna", reason="the mover")
    rows = everything.locator("#lines tr[data-row]")
    expect(rows).to_have_count(4)
    expect(rows.first).to_contain_text("cancelled")
    expect(rows.last).to_contain_text("Sent <b>it</b>")
    told = everything.locator("#lines tr.told")
    expect(told).to_have_count(1)
    for each in ("queue paused", "mail", "anna", "the mover"):
        expect(told).to_contain_text(each)
    assert not everything.get_by_text("Nothing has happened yet.").is_visible()
    expect(errors.locator("#lines tr[data-row]")).to_have_count(1)
    expect(errors.locator("#lines tr[data-row]")).to_contain_text("refused")
    assert everything.evaluate("window.stays")
    assert errors.evaluate("window.stays")


def test_nothing_moves_while_somebody_reads_and_the_new_lines_are_counted(person: Persons) -> None:
    job = full()
    page = live(person("Operator").open(f"{PAGE}?rows=25"))
    expect(page.locator(".foot > span").first).to_have_text("25 shown, more follow")
    box, pill = page.locator("#lines"), page.locator("#follow-thaw")
    rows = page.locator("#lines tr[data-row]")
    box.evaluate("box => box.scrollTo(0, 40)")
    row = rows.nth(20)
    before = row.bounding_box()
    for n in range(38):
        say(job, f"new {n}")
    expect(pill).to_have_text("38 new lines")
    assert row.bounding_box() == before
    pill.click()
    expect(rows).to_have_count(63)
    expect(rows.first).to_contain_text("new 37")
    assert box.evaluate("box => box.scrollTop") == 0
    assert not pill.is_visible()
    expect(page.locator(".foot > span").first).to_have_text("63 shown, more follow")
    # A pointer over the lines keeps them too.
    rows.nth(3).hover()
    say(job, "under the hand")
    under_a_moving_hand(rows.nth(3), pill.is_visible, "a line waits")
    expect(pill).to_have_text("1 new line")
    page.mouse.move(5, 5)
    expect(rows.first).to_contain_text("under the hand")


def test_it_stops_when_it_is_told_to_and_catches_up(person: Persons) -> None:
    job = full(3)
    page = live(person("Operator").open(PAGE))
    rows, pill = page.locator("#lines tr[data-row]"), page.locator("#follow-thaw")
    page.keyboard.press("p")
    expect(page.locator("#follow-state")).to_have_text("paused")
    say(job, "meanwhile")
    page.keyboard.press("p")
    live(page)
    expect(rows.first).to_contain_text("meanwhile")
    switch = page.get_by_role("button", name="Follow")
    switch.click()
    expect(switch).to_have_attribute("aria-pressed", "false")
    say(job, "unseen")
    expect(pill).to_have_text("1 new line")
    expect(rows.first).to_contain_text("meanwhile")
    pill.click()
    expect(rows.first).to_contain_text("unseen")
    expect(switch).to_have_attribute("aria-pressed", "true")


def test_in_a_flood_it_says_how_many_it_shows_and_the_list_stays_bounded(person: Persons) -> None:
    job = full(3)
    page = live(person("Operator").open(PAGE))
    body = page.locator("#lines tbody")
    # As after half an hour: the oldest lines go.
    body.evaluate(
        """body => { for (let n = 0; n < 2100; n++) {
             const row = body.lastElementChild.cloneNode(true);
             delete row.dataset.row;
             body.append(row);
           } }"""
    )
    made = [JobLog(job=job, event="log", message=f"flood {n}") for n in range(400)]
    JobLog.objects.bulk_create(made)
    for _ in made:
        events.emit("job.log", job_id=str(job.id), level="info")
    expect(page.locator("#follow-state")).to_have_text(re.compile(r"^showing 40 of \d\d+/s$"))
    expect(body.locator("tr.gap").first).to_be_visible()
    expect(body.locator("tr[data-row]").first).to_contain_text("flood 399")
    assert body.evaluate("body => body.childElementCount") <= 2_000
    rows = body.locator("tr[data-row]").count()
    expect(page.locator(".foot > span").first).to_have_text(f"{rows} shown")


def test_a_line_is_copied_as_text(person: Persons) -> None:
    full(1)
    boss = person("Operator")
    boss.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = live(boss.open(PAGE))
    page.locator("#lines tr[data-row]").hover()
    page.get_by_role("button", name="Copy the line").click()
    page.locator(".copy.is-done").wait_for()
    assert "send_email" in page.evaluate("navigator.clipboard.readText()")


def test_it_is_all_there_without_script(person: Persons) -> None:
    full()
    page = person("Operator", java_script_enabled=False).open(PAGE)
    assert not page.get_by_role("button", name="Follow").is_visible()
    page.get_by_label("Level").select_option("error")
    page.get_by_label("Text").fill("line 5*")
    page.get_by_role("button", name="Apply").click()
    expect(page.locator("#lines tr[data-row]")).to_have_count(5)
    page.get_by_role("link", name="Remove text line 5*").click()
    expect(page.locator("#lines tr[data-row]")).to_have_count(20)
    page.get_by_label("Go to").fill("2020-01-01T00:00:00")
    page.get_by_role("button", name="Apply").click()
    page.get_by_text("Nothing more in this direction.").wait_for()
    page.get_by_role("link", name="To the newest", exact=True).click()
    with page.expect_download() as download:
        page.locator("summary", has_text="Download").click()
        page.get_by_role("link", name="JSON").click()
    assert download.value.suggested_filename.startswith("events-")
