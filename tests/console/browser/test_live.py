"""What happens elsewhere is on every open page; a socket that breaks heals; nothing moves by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

from jobs import bulk, events, lifecycle
from jobs.filtering import Filters
from jobs.models import Job
from jobs.states import Status
from tests.console.browser.conftest import Person, under_a_moving_hand
from tests.console.browser.relay import Relay
from tests.console.run_scenery import make_node, make_run
from tests.factories import ago, make_job, make_schedule, make_worker
from tests.live.conftest import Server

type Persons = Callable[..., Person]

LIST = "/admin/jobs/job/"
LETTERS = f"{LIST}dead-letters/"


@pytest.fixture
def relay(server: Server) -> Iterator[Relay]:
    made = Relay(server=server.address)
    yield made
    made.close()


def live(page: Any) -> Any:
    page.locator('#live[data-state="live"]').wait_for()
    return page


def standing(page: Any) -> tuple[Any, Any]:
    """The rows with their states, and every number that is kept live."""
    rows = "rows => rows.map((row) => [row.dataset.row, row.dataset.state])"
    counts = page.locator("[data-count], [data-badge]:not([hidden])")
    return page.locator("tr[data-row]").evaluate_all(rows), counts.all_inner_texts()


def test_a_socket_that_is_cut_in_a_burst_heals_and_the_page_equals_a_reload(
    person: Persons, relay: Relay
) -> None:
    ids = [make_job().id for _ in range(120)]
    page = live(person("Viewer", origin=relay.origin).open(f"{LIST}?state=all"))
    lifecycle.cancel_many(ids[:60], by="anna")
    relay.cut()
    lifecycle.cancel_many(ids[60:], by="anna")
    make_job("dead")
    expect(page.locator('tr[data-state="cancelled"]')).to_have_count(50)
    live(page)
    assert len(relay.sockets) >= 2
    expect(page.locator('[data-badge="dead"]')).to_have_text("1")
    rows, counts = standing(page)
    page.reload()
    again, counts_again = standing(page)
    # The dead one is new: it waits to be asked for, and is on the page that was made after it.
    assert again[1:] == rows[: len(again) - 1]
    assert counts_again == counts


def test_where_sockets_are_refused_it_polls_and_says_so(person: Persons, relay: Relay) -> None:
    job = make_job()
    relay.refuses_sockets = True
    boss = person("Viewer", origin=relay.origin)
    page = boss.open(LIST)
    page.locator('#live[data-state="polling"]').wait_for()
    expect(page.locator("#live")).to_have_text("Polling")
    lifecycle.cancel(job, by="anna")
    page.locator(f'tr[data-row="{job.id}"][data-state="cancelled"]').wait_for()
    assert relay.refused >= 3
    # The network was away for a moment; sockets are taken again.
    relay.refuses_sockets = False
    boss.context.set_offline(True)
    page.locator('#live[data-state="offline"]').wait_for()
    boss.context.set_offline(False)
    live(page)
    boss.problems = [text for text in boss.problems if "WebSocket connection" not in text]


def test_what_another_operator_does_is_on_every_open_page(person: Persons) -> None:
    dead, _ = make_job("dead", type="mail"), make_job("dead", type="mail")
    make_job(queue="mail")
    worker = make_worker(name="host:7", beat_at=ago(minutes=-30))  # alive all the time
    schedule = make_schedule(name="nightly", next_slot=ago(minutes=-30))
    run = make_run(lo=0, hi=1_000)
    make_node(run, 0, 1_000)
    operation = bulk.create("retry", Filters(status=Status.FAILED), by="anna")
    places = {
        "overview": "/admin/",
        "ledger": f"{LIST}?state=all",
        "job": f"{LIST}{dead.id}/",
        "letters": LETTERS,
        "queues": "/admin/jobs/queue/",
        "queue": "/admin/jobs/queue/mail/",
        "workers": "/admin/jobs/worker/",
        "worker": f"/admin/jobs/worker/{worker.id}/",
        "schedules": "/admin/jobs/schedule/",
        "schedule": f"/admin/jobs/schedule/{schedule.id}/",
        "runs": "/admin/ranges/rangerun/",
        "run": f"/admin/ranges/rangerun/{run.id}/",
        "operations": "/admin/jobs/bulkoperation/",
        "operation": f"/admin/jobs/bulkoperation/{operation.id}/",
        "audit": "/admin/jobs/auditentry/",
    }
    boss, other = person("Supervisor"), person("Operator")
    at = {name: live(boss.open(path)) for name, path in places.items()}
    for page in at.values():
        page.evaluate("window.stays = true")
    ben = other.open(places["job"])

    ben.get_by_role("button", name="Retry now").click()
    expect(at["overview"].locator('[data-stat="dead"]')).to_have_text("1")
    expect(at["ledger"].locator(f'tr[data-row="{dead.id}"]')).to_have_attribute(
        "data-state", "ready"
    )
    at["job"].get_by_role("button", name="Cancel job").wait_for()
    expect(at["letters"].locator('[data-cell="total"]')).to_have_text("1")

    other.go(ben, "/admin/")
    ben.get_by_role("button", name="Pause mail").click()
    at["overview"].locator(
        '[data-panel="queues"] tr[data-row="mail"]', has_text="paused"
    ).wait_for()
    at["queues"].locator('tr[data-row="mail"].is-paused').wait_for()
    at["queue"].get_by_role("button", name="Resume").wait_for()
    for page in at.values():
        expect(page.locator('[data-badge="paused_queues"]')).to_have_text("1 paused")

    other.go(ben, places["worker"])
    ben.get_by_role("button", name="Stop after current jobs").click()
    ben.get_by_role("button", name="Stop it after its current jobs?").click()
    at["workers"].locator("tr[data-row]", has_text="asked to stop").wait_for()
    at["worker"].get_by_text("Asked to stop").wait_for()

    other.go(ben, places["schedule"])
    ben.get_by_role("button", name="Disable").click()
    at["schedules"].locator("tr.is-off").wait_for()
    at["schedule"].get_by_text("Disabled: it makes no jobs").wait_for()

    other.go(ben, places["run"])
    ben.get_by_role("button", name="Pause", exact=True).click()
    at["runs"].locator("tr .state-paused").wait_for()
    at["run"].locator(".titles .state-paused").wait_for()

    other.go(ben, places["operation"])
    ben.get_by_role("button", name="Pause", exact=True).click()
    at["operations"].locator("tr .state-paused").wait_for()
    at["operation"].get_by_role("button", name="Resume").wait_for()

    new = at["audit"].get_by_role("button", name="6 new: show")
    new.wait_for()
    assert at["audit"].locator("tr[data-row]").count() == 1, "rows come when they are asked for"
    new.click()
    expect(at["audit"].locator("tr[data-row]")).to_have_count(7)
    expect(at["audit"].locator("tr[data-row]").first).to_contain_text("bulk.pause")
    expect(new).to_be_hidden()

    assert all(page.evaluate("window.stays") for page in at.values()), "none was reloaded"


def died(type: str, fingerprint: str) -> Job:
    job = make_job("dead", type=type, error_fingerprint=fingerprint)
    events.emit("job.dlq_entry", job_id=str(job.id), type=type, queue="default", error="bad")
    return job


def test_no_row_moves_under_the_pointer(person: Persons) -> None:
    died("mail", "a" * 16)
    boss = person("Operator")
    letters, ledger = live(boss.open(LETTERS)), live(boss.open(f"{LIST}?state=dead"))
    group = letters.locator("table.letters").get_by_role("link", name="Retry all mail")
    row = ledger.locator("tr[data-row] a").first
    for each in (group, row):
        each.hover()
    before = [each.bounding_box() for each in (group, row)]
    for _ in range(3):
        died("web", "b" * 16)
    four = letters.locator('[data-cell="total"]:text-is("4")')
    under_a_moving_hand(group, four.count, "all four are counted")
    expect(ledger.locator("#show-new")).to_have_text("3 new: show")
    assert [each.bounding_box() for each in (group, row)] == before
    letters.mouse.move(5, 5)
    expect(letters.locator("table.letters tbody tr")).to_have_count(2)
    expect(letters.locator("table.letters tbody tr").first).to_contain_text("web")


AFTER_TWO_FRAMES = """() => new Promise((done) =>
  requestAnimationFrame(() => requestAnimationFrame(() => done(window.moved))))"""


@pytest.mark.parametrize(("motion", "moves"), [("reduce", False), ("no-preference", True)])
def test_what_changes_is_tinted_but_for_whom_motion_is_too_much(
    person: Persons, motion: str, moves: bool
) -> None:
    job = make_job()
    page = live(person("Viewer", reduced_motion=motion).open(f"{LIST}?state=all"))
    page.evaluate("window.moved = false")
    page.evaluate("document.addEventListener('animationstart', () => { window.moved = true; })")
    lifecycle.cancel(job, by="anna")
    page.locator(f'tr[data-row="{job.id}"][data-state="cancelled"]').wait_for()
    assert page.evaluate(AFTER_TWO_FRAMES) is moves
