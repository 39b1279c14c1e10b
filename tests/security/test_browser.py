"""Pages in a real browser, under their real policy: nothing is refused, nothing is inline."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from playwright.sync_api import Page

from jobs import tokens
from tests.browsers import CHROMIUM, chromium
from tests.factories import make_job
from tests.security.people import person

SCRIPT = "<img src=x onerror=\"document.title='run'\"><script>document.title='run'</script>"
WATCH = """
window.refused = [];
document.addEventListener("securitypolicyviolation", (e) =>
    window.refused.push(`${e.effectiveDirective} ${e.blockedURI} ${e.sourceFile}:${e.lineNumber}`));
"""

PUT_IN = """
(html) => new Promise((done) => {
    document.addEventListener("securitypolicyviolation", (e) => done(e.effectiveDirective));
    const place = document.createElement("div");
    document.body.append(place);
    place.innerHTML = html;
})
"""

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not CHROMIUM.exists(), reason="/usr/bin/chromium is not installed"),
    pytest.mark.django_db(transaction=True),
]


@pytest.fixture
def page(live_server: Any) -> Iterator[Page]:
    """A browser in which a superuser is signed in."""
    client = Client()
    client.force_login(person(superuser=True))
    cookie = client.cookies[settings.SESSION_COOKIE_NAME].value
    with chromium() as browser:
        context = browser.new_context(base_url=live_server.url)
        context.add_init_script(WATCH)
        context.add_cookies(
            [{"name": settings.SESSION_COOKIE_NAME, "value": cookie, "url": live_server.url}]
        )
        yield context.new_page()


def refused(page: Page) -> Any:
    return page.evaluate("window.refused")


def test_pages_work_under_their_policy(page: Page, live_server: Any) -> None:
    job = make_job("dead", last_error=SCRIPT, payload={SCRIPT: SCRIPT}, unique_key=SCRIPT)
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))

    # Swagger UI draws the whole document.
    page.goto("/api-docs")
    page.locator(".opblock").first.wait_for()
    assert page.locator(".opblock").count() > 10
    assert refused(page) == []

    # The browsable API, with markup in what it shows.
    page.set_extra_http_headers({"Accept": "text/html"})
    page.goto(f"/api/v1/jobs/{job.id}")
    page.locator(".response-info").wait_for()
    assert SCRIPT.split("<script>")[1] in page.locator(".response-info").inner_text()
    assert refused(page) == []
    assert page.title() != "run"
    page.set_extra_http_headers({})

    # A token is made, in the way a person does it.
    page.goto("/admin/jobs/apitoken/add/")
    page.fill("input[name=name]", "of a browser")
    page.fill("input[name=username]", person("Viewer", "vera").username)
    page.click("input[name=_save], button[name=_save]")
    key = page.locator("#key").input_value()
    found = tokens.find(key)
    assert found is not None
    assert found.user.username == "vera"
    assert refused(page) == []
    assert key not in page.url

    # A page of another site can neither frame ours nor read the API.
    page.goto("about:blank")
    frame = f"<iframe src='{live_server.url}/admin/'></iframe>"
    page.set_content(frame)
    page.wait_for_load_state("networkidle")
    assert "Coppice" not in page.frames[-1].content()
    assert errors == []


def test_what_is_inline_does_not_run(page: Page) -> None:
    """The policy would stop a script even where escaping failed."""
    page.goto("/admin/jobs/apitoken/")
    stopped = page.evaluate(PUT_IN, SCRIPT)
    assert stopped == "script-src-attr"
    assert page.title() != "run"
