"""What a person has chosen is what the screen shows, on whichever machine they sign in."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from django.contrib.auth.models import User

from jobs import events
from jobs.console import preferences
from jobs.models import Preferences
from tests.console.browser.conftest import Person
from tests.factories import make_history, make_job

type Persons = Callable[..., Person]

LIST = "/admin/jobs/job/"
ZONE = "Asia/Kathmandu"
GREYS = """
() => [...document.querySelectorAll("main *, nav *")].flatMap((each) => {
  const { color, backgroundColor, borderTopColor, outlineColor } = getComputedStyle(each);
  return [color, backgroundColor, borderTopColor, outlineColor];
})
"""
LOOKS = """
() => Object.fromEntries([...document.querySelectorAll(".jobs .state")].map((each) => {
  const { backgroundColor, boxShadow, outlineStyle } = getComputedStyle(each);
  const icon = each.querySelector("use").getAttribute("href");
  return [each.innerText.trim(), [backgroundColor, boxShadow, outlineStyle, icon].join()];
}))
"""


def background(page: Any) -> str:
    return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))


def saved(page: Any) -> Any:
    """What the browser sends by itself when the theme has changed."""
    return page.expect_response(
        lambda answer: answer.request.method == "POST" and answer.url.endswith("/admin/settings/")
    )


def test_theme_and_zone_are_the_readers_on_every_screen(person: Persons) -> None:
    boss = person("Operator", color_scheme="light", viewport={"width": 390, "height": 844})
    page = boss.open("/admin/settings/")
    light = background(page)
    page.get_by_label("Theme", exact=True).select_option("dark")
    page.get_by_label("Time zone").fill(ZONE)
    page.get_by_role("button", name="Save").click()
    page.get_by_text("Saved how the console looks to you.").wait_for()
    dark = background(page)
    assert dark != light
    assert boss.serious(page) == []

    # Where nothing was ever chosen, and no script runs.
    elsewhere = boss.context.browser.new_context(color_scheme="light", java_script_enabled=False)
    elsewhere.add_cookies(boss.context.cookies())
    plain = elsewhere.new_page()
    plain.set_default_timeout(60_000)
    plain.goto(f"{boss.origin}{LIST}")
    assert background(plain) == dark
    plain.locator("#theme").click()  # from dark to that of the system
    plain.wait_for_url(f"**{LIST}")
    assert background(plain) == light
    elsewhere.close()

    # What the script writes is told in the zone too.
    boss.go(page, "/admin/")
    assert background(page) == light
    page.locator('#live[data-state="live"]').wait_for()
    events.emit("queue.paused", queue="clocks", by="anna")
    line = page.locator("[data-log] li", has_text="clocks").locator("time")
    at = datetime.fromisoformat(line.get_attribute("datetime"))
    assert line.inner_text() == f"{at.astimezone(ZoneInfo(ZONE)):%H:%M:%S}"
    assert page.get_by_text(f"Times are in {ZONE}, UTC+05:45.").count() == 1

    # Django's own admin keeps its theme in the browser: whichever was changed last counts.
    assert page.evaluate("localStorage.getItem('theme')") == "auto"
    page.evaluate("localStorage.setItem('theme', 'dark')")
    with saved(page) as answer:
        boss.go(page, LIST)
    assert answer.value.status == 204
    assert background(page) == dark
    assert Preferences.objects.get(user__username=boss.username).theme == "dark"
    boss.go(page, "/admin/settings/")
    page.get_by_role("button", name="Reset").click()
    page.get_by_text("The console looks as it does at first.").wait_for()
    assert background(page) == light
    assert page.get_by_text("Times are in UTC.").count() == 1


def test_without_colours_states_are_told_by_icon_word_and_pattern(person: Persons) -> None:
    dead = make_job("dead")
    make_history(dead, attempts=2, error="ValueError: bad")
    for trait in ("scheduled", "retrying", "processing", "completed", "cancelled"):
        make_job(trait)
    make_job()  # and no worker for it: the line about health is as bad as can be
    boss = person("Operator")
    user = User.objects.get(username=boss.username)
    preferences.save(user, reduced_colour=True, live=False, density="compact")
    page = boss.open(f"{LIST}?state=all")
    page.locator('#live[data-state="paused"]').wait_for()
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        for path in (f"{LIST}?state=all", "/admin/", f"{LIST}{dead.id}/"):
            boss.go(page, path)
            for colour in page.evaluate(GREYS):
                red, green, blue = re.findall(r"[\d.]+", colour)[:3]
                assert red == green == blue, (path, colour)
            assert boss.serious(page) == [], (theme, path)
        boss.go(page, f"{LIST}?state=all")
        looks = page.evaluate(LOOKS)
        assert {"ready", "scheduled", "retrying", "running", "completed", "dead"} <= set(looks)
        assert len(set(looks.values())) == len(looks), looks
