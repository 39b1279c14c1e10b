"""The shell around every page: navigation, themes, the chip, keys, and life without script."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jobs import lifecycle
from tests.console.browser.conftest import Person
from tests.factories import make_history, make_job, make_queue, make_worker

type Persons = Callable[..., Person]

LIST = "/admin/jobs/job/"


def everything() -> dict[str, str]:
    """A page of each kind, with rows in every state."""
    dead = make_job("dead", payload={"a": {"b": [1, None, True]}}, metadata={"x": 2**70})
    make_history(dead, attempts=3, error="ValueError: bad")
    for trait in ("scheduled", "retrying", "held", "processing", "completed", "cancelled"):
        make_job(trait)
    make_job()
    make_worker()
    make_queue(name="paused", paused=True)
    job = f"{LIST}{dead.id}/"
    return {
        "overview": "/admin/",
        "list": LIST,
        "dead": f"{LIST}?state=dead&priority=9&q=error:bad",
        "none": f"{LIST}?state=held&queue=none",
        "job": job,
        "payload": f"{job}payload/",
        "bulk": f"{LIST}bulk/?action=purge&state=dead",
        "users": "/admin/auth/user/",
        "user": "/admin/auth/user/add/",
        "password": "/admin/password_change/",
    }


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_page_shuts_anybody_out(person: Persons, theme: str) -> None:
    boss = person(color_scheme=theme)
    page = boss.open("/admin/")
    pages = everything()
    for name in ("dead", "job", "bulk", "user"):
        boss.go(page, pages[name])
        assert boss.serious(page) == [], name


def test_no_page_breaks_the_policy_or_is_wider_than_a_narrow_screen(person: Persons) -> None:
    boss = person(viewport={"width": 320, "height": 800})
    page = boss.open("/admin/")
    for name, path in everything().items():
        boss.go(page, path)
        assert page.evaluate("window.violations") == [], name
        for width in (1024, 320):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (name, width)
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


def test_without_a_socket_the_page_polls(person: Persons) -> None:
    job = make_job()
    boss = person()
    boss.context.add_init_script(
        "window.WebSocket = class { constructor() { throw new Error(); } };"
    )
    page = boss.open(LIST)
    page.locator('#live[data-state="polling"]').wait_for()
    lifecycle.cancel(job, by="anna")
    page.locator(f'tr[data-row="{job.id}"][data-state="cancelled"]').wait_for()


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
