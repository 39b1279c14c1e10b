"""What strangers may send: each gets a 4xx that says why, changes nothing, and learns nothing."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from asgiref.sync import async_to_sync
from django.core.asgi import get_asgi_application
from django.urls import URLPattern, get_resolver

from jobs import registry
from jobs.models import IdempotencyKey, Job, JobLog, Schedule
from tests.api.conftest import Api
from tests.api.hostile_input import (
    ACCEPTS,
    BODIES,
    BULK_BODIES,
    CHANGES,
    CONTENT_TYPES,
    HUGE,
    IDS,
    QUERIES,
    REASONS,
    TOKENS,
)
from tests.factories import make_edge, make_history, make_job

pytestmark = pytest.mark.django_db

JOBS = "/api/v1/jobs"


@pytest.fixture
def client(api: Api) -> Any:
    made = api("Supervisor")
    made.raise_request_exception = False
    return made


@pytest.fixture(autouse=True)
def _types() -> Iterator[None]:
    @registry.handler("test.any", mask=("secret",))
    def any_payload(payload: Any) -> None: ...

    yield
    registry.remove("test.any")


class Cases:
    """Many cases in one test: all that went wrong is told at its end."""

    def __init__(self) -> None:
        self.wrong: list[str] = []

    def refused(self, case: object, response: Any, *codes: int) -> None:
        code, content = response.status_code, response.content
        is_right = code in codes if codes else 400 <= code < 500
        if response.headers.get("Content-Type", "").startswith("application/json"):
            json.loads(content)
        self.expect(is_right, f"{shown(case)}: {code} {content[:200]!r}")

    def expect(self, is_right: bool, what: str) -> None:
        if not is_right:
            self.wrong.append(what)


@pytest.fixture
def cases() -> Iterator[Cases]:
    made = Cases()
    yield made
    assert not made.wrong, "\n".join(made.wrong)


def shown(case: object) -> str:
    text = case.decode("latin-1") if isinstance(case, bytes) else str(case)
    return text if len(text) < 120 else f"{text[:60]}...{text[-60:]}"


# Ids

OF_ONE = [
    ("get", ""),
    ("patch", ""),
    ("get", "/attempts"),
    ("get", "/logs"),
    ("post", "/run-now"),
    ("post", "/cancel"),
    ("post", "/retry"),
    ("post", "/release"),
    ("delete", "/purge"),
]


def test_what_is_no_jobs_id_is_not_found_on_every_route(client: Any, cases: Cases) -> None:
    for id in IDS:
        for method, rest in OF_ONE:
            body = {"priority": 1} if method == "patch" else None
            response = getattr(client, method)(f"{JOBS}/{id}{rest}", body, format="json")
            cases.refused((method, id, rest), response, 404)
            assert b"script>" not in response.content


# Addresses


def test_bad_parameters_of_a_list_are_refused_by_name(client: Any, cases: Cases) -> None:
    make_job(payload={"secret": "hush-hush"}, type="test.any")
    for query in QUERIES:
        for route in ("", "/dlq"):
            response = client.get(f"{JOBS}{route}?{query}")
            cases.refused((route, query), response, 400)
            cases.expect(bool(response.json()), f"{query} is not told what is wrong")
            assert b"hush-hush" not in response.content


def test_more_parameters_than_django_reads_are_refused(client: Any) -> None:
    assert client.get(f"{JOBS}?" + "&".join(f"a{n}=1" for n in range(2_000))).status_code == 400


def test_a_refusal_names_each_wrong_value(client: Any) -> None:
    found = client.get(f"{JOBS}?priority=7&created_after=x&limit=5").json()
    assert found == {
        "priority": ["must be 1 (high), 2 (medium) or 3 (low)"],
        "created_after": ["is not an ISO 8601 time with an offset"],
    }
    assert client.get(f"{JOBS}?ordering=payload").json() == {
        "ordering": ["is not a parameter of this address"]
    }


def test_no_route_takes_a_parameter_that_it_does_not_know(client: Any, cases: Cases) -> None:
    job = make_job("dead", payload={"secret": "hush"})
    make_history(job, error="hush")
    one = f"/{job.id}"
    routes = [("get", "/stats"), ("get", one), ("get", f"{one}/attempts"), ("get", f"{one}/logs")]
    routes += [("delete", "/dlq"), ("delete", "/empty-dlq"), ("delete", f"{one}/purge")]
    for method, path in routes:
        for name in ("fields", "type", "status", "page", "force", "%00"):
            response = getattr(client, method)(f"{JOBS}{path}?{name}=1")
            cases.refused((method, path, name), response, 400)
    assert Job.objects.count() == 1


def test_a_cursor_of_another_list_does_no_harm(client: Any, cases: Cases) -> None:
    job = make_job("dead")
    make_history(job, attempts=2)
    places = ["x", "n", "p1", "n1", "n" + "9" * 40, "n1~2~3", f"n{job.id}", "n2026-01-01T00:00Z~1"]
    for cursor in [*places, "not base 64", "A" * 10_000]:
        coded = base64.urlsafe_b64encode(cursor.encode()).decode().rstrip("=")
        for path in (f"{JOBS}/{job.id}/attempts", f"{JOBS}/{job.id}/logs", JOBS, f"{JOBS}/dlq"):
            for given in (cursor, coded):
                for sort in ("", "&sort_by=priority") if path.startswith(JOBS + "?") else ("",):
                    response = client.get(path, QUERY_STRING=f"cursor={quote(given)}{sort}")
                    cases.expect(response.status_code in (200, 400), f"{path} {cursor[:50]}")


# Bodies


def untouched() -> None:
    assert not Job.objects.exists()
    assert not Schedule.objects.exists()
    assert not JobLog.objects.exists()
    assert not IdempotencyKey.objects.exists()


def test_a_bad_body_makes_no_job(client: Any, cases: Cases) -> None:
    for body in BODIES:
        for headers in ({}, {"HTTP_IDEMPOTENCY_KEY": "a"}):
            response = client.post(JOBS, body, content_type="application/json", **headers)
            cases.refused(body, response, 400)
    untouched()


def test_a_bad_job_among_many_is_named_by_its_index(client: Any, cases: Cases) -> None:
    good = b'{"type": "test.any"}'
    for body in BODIES:
        many = b'{"jobs": [' + good + b"," + (body or b"null") + b"," + good + b"]}"
        response = client.post(f"{JOBS}/bulk", many, content_type="application/json")
        cases.refused(body, response, 400)
        found = response.json()
        # What is no JSON has no index, and a parent that nobody knows is looked for at the end.
        is_named = list(found.get("jobs", [])) == ["1"]
        is_named = is_named or "JSON" in str(found.get("detail")) or "depends_on" in found
        cases.expect(is_named, f"{shown(body)}: {found}")
    untouched()


def test_a_bad_bulk_body_makes_no_job(client: Any, cases: Cases) -> None:
    for body in BULK_BODIES:
        response = client.post(f"{JOBS}/bulk", body, content_type="application/json")
        cases.refused(body, response, 400)
    untouched()


def test_a_bad_change_changes_nothing(client: Any, cases: Cases) -> None:
    job = make_job()
    before = Job.objects.values().get()
    for body in CHANGES:
        response = client.patch(f"{JOBS}/{job.id}", body, content_type="application/json")
        cases.refused(body, response, 400)
    assert Job.objects.values().get() == before


@pytest.mark.parametrize("action", ["cancel", "run-now", "release", "retry"])
def test_a_bad_body_of_an_action_does_nothing(client: Any, cases: Cases, action: str) -> None:
    traits = {"retry": ["dead"], "release": ["held"]}.get(action, [])
    job = make_job(*traits)
    before = Job.objects.values().get()
    for body in REASONS:
        url = f"{JOBS}/{job.id}/{action}"
        cases.refused(body, client.post(url, body, content_type="application/json"), 400)
    assert Job.objects.values().get() == before


def test_a_bad_reason_deletes_nothing(client: Any, cases: Cases) -> None:
    job = make_job("dead")
    for path in ("dlq", "empty-dlq", f"{job.id}/purge"):
        for reason in ("%00", "x" * 1_001, "a&reason=b"):
            response = client.delete(f"{JOBS}/{path}?reason={reason}")
            cases.refused((path, reason), response, 400)
    assert Job.objects.count() == 1


# Types of content


def test_only_json_is_read(client: Any, cases: Cases) -> None:
    body = b'{"type": "test.any"}'
    for content_type in CONTENT_TYPES:
        for path in (JOBS, f"{JOBS}?x=1", f"{JOBS}/bulk"):
            response = client.generic("POST", path, body, content_type)
            cases.refused((content_type, path), response, 400, 415)
    untouched()


def test_a_charset_that_is_no_text_is_refused_in_front_of_django(cases: Cases) -> None:
    """Django itself raises on these while it reads the headers."""
    from channels.testing import HttpCommunicator

    from jobs.live.routing import http

    application = http(get_asgi_application())
    for charset in (b"zlib", b"rot13", b"base64", b"hex", b"\x00", b"utf-8"):
        headers = [
            (b"content-type", b"application/json; charset=" + charset),
            (b"host", b"testserver"),
        ]
        asked = HttpCommunicator(application, "POST", JOBS, b"{}", headers)
        status = async_to_sync(asked.get_response)()["status"]
        cases.expect(status == (401 if charset == b"utf-8" else 415), f"{charset!r}: {status}")


def test_what_cannot_be_answered_in_the_asked_form_is_a_406(client: Any, cases: Cases) -> None:
    for accept in ACCEPTS:
        response = client.get(JOBS, HTTP_ACCEPT=accept)
        cases.expect(response.status_code in (200, 406), f"{accept[:60]}: {response.status_code}")
    assert client.get(f"{JOBS}?format=xml").status_code in (404, 406)


# Keys


def test_a_bad_idempotency_key_is_refused(client: Any, cases: Cases) -> None:
    for key in ("", " ", "a b", "x" * 201, "ä", "\x00", "a\tb", "\x7f"):
        response = client.post(JOBS, {"type": "test.any"}, format="json", HTTP_IDEMPOTENCY_KEY=key)
        cases.refused(key, response, 400)
        cases.expect("Idempotency-Key" in response.json(), f"{key!r} is not named")
    untouched()


def test_a_bad_token_is_nobody(api: Api, cases: Cases) -> None:
    client = api(None)
    client.raise_request_exception = False
    for header in TOKENS:
        response = client.get(JOBS, HTTP_AUTHORIZATION=header)
        cases.refused(header, response, 401)
        assert response.headers["WWW-Authenticate"].startswith("Token")


# Every route


NOBODY = "0199a1f0-7c3e-7b52-9d1c-3f6f0a4b8e21"


def routes() -> list[str]:
    """Every path of the API, with ids filled in."""
    found = []

    def walk(patterns: Any, before: str) -> None:
        for pattern in patterns:
            path = before + str(pattern.pattern)
            if isinstance(pattern, URLPattern):
                found.append("/" + re.sub(r"<[^>]*>", NOBODY, path))
            elif path.startswith("api/") or not path:
                walk(pattern.url_patterns, path)

    walk(get_resolver().url_patterns, "")
    return [path for path in found if path.startswith("/api/")]


ROUTES = routes()


def test_the_routes_are_found() -> None:
    assert len(ROUTES) > 12
    assert all("<" not in path for path in ROUTES)


METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "TRACE", "FOO")
ELSEWHERE = 501
"""What the live feed answers where the server cannot hold a stream open."""


def test_no_method_of_any_route_answers_with_a_fault(client: Any, cases: Cases) -> None:
    for path in ROUTES:
        for method in METHODS:
            for accept in ("application/json", "text/html"):
                answer = client.generic(method, path, b"{", "application/json", HTTP_ACCEPT=accept)
                cases.expect(
                    answer.status_code < 500 or answer.status_code == ELSEWHERE,
                    f"{method} {path} {accept}: {answer.content[:200]!r}",
                )


def test_every_post_of_every_route_reads_its_idempotency_key(client: Any, cases: Cases) -> None:
    for path in ROUTES:
        if "POST" in client.options(path).headers["Allow"]:
            answer = client.post(path, {}, format="json", HTTP_IDEMPOTENCY_KEY="a b")
            is_named = answer.status_code == 400 and "Idempotency-Key" in answer.json()
            cases.expect(is_named, f"{path}: {answer.status_code} {answer.content[:200]!r}")


def test_no_query_of_any_route_answers_with_a_fault(client: Any, cases: Cases) -> None:
    queries = ["%FF=%FE", "cursor=x", "limit=x", "page=" + HUGE, "ordering=payload", "format=x"]
    charset = "application/json; charset=utf-16"
    for path in ROUTES:
        for query in queries:
            for answer in (
                client.get(f"{path}?{query}"),
                client.post(f"{path}?{query}", b"{}", content_type=charset),
            ):
                cases.expect(
                    answer.status_code < 500 or answer.status_code == ELSEWHERE,
                    f"{path}?{query[:40]}: {answer.content[:200]!r}",
                )


# What is on the wire

COLUMNS = frozenset(
    [
        "id",
        "type",
        "queue",
        "status",
        "state",
        "priority",
        "attempt_count",
        "max_retries",
        "scheduled_at",
        "next_retry_at",
        "due_at",
        "hold_reason",
        "unmet_dependencies",
        "blocked_by",
        "on_parent_failure",
        "parent",
        "child_key",
        "wait_count",
        "snooze_count",
        "lost_count",
        "schedule",
        "schedule_slot",
        "recur_interval",
        "cron",
        "unique_key",
        "progress_done",
        "progress_total",
        "last_error",
        "error_fingerprint",
        "created_at",
        "updated_at",
        "started_at",
        "completed_at",
        "failed_at",
        "cancelled_at",
        "cancel_requested_at",
        "worker_id",
        "lease_epoch",
        "hidden",
    ]
)


def test_lists_and_details_have_these_columns_and_no_others(client: Any) -> None:
    parent, child = make_job("dead"), make_job()
    make_edge(child, parent)
    for row in client.get(JOBS).json()["results"] + client.get(f"{JOBS}/dlq").json()["results"]:
        assert set(row) == COLUMNS
        for blocker in row["blocked_by"]:
            assert set(blocker) == {"id", "type", "status", "kind"}
    detail = client.get(f"{JOBS}/{child.id}").json()
    assert set(detail) == COLUMNS | {"payload", "metadata", "result", "reasons"}
