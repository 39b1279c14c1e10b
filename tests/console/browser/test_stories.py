"""What operators do from beginning to end, with the real server, real workers and their database."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

from examples.geonames.models import City
from examples.geonames.range_jobs import BackfillCells
from jobs import enqueue
from jobs.models import AuditEntry, Job, Worker
from tests.console.browser.conftest import Person
from tests.console.browser.working import working
from tests.factories import make_history, make_job
from tests.processes.harness import power_cut, tree
from tests.processes.running import Running, eventually
from tests.receiving import documented_check, receiving

type Persons = Callable[..., Person]

LIST = "/admin/jobs/job/"
LETTERS = f"{LIST}dead-letters/"
CITIES = 1_200


def live(page: Any) -> Any:
    page.locator('#live[data-state="live"]').wait_for()
    return page


@pytest.fixture
def testville() -> Iterator[None]:
    City.objects.all().delete()
    City.objects.create(id=1, name="Testville", country="XX", latitude=0, longitude=0, population=1)
    yield
    City.objects.all().delete()


@pytest.mark.usefixtures("testville")
def test_a_job_fails_on_open_screens_and_is_mended(person: Persons) -> None:
    """Dead letter, traceback, payload, retry, completed: nobody reloads a page."""
    make_job("dead", type="mail")
    boss = person("Operator")
    with working("--concurrency", "2") as worker:
        overview, letters = live(boss.open()), live(boss.open(LETTERS))
        for page in (overview, letters):
            page.evaluate("window.stays = true")
        worker.wait_for("worker.ready")
        job = enqueue("geonames.find_city", {"name": "Nowhere"}, max_attempts=1)

        expect(overview.locator('[data-stat="dead"]')).to_have_text("2")
        overview.locator("[data-log] li.is-error", has_text=str(job.id)[-8:]).wait_for()
        overview.locator('[data-panel="letters"] tr', has_text="geonames.find_city").wait_for()
        expect(letters.locator('[data-cell="total"]')).to_have_text("2")
        group = letters.locator("table.letters tr", has_text="geonames.find_city")
        expect(group).to_contain_text("there is no city of that name")
        assert letters.evaluate("window.stays")

        letters.get_by_text("1 new: show").click()
        letters.locator(f'tr[data-row="{job.id}"] a[data-open]').click()
        page = live(letters)
        assert "there is no city of that name" in page.locator(".traceback").first.inner_text()
        page.get_by_role("link", name="Edit payload").click()
        page.locator("#payload").fill('{"name": "Test')
        page.get_by_role("button", name="Save and retry").click()
        expect(page.locator("#problem")).to_contain_text("is not JSON")
        page.locator("#payload").fill('{"name": "Testville"}')
        page.get_by_role("button", name="Save and retry").click()
        page.get_by_text("The payload was changed and the job retried.").wait_for()
        page.locator(".facts.head .state-completed").wait_for()
        expect(overview.locator('[data-stat="dead"]')).to_have_text("1")
        assert overview.evaluate("window.stays")
    told = AuditEntry.objects.filter(object_id=str(job.id)).order_by("id")
    assert [(entry.actor, entry.action) for entry in told] == [
        (boss.username, "job.edit_payload"),
        (boss.username, "job.retry"),
    ]


class Keys:
    """A person without a mouse: each press, and whether it is seen where one is."""

    def __init__(self, page: Any) -> None:
        self.page = page

    def press(self, *names: str) -> None:
        for name in names:
            self.page.keyboard.press(name)

    def to(self, name: str, *, with_key: str = "Tab") -> None:
        """Go on with a key until what has the focus is called so."""
        for _ in range(120):
            self.press(with_key)
            if name in self.page.evaluate(NAME):
                assert self.page.evaluate(SEEN), f"the focus on {name} is not seen"
                return
        raise AssertionError(f"{name} is not reached by {with_key}")


NAME = """() => {
  const on = document.activeElement;
  return on.getAttribute("aria-label") || on.labels?.[0]?.textContent || on.textContent;
}"""
SEEN = """() => {
  const on = document.activeElement;
  const look = getComputedStyle(on);
  const box = on.getBoundingClientRect();
  const hit = document.elementFromPoint(box.left + Math.min(box.width, 20) / 2, box.top + box.height / 2);
  const isMarked = look.outlineStyle !== "none" && parseFloat(look.outlineWidth) >= 2;
  return on.matches(":focus-visible") && isMarked && (on.contains(hit) || hit?.contains(on));
}"""


def test_the_triage_needs_no_mouse(person: Persons) -> None:
    job = make_job("dead", type="geonames.find_city", payload={"name": "Nowhere"})
    make_history(job, attempts=1, error="LookupError: there is no city of that name")
    page = live(person("Operator").open())
    keys = Keys(page)
    keys.press("g", "d")
    page.wait_for_url(f"**{LETTERS}")
    live(page)
    # The first row is the group, the second the job.
    keys.press("j", "j", "Enter")
    page.wait_for_url(f"**{LIST}{job.id}/**")
    keys.to("Traceback")
    keys.press("Enter", "Enter")
    assert "there is no city of that name" in page.locator(".traceback").inner_text()
    keys.to("Edit payload", with_key="Shift+Tab")
    keys.press("Enter")
    page.wait_for_url("**/payload/**")
    keys.to("Payload, as JSON")
    keys.press("Control+A")
    page.keyboard.type('{"name": "Testville"}')
    keys.to("Save and retry")
    keys.press("Enter")
    page.get_by_text("The payload was changed and the job retried.").wait_for()
    job.refresh_from_db()
    assert (job.status, job.payload) == ("pending", {"name": "Testville"})
    # A button that asks: Escape takes it back, a second press does it.
    keys.to("Cancel job")
    keys.press("Enter")
    assert page.evaluate(NAME) == "Cancel this job for good?"
    keys.press("Escape")
    assert page.evaluate(NAME) == "Cancel job"
    keys.press("Enter", "Enter")
    page.locator(".messagelist .success").wait_for()
    job.refresh_from_db()
    assert job.status == "cancelled"


@pytest.fixture
def cities() -> Iterator[None]:
    City.objects.all().delete()
    City.objects.bulk_create(
        City(id=7 * number, name="x", country="NO", latitude=59.9, longitude=10.7, population=1)
        for number in range(1, CITIES + 1)
    )
    yield
    City.objects.all().delete()


WATCH_PERCENT = """() => {
  window.seen = [];
  const look = () => {
    const now = parseFloat(document.querySelector("[data-cell=percent]").textContent);
    if (now !== window.seen.at(-1)) window.seen.push(now);
  };
  new MutationObserver(look).observe(document.querySelector("main"), {subtree: true, childList: true, characterData: true});
}"""


@pytest.mark.usefixtures("cities")
def test_a_range_run_is_watched_from_start_to_end(person: Persons) -> None:
    """Started, paused and resumed on its page; a worker is killed, and others go on where it was."""
    run = BackfillCells.create(concurrency=2, leaf=BackfillCells.leaf, params={"seconds": 0.8})
    page = live(person("Operator").open(f"/admin/ranges/rangerun/{run.id}/"))
    assert "Not started" in page.inner_text("main")
    with working("--concurrency", "3") as one, working("--concurrency", "3") as other:
        page.get_by_role("button", name="Start").click()
        page.locator("#drawing[data-painted]").wait_for()
        percent = page.locator("[data-cell=percent]")
        expect(percent).not_to_have_text("0 %")
        page.get_by_role("button", name="Pause", exact=True).click()
        page.locator(".titles .state-paused").wait_for()
        run.refresh_from_db()
        assert run.status == "paused"
        assert City.objects.filter(cell="").exists()
        page.get_by_role("button", name="Resume").click()
        power_cut(eventually(lambda: holder_of_a_lane(one, other), "a lane at work"))
        live(page)
        page.evaluate(WATCH_PERCENT)
        page.locator(".titles .state-completed").wait_for(timeout=60_000)
        expect(percent).to_have_text("100 %")
    assert not City.objects.filter(cell="").exists()
    seen = page.evaluate("window.seen")
    assert seen == sorted(seen), "what is done stays done"
    for event in ("range.completed", "node.stale", "range.resumed", "range.paused"):
        expect(page.locator("[data-part=log]")).to_contain_text(event)
    page.get_by_role("link", name="Verify").click()
    assert "Both proofs hold, and nothing is left" in page.inner_text("#proof")


def holder_of_a_lane(*workers: Running) -> Running | None:
    lanes = Job.objects.filter(type="ranges.lane", status="processing").values("worker_id")
    pids = set(Worker.objects.filter(id__in=lanes).values_list("pid", flat=True))
    return next((each for each in workers if pids & {one.pid for one in tree(each)}), None)


def test_a_webhook_is_made_tested_and_sent_again(person: Persons) -> None:
    boss = person("Supervisor")
    page = boss.open("/admin/jobs/webhook/")
    with receiving() as receiver, working(COPPICE_WEBHOOK_ALLOW="127.0.0.0/8"):
        page.get_by_label("Name").fill("ops")
        page.get_by_label("Address", exact=True).fill("https://169.254.169.254/latest")
        page.get_by_role("button", name="Make the webhook").click()
        expect(page.get_by_role("alert")).to_contain_text("private network")
        page.get_by_label("Address", exact=True).fill(receiver.url)
        page.get_by_role("button", name="Make the webhook").click()
        secret = page.locator("#secret").inner_text()
        page.get_by_role("link", name="I have it").click()

        beside = live(boss.open("/admin/jobs/webhook/"))
        last = beside.locator("[data-cell=last]")
        receiver.codes = [200, 500]
        page.get_by_role("button", name="Send a test").click()
        live(page)
        page.evaluate("window.stays = true")
        row = page.locator("tr[data-row]", has_text="webhook.test")
        expect(row.locator("[data-cell=status]")).to_contain_text("delivered")
        row.get_by_text("What it said").click()
        expect(row).to_contain_text("thank you")
        assert page.evaluate("window.stays")
        expect(last).to_contain_text("delivered")

        row.get_by_role("button", name="Send again").click()
        second = page.locator("tr[data-row]").first
        expect(second.locator("[data-cell=answer]")).to_contain_text("answered 500")
        expect(second.locator("[data-cell=status]")).to_contain_text("pending")
        expect(last).to_contain_text("pending")
        live(page)
    [first, again] = receiver.got
    for _, headers, body in (first, again):
        assert documented_check()(secret, headers["Coppice-Signature"], body)
    assert first[1]["Coppice-Delivery"] != again[1]["Coppice-Delivery"]
    assert json.loads(first[2])["facts"] == json.loads(again[2])["facts"]
    page.get_by_role("button", name="Delete…").click()
    page.get_by_role("button", name="Delete the webhook").click()
    page.get_by_text("No webhooks. Make one below.").wait_for()
