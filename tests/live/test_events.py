"""Server-sent events, over a real daphne."""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis
from channels.testing import HttpCommunicator, WebsocketCommunicator
from django.core.asgi import get_asgi_application
from django.db import connections
from django.test import Client, RequestFactory
from jsonschema import Draft202012Validator

from jobs import enqueue, lifecycle
from jobs.live import gate
from jobs.live.routing import application_with
from jobs.publishing import STREAM
from tests.live.clients import Closed, EventSource, Refused, Site
from tests.live.conftest import Server, make_user, settled

SCHEMA = json.loads(Path("docs/live-schema.json").read_text())


def part_of(name: str) -> Draft202012Validator:
    return Draft202012Validator({**SCHEMA, "oneOf": [{"$ref": f"#/$defs/{name}"}]})


def refusal(knock: Callable[[], object]) -> Refused:
    with pytest.raises(Refused) as caught:
        knock()
    return caught.value


def ending(events: EventSource) -> str:
    """What the server said last, when it has ended the response itself."""
    try:
        while True:
            events.hear()
    except Closed:
        return events.comments[-1] if events.comments else ""


def test_what_lifecycle_functions_do_is_told_as_it_happens(site: Site) -> None:
    with site.events("event=job.*") as events:
        ready = events.hear()
        assert (ready.name, ready.data["feed"]) == ("ready", "live")
        job = enqueue("send_email", {"to": "a@example.org", "subject": "s", "text": "secret-7"})
        created = events.hear()
        lifecycle.cancel(job.id, by="anna")
        cancelled = events.hear()
    for event, name in ((created, "job.created"), (cancelled, "job.cancelled")):
        part_of("event").validate(event.data)
        assert event.name == event.data["name"] == name
        assert event.id == event.data["seq"]
        assert event.data["job_id"] == str(job.id)
    assert "secret-7" not in json.dumps([created.data, cancelled.data])


def test_proxies_are_told_to_let_it_through(site: Site) -> None:
    with site.events() as events:
        headers = events.wire.headers
        assert headers["content-type"] == "text/event-stream; charset=utf-8"
        assert headers["x-accel-buffering"] == "no"
        assert {"no-cache", "no-store", "no-transform"} <= set(headers["cache-control"].split(", "))
        assert headers["x-content-type-options"] == "nosniff"
        assert "content-encoding" not in headers
        assert "content-length" not in headers
        events.hear("ready")
        assert 1_000 <= (events.retry or 0) <= 3_000


def test_the_seeds_address_answers_too(site: Site, tell: Callable[..., None]) -> None:
    with EventSource(site.address, site.host, "/api/jobs/stream", site.headers) as events:
        events.hear("ready")
        tell("job.created")
        assert events.hear("job.created")


def test_filters_let_through_what_matches_all_of_them(
    site: Site, tell: Callable[..., None]
) -> None:
    wanted = "0198c0de-0000-7000-8000-000000000001"
    with (
        site.events("queue=a,b&type=mail") as by_place,
        site.events("event=job.c*&event=queue.*") as by_name,
        site.events(f"job={wanted}") as by_job,
    ):
        for each in (by_place, by_name, by_job):
            each.hear("ready")
        tell("job.started", queue="a", type="resize")
        tell("job.completed", queue="c", type="mail")
        tell("job.started", queue="b", type="mail", job_id=wanted)
        tell("queue.paused", queue="b")
        tell("job.created", queue="a", type="mail")
        places = by_place.hear_until(lambda event: event.name == "job.created")
        named = by_name.hear_until(lambda event: event.name == "job.created")
        assert [event.name for event in places] == ["job.started", "job.created"]
        assert [event.name for event in named] == ["job.completed", "queue.paused", "job.created"]
        assert by_job.hear().data["job_id"] == wanted


def test_stats_come_where_nothing_narrower_is_asked_for(
    site: Site, tell: Callable[..., None]
) -> None:
    with site.events() as all_of_it, site.events("event=stats.*") as alone:
        part_of("stats").validate(all_of_it.hear("stats.updated").data)
        tell("job.created")
        assert alone.hear("stats.updated", "job.created").name == "stats.updated"
    with site.events("queue=a") as narrow:
        narrow.hear("ready")
        tell("job.created", 5, queue="b")
        tell("job.created", queue="a")
        assert narrow.hear().name == "job.created"


def test_errors_are_hidden_from_those_who_may_not_see_payloads(
    site: Site, viewer: Site, tell: Callable[..., None]
) -> None:
    with site.events() as open_, viewer.events() as hidden:
        for each in (open_, hidden):
            each.hear("ready")
        tell("job.failed", facts={"error": "card 4111"})
        assert open_.hear("job.failed").data["facts"] == {"error": "card 4111"}
        event = hidden.hear("job.failed").data
        part_of("event").validate(event)
        assert (event["facts"], event["hidden"]) == ({"error": None}, ["error"])


# Coming back


@pytest.mark.parametrize("way", ["header", "parameter"])
def test_who_comes_back_is_told_what_was_missed(
    way: str, site: Site, tell: Callable[..., None]
) -> None:
    with site.events("event=job.*") as events:
        events.hear("ready")
        tell("job.created")
        last = events.hear("job.created").id
        events.cut()
    tell("job.failed", 120)
    tell("queue.paused", queue="a")
    if way == "header":
        headers = {**site.headers, "Last-Event-ID": str(last)}
        events = site.events("event=job.*&after=1-1", headers=headers)
    else:
        events = site.events(f"event=job.*&after={last}")
    with events:
        assert events.hear().data["seq"] == last
        missed = [events.hear() for _ in range(120)]
        tell("job.started")
        then = events.hear()
    assert {event.name for event in missed} == {"job.failed"}
    assert len({event.id for event in missed}) == 120
    assert then.name == "job.started"


def test_who_was_away_for_too_long_is_told_to_read_anew(
    site: Site, stream: redis.Redis, tell: Callable[..., None]
) -> None:
    tell("job.created")
    with site.events() as events:
        last = events.hear("ready").id
    tell("job.created", 20)
    stream.xtrim(STREAM, maxlen=3, approximate=False)
    with site.events(f"after={last}") as events:
        resync = events.hear("resync")
        assert resync.data["why"] == "too_old"
        assert resync.id == resync.data["seq"]
        tell("job.created")
        seen = events.hear("job.created").id
        assert seen is not None
        assert seen > str(resync.id)


def test_a_flood_is_bounded_and_counted_before_it_is_told(
    site: Site, tell: Callable[..., None]
) -> None:
    with site.events("event=job.*,queue.*") as events:
        events.hear("ready")
        tell("job.completed", 3_000)
        tell("queue.paused", queue="a")
        heard = events.hear_until(lambda event: event.name == "queue.paused")
    singles = [event for event in heard if event.name == "job.completed"]
    counts = [event for event in heard if event.name == "events.left_out"]
    assert all(event.id is None for event in counts)
    assert heard[0] is counts[0] or heard[0] in singles
    left_out = sum(event.data["left_out"].get("job.completed", 0) for event in counts)
    assert len(singles) + left_out == 3_000


# Its end


def test_a_response_ends_by_itself_and_says_so(
    hasty: Server, site: Site, tell: Callable[..., None]
) -> None:
    with hasty.site(**site.headers).events() as events:
        events.hear("ready")
        assert ending(events) == "bye"


def test_a_response_that_has_become_large_ends_and_the_next_one_goes_on(
    hasty: Server, site: Site, tell: Callable[..., None]
) -> None:
    here = hasty.site(**site.headers)
    with here.events("event=job.*") as events:
        last = events.hear("ready").id
    tell("job.cancelled", 400)
    seen: list[str] = []
    rounds = 0
    while len(seen) < 400:
        rounds += 1
        with here.events(
            "event=job.*", headers={**site.headers, "Last-Event-ID": str(last)}
        ) as events:
            try:
                while len(seen) < 400:
                    event = events.hear("job.cancelled")
                    last = event.id
                    seen.append(event.data["job_id"])
            except Closed:
                continue
    assert len(set(seen)) == 400
    assert rounds > 1


def test_silence_is_broken_by_comments_that_move_the_position(
    hasty: Server, site: Site, tell: Callable[..., None]
) -> None:
    with hasty.site(**site.headers).events("queue=mine") as events:
        first = events.hear("ready").id
        tell("job.created", queue="other")
        assert events.wait_for_comment() == "still here"
        while events.last_id == first:
            events.wait_for_comment()


def test_a_session_that_ends_ends_the_stream(hasty: Server, site: Site) -> None:
    client = Client()
    client.force_login(make_user("jobs.view_job"))
    headers = {"Cookie": f"sessionid={client.cookies['sessionid'].value}"}
    with hasty.site().events(headers=headers) as events:
        events.hear("ready")
        client.logout()
        assert ending(events) == "bye"
    assert refusal(lambda: hasty.site().events(headers=headers)).status == 401
    settled(hasty, connections=0, receivers=0)


def test_other_sites_that_the_project_lets_in_get_what_a_browser_asks_for(
    server: Server, site: Site
) -> None:
    for origin, allowed in (
        ("https://pages.example", "https://pages.example"),
        ("https://x.y", None),
    ):
        with site.events(headers={**site.headers, "Origin": origin}) as events:
            assert events.wire.headers.get("access-control-allow-origin") == allowed


# Who may not, and what may not be asked


def test_only_those_with_the_permission_may_listen(
    server: Server, site: Site, key_of: Callable[..., str]
) -> None:
    nobody = refusal(server.site().events)
    assert (nobody.status, json.loads(nobody.body)) == (
        401,
        {"detail": "Authentication credentials were not provided."},
    )
    assert refusal(server.site(Authorization="Token coppice_x").events).status == 401
    assert refusal(server.site(Authorization=f"Token {key_of()}").events).status == 403


def test_a_session_listens_from_the_sites_own_pages(server: Server, site: Site) -> None:
    client = Client()
    client.force_login(make_user("jobs.view_job"))
    headers = {"Cookie": f"sessionid={client.cookies['sessionid'].value}"}
    for more in ({}, {"Origin": server.origin}, {"Sec-Fetch-Site": "same-origin"}):
        with server.site().events(headers={**headers, **more}) as events:
            events.hear("ready")
            assert "access-control-allow-origin" not in events.wire.headers
    for more in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        found = refusal(partial(server.site().events, headers={**headers, **more}))
        assert found.status == 403


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("job=7", "job"),
        ("after=yesterday", "after"),
        ("after=", "after"),
        ("event=a%20b", "event"),
        ("event=" + "x" * 61, "event"),
        ("queue=", "queue"),
        ("type=" + "x" * 201, "type"),
        ("type=" + ",".join(f"t{n}" for n in range(51)), "type"),
        ("colour=red", "colour"),
        ("state=dead", "state"),
        ("%00=%00", "\x00"),
        ("job=%ff%fe", "job"),
    ],
)
def test_what_makes_no_sense_is_a_400_that_names_it(query: str, field: str, site: Site) -> None:
    found = refusal(lambda: site.events(query))
    assert found.status == 400
    assert list(json.loads(found.body)) == [field]


def test_a_bad_last_event_id_is_a_400(site: Site) -> None:
    headers = {**site.headers, "Last-Event-ID": "x"}
    assert refusal(lambda: site.events(headers=headers)).status == 400


def test_head_is_answered_like_get_without_an_end_to_wait_for(site: Site) -> None:
    def head(headers: dict[str, str], query: str = "") -> Any:
        address = http.client.HTTPConnection(*site.address, timeout=90)
        with closing(address):
            address.request(
                "HEAD", f"/api/jobs/stream{query}", headers={"Host": site.host, **headers}
            )
            answer = address.getresponse()
            assert answer.read() == b""
            return answer.status, (answer.getheader("content-type") or "").partition(";")[0]

    for _ in range(3):
        assert head(site.headers) == (200, "text/event-stream")
    assert head({}) == (401, "application/json")
    assert head(site.headers, "?colour=red") == (400, "application/json")


def test_a_server_without_asgi_says_what_to_do(client: Client) -> None:
    user = make_user("jobs.view_job")
    client.force_login(user)
    for path in ("/api/v1/jobs/stream", "/api/jobs/stream"):
        response = client.get(path)
        assert response.status_code == 501
        assert "/api/v1/live" in response.json()["detail"]
    client.logout()
    assert client.get("/api/v1/jobs/stream").status_code == 401


def test_while_the_database_is_away_nobody_new_gets_in(
    monkeypatch: pytest.MonkeyPatch, key_of: Callable[..., str]
) -> None:
    key = key_of("jobs.view_job")
    request = RequestFactory(headers={"Authorization": f"Token {key}"}).get("/")
    assert gate.admit(request, is_socket=True).token is not None
    with monkeypatch.context() as patch:
        connections["default"].close()
        patch.setitem(connections["default"].settings_dict, "HOST", "/nowhere")
        with pytest.raises(gate.Refused) as refused:
            gate.admit(request, is_socket=True)
        assert refused.value.status == 503


def test_who_must_come_over_https_is_sent_there(key_of: Callable[..., str], settings: Any) -> None:
    settings.SECURE_SSL_REDIRECT = True
    application = application_with(get_asgi_application())
    key = key_of("jobs.view_job").encode()
    headers = [(b"host", b"testserver"), (b"authorization", b"Token " + key)]

    async def ask() -> Any:
        path = "/api/v1/jobs/stream"
        return await HttpCommunicator(application, "GET", path, headers=headers).get_response()

    assert asyncio.run(ask())["status"] == 301


def test_without_a_feed_there_is_nothing_to_listen_to(
    key_of: Callable[..., str], settings: Any
) -> None:
    settings.COPPICE_REDIS_URL = ""
    application = application_with(get_asgi_application())
    key = key_of("jobs.view_job").encode()
    headers = [(b"host", b"testserver"), (b"authorization", b"Token " + key)]

    async def ask() -> tuple[Any, Any]:
        http = HttpCommunicator(application, "GET", "/api/v1/jobs/stream", headers=headers)
        answer = await http.get_response()
        socket = WebsocketCommunicator(application, "/ws/console/", headers=headers)
        await socket.connect()
        ending = await socket.receive_output()
        await socket.disconnect()
        return answer, ending

    answer, ending = asyncio.run(ask())
    assert answer["status"] == 503
    assert (ending["type"], ending["code"]) == ("websocket.close", 4501)
    found = Client(headers={"Authorization": f"Token {key.decode()}"}).get(
        "/api/v1/live", {"topics": "overview"}
    )
    told = found.json()
    assert (told["feed"], told["seq"], told["events"]) == ("off", None, [])
    assert told["stats"]["total"] >= 0
    part_of("polled").validate(told)
