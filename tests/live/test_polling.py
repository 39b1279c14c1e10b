"""The same frames for those without a socket."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis
from django.test import Client
from jsonschema import Draft202012Validator

from jobs.publishing import STREAM
from tests.live.clients import Site
from tests.live.conftest import Server, make_user

SCHEMA = json.loads(Path("docs/live-schema.json").read_text())
POLLED = Draft202012Validator({**SCHEMA, "oneOf": [{"$ref": "#/$defs/polled"}]})


def poll(site: Site, *topics: str, after: str | None = None) -> Any:
    found = site.poll(*topics, after=after)
    POLLED.validate(found)
    return found


def test_a_poll_tells_what_a_socket_would(site: Site, tell: Callable[..., None]) -> None:
    first: Any = {}
    second: Any = {}
    for _ in range(10):
        first = poll(site, "jobs?queue=a", "workers")
        assert (first["op"], first["feed"], first["events"]) == ("frame", "live", [])
        assert "stats" in first
        tell("job.created", 3, queue="a")
        tell("job.created", 3, queue="b")
        second = poll(site, "jobs?queue=a", after=first["seq"])
        if second["op"] == "frame":  # else the server was held up, and says so
            break
    assert second["prev"] == first["seq"]
    assert [event["queue"] for event in second["events"]] == ["a"] * 3
    assert "stats" not in second
    third = poll(site, "jobs?queue=a", after=second["seq"])
    assert (third["events"], third["seq"]) == ([], second["seq"])


def test_a_poll_after_a_flood_is_bounded_and_counted(site: Site, tell: Callable[..., None]) -> None:
    first = poll(site, "log")
    tell("job.cancelled", 300)
    found = poll(site, "log", after=first["seq"])
    assert len(found["events"]) == 50
    assert found["left_out"] == {"job.cancelled": 250}


def test_a_poll_after_too_long_is_a_resync(
    site: Site, stream: redis.Redis, tell: Callable[..., None]
) -> None:
    first = poll(site, "log")
    tell("job.created", 20)
    stream.xtrim(STREAM, maxlen=3, approximate=False)
    found = poll(site, "log", after=first["seq"])
    assert (found["op"], found["why"]) == ("resync", "too_old")
    assert poll(site, "log", after=found["seq"])["op"] == "frame"


def test_errors_are_hidden_in_polls_too(
    site: Site, viewer: Site, tell: Callable[..., None]
) -> None:
    first = poll(site, "log")
    tell("job.failed", facts={"error": "card 4111"})
    [event] = poll(viewer, "log", after=first["seq"])["events"]
    assert (event["facts"], event["hidden"]) == ({"error": None}, ["error"])
    [event] = poll(site, "log", after=first["seq"])["events"]
    assert event["facts"] == {"error": "card 4111"}


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("", "topics"),
        ("topics=", "topics"),
        ("topics=nothing", "topics"),
        ("topics=job%3A7", "topics"),
        ("topics=log&after=x", "after"),
        ("topics=log&after=", "after"),
        ("&".join(["topics=log"] * 51), "topics"),
    ],
)
def test_a_poll_that_makes_no_sense_is_a_400(query: str, field: str, site: Site) -> None:
    status, found = site.get(f"/api/v1/live?{query}")
    assert status == 400
    assert list(found) == [field]


def test_a_poll_needs_the_permission(
    server: Server, site: Site, key_of: Callable[..., str]
) -> None:
    path = "/api/v1/live?topics=log"
    assert server.site().get(path)[0] == 401
    assert server.site(Authorization=f"Token {key_of()}").get(path)[0] == 403


def test_a_poll_works_without_asgi_and_without_redis(
    client: Client, settings: Any, live_redis_url: str
) -> None:
    client.force_login(make_user("jobs.view_job"))
    found = client.get("/api/v1/live", {"topics": "overview"}).json()
    POLLED.validate(found)
    assert found["feed"] == "live"
    settings.COPPICE_REDIS_URL = "unix:///nowhere/at/all.sock"
    found = client.get("/api/v1/live", {"topics": "overview", "after": found["seq"]}).json()
    POLLED.validate(found)
    assert (found["feed"], found["events"]) == ("away", [])
    assert found["stats"]["total"] >= 0
