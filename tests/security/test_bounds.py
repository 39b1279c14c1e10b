"""How much may come in: bytes of a request, depth of JSON, requests of a user."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client, override_settings
from rest_framework.test import APIClient

from jobs import registry, tokens
from jobs.api.bounds import UserRateThrottle
from jobs.models import Job
from tests.security.people import person

pytestmark = pytest.mark.django_db

MEMORY = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
JSON = "application/json"


@pytest.fixture(autouse=True)
def _handler() -> Iterator[None]:
    registry.handler("bounds.test")(lambda payload: None)
    yield
    registry.remove("bounds.test")
    UserRateThrottle.asleep_until = 0.0


def program(group: str = "Operator") -> Any:
    _, key = tokens.create(person(group), "test")
    return APIClient(headers={"Authorization": f"Token {key}"})


class TestSize:
    @override_settings(COPPICE_MAX_REQUEST_BYTES=1_024)
    def test_what_is_too_large_is_refused_before_it_is_read(self) -> None:
        body = json.dumps({"type": "bounds.test", "payload": {"text": "x" * 1_100}})
        response = program().generic("POST", "/api/v1/jobs", body, content_type=JSON)
        assert response.status_code == 413
        assert response.json() == {"detail": "The request is too large."}
        form = Client().post("/admin/login/", {"username": "x" * 1_100})
        assert form.status_code == 413
        assert b"too large" in form.content

    @override_settings(COPPICE_MAX_REQUEST_BYTES=1_024)
    def test_the_api_refuses_it_in_projects_without_our_middleware_too(self, settings: Any) -> None:
        settings.MIDDLEWARE = [m for m in settings.MIDDLEWARE if "RequestSize" not in m]
        body = json.dumps({"type": "bounds.test", "payload": {"text": "x" * 1_100}})
        response = program().generic("POST", "/api/v1/jobs", body, content_type=JSON)
        assert response.status_code == 413
        assert not Job.objects.exists()

    @pytest.mark.parametrize(
        ("headers", "status"),
        [
            ({"Transfer-Encoding": "chunked", "Content-Length": ""}, 411),
            ({"Content-Length": "-1"}, 400),
            ({"Content-Length": "many"}, 400),
            ({"Content-Length": "9" * 5_000}, 413),
        ],
    )
    def test_a_body_says_how_long_it_is(self, headers: dict[str, str], status: int) -> None:
        response = program().generic(
            "POST", "/api/v1/jobs", "{}", content_type=JSON, headers=headers
        )
        assert response.status_code == status

    def test_ten_thousand_jobs_of_a_kilobyte_fit(self) -> None:
        one = {"type": "bounds.test", "payload": {"text": "x" * 1_000}}
        response = program().post("/api/v1/jobs/bulk", {"jobs": [one] * 10_000}, format="json")
        assert response.status_code == 201
        assert Job.objects.count() == 10_000

    @pytest.mark.parametrize("depth", [2_000, 100_000])
    def test_json_that_is_nested_without_end_is_refused(self, depth: int) -> None:
        body = '{"type": "bounds.test", "payload": ' + "[" * depth + "]" * depth + "}"
        response = program().generic("POST", "/api/v1/jobs", body, content_type=JSON)
        assert response.status_code == 400


class TestRate:
    @pytest.fixture(autouse=True)
    def _one_minute(self, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        settings.CACHES = MEMORY
        settings.COPPICE_API_READS_PER_MINUTE = 4
        settings.COPPICE_API_WRITES_PER_MINUTE = 2
        settings.COPPICE_API_BULK_PER_MINUTE = 1
        cache.clear()
        monkeypatch.setattr("jobs.api.bounds.time.time", lambda: 1_000_000_010.0)

    def test_each_kind_of_request_is_counted_by_itself_and_by_user(self) -> None:
        one, other = program(), program()

        def reads(client: Any) -> int:
            return int(client.get("/api/v1/jobs/stats").status_code)

        def writes(client: Any) -> int:
            return int(client.post("/api/v1/jobs", {}, format="json").status_code)

        assert [reads(one) for _ in range(5)] == [200] * 4 + [429]
        assert [writes(one) for _ in range(3)] == [400, 400, 429]
        made = [one.post("/api/v1/jobs/bulk", {}, format="json") for _ in range(2)]
        assert [response.status_code for response in made] == [400, 429]
        assert 0 < int(made[1]["Retry-After"]) <= 60
        assert reads(other) == 200

    def test_the_next_minute_begins_anew(self, monkeypatch: pytest.MonkeyPatch) -> None:
        client = program()
        asked = [client.get("/api/v1/jobs/stats") for _ in range(5)]
        assert asked[-1].status_code == 429
        monkeypatch.setattr("jobs.api.bounds.time.time", lambda: 1_000_000_070.0)
        assert client.get("/api/v1/jobs/stats").status_code == 200

    @override_settings(COPPICE_API_READS_PER_MINUTE=0)
    def test_none_is_no_limit(self) -> None:
        client = program()
        assert {client.get("/api/v1/jobs/stats").status_code for _ in range(10)} == {200}


@override_settings(COPPICE_API_READS_PER_MINUTE=1)
def test_while_the_cache_is_away_nobody_is_held_up(monkeypatch: pytest.MonkeyPatch) -> None:
    client = program()
    asked: list[str] = []

    class Away:
        """As django-redis answers when it ignores that nothing is there."""

        def incr(self, key: str) -> None:
            asked.append(key)

    monkeypatch.setattr("jobs.api.bounds.cache", Away())
    assert {client.get("/api/v1/jobs/stats").status_code for _ in range(5)} == {200}
    assert len(asked) == 1
