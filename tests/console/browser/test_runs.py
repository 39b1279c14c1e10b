"""A range run on an open page: painted as it goes, zoomed, and read by keys."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from ranges.models import RangeRun
from tests.console.browser.conftest import Person
from tests.console.run_scenery import SIZE, busy, failed, make_node, make_run

type Persons = Callable[..., Person]

LIST = "/admin/ranges/rangerun/"


def page_of(run: RangeRun) -> str:
    return f"{LIST}{run.id}/"


def drawn(page: Any) -> Any:
    page.locator("#drawing[data-painted]").wait_for()
    return page


def until(page: Any, fact: str, *, seconds: float = 90) -> None:
    """Wait for a fact of the page. Playwright's own way needs `eval`, which the policy refuses."""
    give_up_at = time.monotonic() + seconds
    while not page.evaluate(f"() => {fact}"):
        assert time.monotonic() < give_up_at, fact
        page.wait_for_timeout(40)


def words(page: Any) -> str:
    return str(page.locator("#window-words").inner_text())


def share_painted(page: Any, y: int) -> dict[str, float]:
    """How much of a line of the canvas has which colour, by the page's own names of them."""
    return dict(
        page.evaluate(
            """(y) => {
              const canvas = document.getElementById("canvas");
              const ratio = canvas.width / canvas.clientWidth;
              const line = canvas.getContext("2d").getImageData(0, Math.round(y * ratio), canvas.width, 1).data;
              const probe = document.createElement("canvas").getContext("2d");
              const root = document.querySelector("main");
              const named = {};
              for (const name of ["good", "bad", "busy", "calm", "sunk"]) {
                const each = document.createElement("i");
                each.style.color = `var(--${name})`;
                root.append(each);
                probe.fillStyle = getComputedStyle(each).color;
                each.remove();
                probe.fillRect(0, 0, 1, 1);
                named[name] = probe.getImageData(0, 0, 1, 1).data.join();
              }
              const found = {good: 0, bad: 0, busy: 0, calm: 0, sunk: 0};
              for (let at = 0; at < line.length; at += 4) {
                const colour = line.slice(at, at + 4).join();
                for (const [name, wanted] of Object.entries(named)) if (colour === wanted) found[name] += 4 / line.length;
              }
              return found;
            }""",
            y,
        )
    )


def test_what_changes_is_painted_while_one_looks(person: Persons) -> None:
    from jobs import events

    run = make_run(lo=0, hi=1_000)
    node = make_node(run, 0, 1_000)
    page = drawn(person("Viewer").open(page_of(run)))
    assert share_painted(page, 10)["good"] == 0
    node.delete()
    make_node(run, 0, 499, (499, "processed"))
    failed(run, 499)
    make_node(run, 500, 1_000)
    events.emit("range.stats_updated", run_id=str(run.id), done=499, failed=1)
    until(page, "document.querySelector('[data-cell=done]').textContent === '499'")
    until(page, "Number(document.getElementById('drawing').dataset.painted) > 1")
    found = share_painted(page, 12)
    assert found["good"] == pytest.approx(0.5, abs=0.02)
    assert 0 < found["bad"] < 0.02, "one failed key of a thousand is seen"


def test_zooming_by_hand_by_keys_and_by_address(person: Persons) -> None:
    run = busy()
    who = person("Operator", viewport={"width": 1_440, "height": 1_000})
    page = drawn(who.open(page_of(run)))
    stage = page.locator("#stage")
    box = stage.bounding_box()
    # A drag over a quarter of the drawing shows that quarter, and the address says which.
    page.mouse.move(box["x"] + box["width"] / 4, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 60, steps=4)
    page.mouse.up()
    until(page, "location.hash.startsWith('#from=125')")
    assert "25.0 % of the range" in words(page)
    until(page, "document.querySelector('[data-part=table] caption').textContent.startsWith('125')")
    # Keys: further in, a move to the right, all of it.
    stage.focus()
    page.keyboard.press("+")
    until(page, "document.getElementById('window-words').textContent.includes('12.5 %')")
    before = words(page)
    page.keyboard.press("ArrowRight")
    until(page, f"document.getElementById('window-words').textContent !== {json.dumps(before)}")
    page.keyboard.press("Home")
    until(page, "location.hash === ''")
    assert words(page) == "whole range"
    # Ctrl and the wheel zoom, around the pointer.
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 60)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -200)
    page.keyboard.up("Control")
    until(page, "document.getElementById('window-words').textContent.includes('50.0 %')")
    # The next failure; a block by keys; Enter goes into it, Esc leaves it.
    page.keyboard.press("Home")
    until(page, "location.hash === ''")
    page.keyboard.press("n")
    until(page, "location.hash.startsWith('#from=')")
    page.keyboard.press("Home")
    until(page, "location.hash === ''")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert page.locator('[data-field="path"]').inner_text() == "L, 1"
    page.keyboard.press("Enter")
    until(page, "location.hash === '#from=0&to=25000000'")
    page.keyboard.press("Escape")
    assert page.locator(".picked dl").is_hidden()
    # The address alone shows the same.
    again = drawn(who.open(f"{page_of(run)}#from=8000000&to=12000000"))
    until(again, "document.getElementById('window-words').textContent.includes('8.0 %')")
    assert "8,000,000 to 12,000,000" in words(again)


def test_a_row_of_the_worklist_leads_to_its_part_of_the_drawing(person: Persons) -> None:
    run = busy()
    page = drawn(person("Operator").open(page_of(run)))
    row = page.locator("[data-part=work] tbody tr").first
    row.locator("td").nth(1).click()
    until(page, "location.hash.startsWith('#from=')")
    assert page.evaluate("document.activeElement.id") == "stage"
    # The tab stays the one that was chosen, whatever comes first by now.
    page.get_by_role("link", name="Skipped").click()
    drawn(page)
    page.locator("[data-part=work] a.show").first.click()
    until(page, "location.hash.startsWith('#from=')")
    assert page.get_by_role("link", name="Skipped").get_attribute("aria-current") == "true"


def test_new_events_wait_while_somebody_reads_them(person: Persons) -> None:
    from jobs import events

    run = make_run(lo=0, hi=1_000)
    make_node(run, 0, 1_000)
    page = drawn(person("Viewer").open(page_of(run)))
    events.emit("range.retuned", run_id=str(run.id), concurrency=3)
    until(page, "document.querySelector('.run-log')?.textContent.includes('range.retuned')")
    page.get_by_label("Follow").uncheck()
    events.emit("range.paused", run_id=str(run.id), reason="the replicas lag")
    page.get_by_role("button", name="1 new").click()
    until(page, "document.querySelector('.run-log li').textContent.includes('the replicas lag')")
    page.get_by_label("Follow").check()
    page.mouse.move(0, 0)
    page.locator("body").click(position={"x": 1, "y": 1})
    events.emit("range.resumed", run_id=str(run.id))
    until(page, "document.querySelector('.run-log li').textContent.includes('range.resumed')")


def test_the_drawing_is_in_the_theme_and_says_itself_in_words(person: Persons) -> None:
    run = busy()
    for scheme in ("light", "dark"):
        who = person("Operator", color_scheme=scheme)
        page = drawn(who.open(page_of(run)))
        found = share_painted(page, 10)
        assert found["good"] > 0.1
        assert found["calm"] > 0.01
        assert who.serious(page) == []
        page.locator("#twin > summary").click()
        assert page.locator("[data-part=table] tbody tr").count() == 20
        page.locator("[data-part=table] tbody a").nth(1).click()
        until(page, "location.hash.startsWith('#from=2500000')")


def test_without_script_the_table_zooms_and_buttons_ask(person: Persons) -> None:
    run = busy()
    page = person("Operator", java_script_enabled=False).open(page_of(run))
    page.get_by_role("link", name="2,500,000", exact=True).click()
    assert "2500000 to 5000000" in page.inner_text("[data-part=table] caption").replace(",", "")
    page.get_by_role("button", name="Cancel run").click()
    assert "Ends shop.BackfillUsers for good" in page.inner_text("main")
    page.get_by_role("button", name="Cancel run").click()
    run.refresh_from_db()
    assert run.status == "cancelled"


def test_the_list_follows_what_happens(person: Persons) -> None:
    from ranges import lifecycle

    run = make_run(lo=0, hi=SIZE)
    page = person("Viewer").open(LIST)
    page.locator('#live[data-state="live"]').wait_for()
    lifecycle.pause(run, reason="the replicas lag", by="anna")
    page.locator(".state-paused").wait_for()
    assert "the replicas lag" in page.inner_text("main")
