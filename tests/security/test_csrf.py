"""Nobody acts with a session by accident: every change needs a CSRF token, and none is a GET."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from rest_framework.test import APIClient

from jobs import tokens
from tests.factories import make_job, make_queue, make_schedule, make_worker
from tests.security.people import person
from tests.security.routes import Route, routes

pytestmark = pytest.mark.django_db

WRITING = ("POST", "PUT", "PATCH", "DELETE")
ROUTES = routes()
API = [route for route in ROUTES if hasattr(route.view_class, "needs") and "api" in route.pattern]
ADMIN = [route for route in ROUTES if route.pattern.startswith("admin/")]
SAID = "CSRF Failed: CSRF cookie not set."


def methods(route: Route) -> list[str]:
    return [method for method in WRITING if hasattr(route.view_class, method.lower())]


@pytest.fixture
def browser() -> Client:
    client = Client(enforce_csrf_checks=True)
    client.force_login(person(superuser=True))
    return client


@pytest.fixture
def csrf(browser: Client) -> str:
    text = browser.get("/admin/password_change/").content.decode()
    [token] = set(re.findall(r'name="csrfmiddlewaretoken" value="([^"]+)"', text))
    return str(token)


def test_there_is_something_to_test() -> None:
    assert sum(len(methods(route)) for route in API) >= 12
    assert len(ADMIN) >= 40


@pytest.mark.parametrize("route", API, ids=lambda route: route.pattern)
def test_the_api_takes_no_change_from_a_session_alone(browser: Client, route: Route) -> None:
    for method in methods(route):
        response = browser.generic(method, route.path, "{}", content_type="application/json")
        assert (response.status_code, response.json()) == (403, {"detail": SAID}), method


def test_with_the_csrf_token_it_does(browser: Client, csrf: str) -> None:
    sent: dict[str, Any] = {"data": "{}", "content_type": "application/json"}
    refused = browser.post("/api/v1/jobs", **sent, headers={"X-CSRFToken": "x" * 64})
    assert refused.status_code == 403
    accepted = browser.post("/api/v1/jobs", **sent, headers={"X-CSRFToken": csrf})
    assert "type" in accepted.json()


def test_from_another_site_it_does_not_even_with_the_token(browser: Client, csrf: str) -> None:
    for headers in ({"Origin": "https://evil.example.net"}, {"Origin": "null"}):
        response = browser.post(
            "/api/v1/jobs",
            "{}",
            content_type="application/json",
            headers={"X-CSRFToken": csrf, **headers},
        )
        assert response.status_code == 403
    response = browser.post(
        "/api/v1/jobs",
        "{}",
        content_type="application/json",
        secure=True,
        headers={"X-CSRFToken": csrf, "Referer": "https://evil.example.net/"},
    )
    assert response.status_code == 403


def test_a_form_of_another_site_cannot_post_json() -> None:
    """A page elsewhere can send these types without asking first; the API does not read them."""
    _, key = tokens.create(person(superuser=True), "test")
    client = APIClient(headers={"Authorization": f"Token {key}"})
    for type in (
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
    ):
        response = client.generic("POST", "/api/v1/jobs", '{"type": "test"}', content_type=type)
        assert response.status_code == 415


def test_a_token_needs_no_csrf_token_and_wins_over_a_session(browser: Client) -> None:
    _, key = tokens.create(person("Viewer"), "test")
    headers = {"Authorization": f"Token {key}"}
    sent: dict[str, Any] = {"data": "{}", "content_type": "application/json"}
    response = browser.post("/api/v1/jobs", **sent, headers=headers)
    # Not refused for CSRF, but as the viewer whose token it is.
    assert response.status_code == 403
    assert "CSRF" not in response.json()["detail"]


@pytest.mark.parametrize("route", ADMIN, ids=lambda route: route.pattern)
def test_the_admin_takes_no_change_without_a_csrf_token(browser: Client, route: Route) -> None:
    for method in WRITING:
        assert browser.generic(method, route.path).status_code == 403, method


def test_signing_in_needs_one_too() -> None:
    client = Client(enforce_csrf_checks=True)
    assert client.post("/admin/login/", {"username": "a", "password": "b"}).status_code == 403


STATE = """
SELECT (SELECT string_agg(j::text, '' ORDER BY id) FROM jobs_job j),
    (SELECT string_agg(s::text, '' ORDER BY id) FROM jobs_schedule s),
    (SELECT string_agg(q::text, '' ORDER BY name) FROM jobs_queue q),
    (SELECT string_agg(w::text, '' ORDER BY id) FROM jobs_worker w),
    (SELECT string_agg(t::text, '' ORDER BY id) FROM jobs_apitoken t),
    (SELECT count(*) FROM jobs_auditentry), (SELECT count(*) FROM jobs_bulkoperation),
    (SELECT count(*) FROM ranges_rangerun), (SELECT count(*) FROM auth_user)
"""


def test_looking_changes_nothing() -> None:
    """GET of every route, with whatever a form would send, on rows that there are."""
    boss = person(superuser=True)
    tokens.create(boss, "test")
    ids = {
        "jobs/": str(make_job("dead").id),
        "jobs/job/": str(make_job().id),
        "schedules/": str(make_schedule().id),
        "queues/": make_queue().name,
        "workers/": str(make_worker().id),
    }
    client = Client()
    client.force_login(boss)

    def state() -> Any:
        with connection.cursor() as cursor:
            cursor.execute(STATE)
            return cursor.fetchone()

    before = state()
    tried = 0
    for route in ROUTES:
        if "stream" in route.pattern:
            continue
        path = route.path
        for start, id in ids.items():
            head, found, rest = route.pattern.partition(f"{start}<")
            if found:
                path = f"/{head}{start}{id}{rest.partition('>')[2]}"
        data = {"action": "purge_jobs", "_selected_action": ids["jobs/"], "confirmed": "yes"}
        client.head(path)
        query = {**data, "post": "yes", "_method": "DELETE", "method": "POST"}
        client.get(path, query, headers={"X-HTTP-Method-Override": "DELETE"})
        tried += 1
    assert tried > 80
    assert state() == before
