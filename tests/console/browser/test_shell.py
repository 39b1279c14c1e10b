"""The shell around every page: navigation, themes, the chip, keys, and life without script."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jobs import lifecycle
from tests.console.browser.conftest import Person
from tests.factories import make_job

type Persons = Callable[..., Person]

LIST = "/admin/jobs/job/"


def test_a_narrow_screen_has_the_navigation_behind_a_button(person: Persons) -> None:
    page = person(viewport={"width": 320, "height": 800}).open("/admin/")
    page.get_by_role("link", name="Menu").click()
    page.get_by_role("navigation", name="Console").get_by_role("link", name="Jobs").click()
    page.wait_for_url(f"**{LIST}")


def test_what_one_may_not_see_is_not_in_the_navigation(person: Persons) -> None:
    nobody = person("").open("/admin/")
    assert nobody.get_by_role("link", name="Jobs").count() == 0
    viewer = person("Viewer").open("/admin/")
    assert viewer.get_by_role("link", name="Jobs", exact=True).count() == 1
    assert viewer.get_by_role("link", name="Users").count() == 0
    boss = person().open("/admin/")
    assert boss.get_by_role("link", name="Users").count() == 1


def test_badges_follow_what_happens(person: Persons) -> None:
    page = person("Viewer").open("/admin/")
    dead = page.locator('[data-badge="dead"]')
    paused = page.locator('[data-badge="paused_queues"]')
    page.locator('#live[data-state="live"]').wait_for()
    assert not dead.is_visible()
    make_job("dead")
    lifecycle.pause_queue("mail", by="anna")
    dead.wait_for(state="visible")
    paused.wait_for(state="visible")
    assert dead.inner_text() == "1"
    assert paused.inner_text() == "1 paused"


def test_the_chip_says_how_news_come_and_pauses_them(person: Persons) -> None:
    boss = person()
    page = boss.open(LIST)
    chip = page.locator("#live")
    page.locator('#live[data-state="live"]').wait_for()
    chip.click()
    page.locator('#live[data-state="paused"]').wait_for()
    assert chip.inner_text() == "Paused"
    page.keyboard.press("p")
    page.locator('#live[data-state="live"]').wait_for()
    boss.context.set_offline(True)
    page.locator('#live[data-state="offline"]').wait_for()
    boss.context.set_offline(False)
    page.locator('#live[data-state="live"]').wait_for()


def test_the_theme_is_kept_and_drawn_before_the_page(person: Persons) -> None:
    page = person(color_scheme="light").open(LIST)

    def background() -> Any:
        return page.evaluate("getComputedStyle(document.body).backgroundColor")

    light = background()
    button = page.locator("#theme")
    button.click()
    button.click()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    dark = background()
    assert dark != light
    page.reload()
    assert background() == dark


def test_keys_lead_to_pages_and_can_be_switched_off(person: Persons) -> None:
    page = person().open("/admin/")
    page.keyboard.press("g")
    page.keyboard.press("j")
    page.wait_for_url(f"**{LIST}")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "find"
    page.keyboard.type("g j ?")
    assert page.locator("#find").input_value() == "g j ?"
    page.locator("h1").click()
    page.keyboard.press("?")
    page.locator("dialog#keys[open]").wait_for()
    with page.expect_response("**/admin/settings/"):
        page.locator("#keys-enabled").uncheck()
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("o")
    assert page.url.endswith(LIST)
    page.reload()
    page.keyboard.press("?")
    assert page.locator("dialog#keys[open]").count() == 0


def test_everything_can_be_read_and_sent_without_script(person: Persons) -> None:
    job = make_job("dead")
    boss = person(java_script_enabled=False)
    page = boss.open(f"{LIST}?state=dead")
    page.locator('select[name="priority"]').select_option("2")
    page.get_by_role("button", name="Apply").click()
    page.locator(f'tr[data-row="{job.id}"] a').first.click()
    page.get_by_role("button", name="Purge").click()
    page.get_by_role("button", name="Purge").click()
    assert "Purged test" in page.inner_text(".messagelist")
    assert "priority=2" in page.url
    boss.pages.clear()


def test_a_page_that_was_on_its_way_does_not_undo_a_change_of_theme(person: Persons) -> None:
    boss = person(color_scheme="light")
    page = boss.open(LIST)
    old: list[str] = []

    def answer_late(route: Any) -> None:
        """With the page as it was before the change."""
        route.fulfill(response=answer, body=old[0])

    answer = page.request.get(page.url)
    old.append(answer.text())
    with page.expect_response(lambda found: found.status == 204):
        page.locator("#theme").click()
    page.route(f"**{LIST}", answer_late)
    # It was asked for before the server had the change.
    page.evaluate("localStorage.setItem('coppice:theme-sent', String(Date.now() + 60_000))")
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    boss.problems.clear()  # a page that was put in is not let at the socket
