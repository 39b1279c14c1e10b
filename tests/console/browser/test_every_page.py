"""Every page of the console in one browser: it obeys the policy, shuts nobody out, fits a narrow screen,
and takes all that others wrote as text.

The pages are those of the routes; one that is added is looked at without a word here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.test import Client

from jobs import events
from tests.console.browser.conftest import Person
from tests.console.everything import MARKUP, PICTURE, everything, with_markup
from tests.console.people import client_of
from tests.security.routes import NOWHERE, routes

type Persons = Callable[..., Person]

MORE = (
    "/admin/jobs/job/?state=dead&priority=9&q=error:bad",
    "/admin/jobs/job/?state=all",
    "/admin/jobs/job/?state=held&queue=none",
    "/admin/jobs/job/bulk/?action=purge&state=dead",
    "/admin/jobs/job/bulk/?action=move_queue&state=ready",
    "/admin/jobs/job/add/?type=geonames.locate_city",
    "/admin/settings/?look=closer",
    "/admin/nowhere/",
)
WIDTHS = (1_280, 640, 320)
"""As it is; with the page enlarged to 200 %; the narrowest."""
RUNS = "[src=x], [onerror]"
"""What markup would have become."""
MOVING = """() => document.getAnimations().filter((each) => {
  const { duration, iterations } = each.effect.getComputedTiming();
  return duration > 10 || iterations > 1;
}).length"""


def every_page(client: Client, ids: dict[str, str]) -> list[str]:
    """The addresses of what is a page for somebody who may see everything."""
    found = []
    for route in routes():
        parts = route.pattern.split("/")
        id = ids.get("/".join(parts[1:3]), NOWHERE)
        if parts[0] == "admin" and "logout" not in parts and "<url>" not in parts:
            path = route.path.replace(NOWHERE, id).replace("nowhere", id)
            answer: Any = client.get(path)
            if answer.streaming or answer.status_code != 200:
                continue
            if b"<html lang" in answer.content:
                found.append(path)
    return [*found, *MORE]


def watched(person: Person) -> Any:
    """A page whose every failed request is a problem."""
    page = person.open()
    page.on(
        "response",
        lambda answer: (
            person.problems.append(f"{answer.url}: {answer.status}")
            if answer.status >= 400 and not answer.request.is_navigation_request()
            else None
        ),
    )
    page.on("dialog", lambda dialog: person.problems.append(f"a script ran: {dialog.message}"))
    return page


def test_every_page_obeys_the_policy_and_can_be_used_by_everybody(person: Persons) -> None:
    """Light and dark, at three widths, with markup in all that others wrote."""
    ids = everything()
    with_markup(ids)
    boss = person(color_scheme="light")
    page = watched(boss)
    wrong: list[str] = []
    shown = 0
    pages = every_page(client_of(), ids)
    assert len(pages) > 40
    for path in pages:
        page.goto(f"{boss.origin}{path}")
        if page.locator("#live").count():
            page.locator('#live[data-state="live"]').wait_for()
        found = [*page.evaluate("window.violations"), *boss.serious(page)]
        shown += PICTURE in page.inner_text("body")
        if page.locator(RUNS).count():
            found.append("markup")
        if page.evaluate(MOVING):
            found.append("something moves")
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 800})
            if (wide := page.evaluate("document.documentElement.scrollWidth")) > width:
                found.append(f"{wide} wide at {width}")
        page.set_viewport_size({"width": WIDTHS[0], "height": 800})
        page.emulate_media(color_scheme="dark", reduced_motion="reduce")
        found += [f"dark: {each}" for each in boss.serious(page, "color-contrast")]
        page.emulate_media(color_scheme="light", reduced_motion="reduce")
        found += [*page.evaluate("window.violations"), *boss.problems]
        boss.problems.clear()
        wrong += [f"{path}: {each}" for each in found]
    assert wrong == [], "\n".join(wrong)
    assert shown > 15


def test_what_comes_live_is_text_on_every_page(person: Persons) -> None:
    ids = everything()
    boss = person()
    places = (
        "/admin/",
        "/admin/jobs/job/?state=all",
        f"/admin/jobs/job/{ids['jobs/job']}/",
        "/admin/jobs/job/dead-letters/",
        "/admin/jobs/queue/",
        "/admin/jobs/worker/",
        "/admin/jobs/schedule/",
        "/admin/ranges/rangerun/",
        f"/admin/ranges/rangerun/{ids['ranges/rangerun']}/",
        f"/admin/jobs/bulkoperation/{ids['jobs/bulkoperation']}/",
    )
    pages = [boss.open(path) for path in places]
    for page in pages:
        page.locator('#live[data-state="live"]').wait_for()
    with_markup(ids)
    told = {"job_id": ids["jobs/job"], "type": MARKUP[:90], "queue": MARKUP[:60]}
    for name in ("job.dlq_entry", "job.retried", "job.failed"):
        events.emit(name, **told, error=MARKUP, by=MARKUP, reason=MARKUP, status="failed")
    events.emit("queue.paused", queue=MARKUP[:60], by=MARKUP, reason=MARKUP)
    events.emit("worker.lost", worker_id=ids["jobs/worker"], worker=MARKUP)
    events.emit("schedule.changed", schedule_id=ids["jobs/schedule"], name=MARKUP, by=MARKUP)
    for name in ("range.paused", "range.stats_updated"):
        events.emit(name, run_id=ids["ranges/rangerun"], reason=MARKUP, by=MARKUP)
    events.emit("bulk.updated", bulk_id=ids["jobs/bulkoperation"], by=MARKUP, reason=MARKUP)
    for page, path in zip(pages, places, strict=True):
        page.locator("main", has_text=PICTURE).wait_for()
        assert page.locator(RUNS).count() == 0, path
