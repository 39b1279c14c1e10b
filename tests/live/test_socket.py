"""The console's WebSocket, over a real daphne: what is told, and to whom."""

from __future__ import annotations

import http.client
import json
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import redis
from django.test import Client
from jsonschema import Draft202012Validator

from jobs import enqueue, lifecycle, tokens
from jobs.live import connections, gate
from jobs.live.stream import MOST_REPLAYED
from jobs.models import ApiToken
from jobs.publishing import STREAM
from tests.live.clients import Closed, Refused, Site, WebSocket, wait_for
from tests.live.conftest import Server, make_user, settled

SCHEMA = Draft202012Validator(json.loads(Path("docs/live-schema.json").read_text()))


def names(frames: list[Any]) -> list[str]:
    return [event["name"] for frame in frames for event in frame.get("events", ())]


def refusal(knock: Callable[[], object]) -> int:
    with pytest.raises(Refused) as caught:
        knock()
    return caught.value.status


def closing(socket: WebSocket) -> int | None:
    """The code with which the other side ends it."""
    try:
        while True:
            socket.hear()
    except Closed as closed:
        return closed.code


@contextmanager
def signed_in(server: Server, *permissions: str) -> Iterator[tuple[Any, Client, dict[str, str]]]:
    """A user with a session, as a browser has it, and the headers that the browser would send."""
    user = make_user(*permissions)
    client = Client()
    client.force_login(user)
    cookie = f"sessionid={client.cookies['sessionid'].value}"
    yield user, client, {"Cookie": cookie, "Origin": server.origin}


# What is told


def test_every_message_follows_the_schema_and_the_frames_join(
    site: Site, tell: Callable[..., None]
) -> None:
    with site.socket() as socket:
        heard = [socket.sub("overview", "log")]
        for _ in range(3):
            tell("job.failed", 30, type="mail", queue="a", facts={"error": "boom", "attempt": 1})
            heard += socket.hear_until(lambda message: message.get("events"))
        heard += socket.hear_until(lambda message: "stats" in message)
    for message in heard:
        SCHEMA.validate(message)
    frames = [message for message in heard if message["op"] == "frame"]
    assert [frame["prev"] for frame in frames] == [
        heard[0]["seq"],
        *(f["seq"] for f in frames[:-1]),
    ]


def test_what_lifecycle_functions_do_is_told(site: Site) -> None:
    with site.socket() as socket:
        socket.sub("jobs?type=send_email")
        job = enqueue("send_email", {"to": "a@example.org", "subject": "s", "text": "secret-7"})
        lifecycle.cancel(job.id, by="anna")
        heard = socket.hear_until(lambda frame: "job.cancelled" in names([frame]))
    events = [event for frame in heard for event in frame["events"]]
    assert [(event["name"], event["status"]) for event in events] == [
        ("job.created", "pending"),
        ("job.cancelled", "cancelled"),
    ]
    assert {event["job_id"] for event in events} == {str(job.id)}
    assert events[1]["facts"]["by"] == "anna"
    assert "secret-7" not in json.dumps(heard)


def test_an_error_is_told_only_to_those_who_may_see_payloads(
    site: Site, viewer: Site, tell: Callable[..., None]
) -> None:
    with site.socket() as all_of_it, viewer.socket() as part_of_it:
        all_of_it.sub("jobs")
        part_of_it.sub("jobs")
        tell("job.failed", facts={"error": "ValueError: card 4111", "attempt": 1})
        [told] = all_of_it.hear_until(lambda frame: frame["events"])
        [hidden] = part_of_it.hear_until(lambda frame: frame["events"])
    assert told["events"][0]["facts"] == {"error": "ValueError: card 4111", "attempt": 1}
    assert hidden["events"][0]["facts"] == {"error": None, "attempt": 1}
    assert hidden["events"][0]["hidden"] == ["error"]
    assert "4111" not in json.dumps(hidden)
    SCHEMA.validate(hidden)


def test_a_client_hears_its_topics_and_no_others(site: Site, tell: Callable[..., None]) -> None:
    with site.socket() as socket:
        socket.sub("queue:mail")
        tell("job.created", queue="other")
        tell("job.created", queue="mail", type="first")
        [frame] = socket.hear_until(lambda frame: frame["events"])
        assert [event["queue"] for event in frame["events"]] == ["mail"]
        ready = socket.sub("queue:other")
        assert ready["topics"] == ["queue:mail", "queue:other"]
        assert ready["seq"] == frame["seq"]
        socket.say("unsub", topics=["queue:mail", "queue:nothing"])
        assert socket.hear("ready")["topics"] == ["queue:other"]
        tell("job.created", queue="mail")
        tell("job.created", queue="other")
        [frame] = socket.hear_until(lambda frame: frame["events"])
        assert [event["queue"] for event in frame["events"]] == ["other"]


def test_a_flood_is_bounded_and_everything_in_it_is_told_or_counted(
    site: Site, tell: Callable[..., None]
) -> None:
    with site.socket() as socket:
        socket.sub("log")
        tell("job.completed", 3_000)
        tell("queue.paused", queue="a")
        heard = socket.hear_until(lambda frame: "queue.paused" in names([frame]))
    assert max(len(frame["events"]) for frame in heard) <= 50
    counted = sum(frame["left_out"].get("job.completed", 0) for frame in heard)
    assert names(heard).count("job.completed") + counted == 3_000


def test_stats_come_to_topics_that_have_them(site: Site) -> None:
    enqueue("send_email", {"to": "a@example.org", "subject": "s", "text": "t"}, queue="counted")

    def depth(message: Any) -> int:
        queues = message.get("stats", {}).get("queues", ())
        return sum(queue["depth"] for queue in queues if queue["name"] == "counted")

    with site.socket() as with_stats, site.socket() as without:
        with_stats.sub("overview")
        without.sub("jobs")
        with_stats.hear_until(lambda message: depth(message) == 1)
        without.sub("workers")  # all until then came without stats: hear_until would have shown it
        [*before, first] = without.hear_until(lambda message: "stats" in message)
    assert before == []
    assert depth(first) == 1


def test_two_servers_count_once_a_second_between_them(site: Site, hasty: Server) -> None:
    other = hasty.site(**site.headers)
    with site.socket() as first, other.socket() as second:
        began = time.time()

        def counted(socket: WebSocket) -> list[float]:
            socket.sub("overview")
            frames = socket.hear_until(lambda m: "stats" in m and m["stats"]["at"] > began + 2)
            return [frame["stats"]["at"] for frame in frames if "stats" in frame]

        with ThreadPoolExecutor(2) as threads:
            heard = list(threads.map(counted, (first, second)))
    both = sorted({*heard[0], *heard[1]})
    # Each was counted by one of them and shown by both.
    assert all(later - earlier > 0.9 for earlier, later in pairwise(both))
    settled(hasty, connections=0)


# Gaps


def test_a_client_that_comes_back_is_told_what_it_missed(
    site: Site, tell: Callable[..., None]
) -> None:
    with site.socket() as socket:
        seq = socket.sub("jobs?queue=a")["seq"]
        socket.cut()
    tell("job.created", 120, queue="a")
    tell("job.created", 5, queue="b")
    with site.socket() as socket:
        ready = socket.sub("jobs?queue=a", after=seq)
        assert ready["seq"] == seq
        frames = socket.hear_until(lambda frame: len(frame["events"]) < 50)
        tell("job.started", queue="a")
        frames += socket.hear_until(lambda frame: "job.started" in names([frame]))
    assert names(frames) == ["job.created"] * 120 + ["job.started"]
    assert all(not frame["left_out"] for frame in frames)
    assert [f["prev"] for f in frames] == [seq, *(frame["seq"] for frame in frames[:-1])]


def test_a_replay_waits_for_acknowledgements_and_is_whole(
    site: Site, tell: Callable[..., None]
) -> None:
    with site.socket() as socket:
        seq = socket.sub("jobs")["seq"]
        tell("job.cancelled", 400, queue="a")
        socket.hear_until(lambda frame: frame["events"])
        socket.say("replay", after=seq)
        frames: list[Any] = []
        while not frames or frames[-1]["prev"] != seq:
            frames = [socket.hear("frame")]  # what was under way before the replay
            socket.say("ack", seq=frames[0]["seq"])
        while len(names(frames)) < 400:
            frames.append(socket.hear("frame"))
            socket.say("ack", seq=frames[-1]["seq"])
    assert [f["prev"] for f in frames] == [seq, *(frame["seq"] for frame in frames[:-1])]
    ids = [event["job_id"] for frame in frames for event in frame["events"]]
    assert len(set(ids)) == 400


@pytest.mark.parametrize("case", ["cut off", "too much", "beyond the end", "never"])
def test_a_gap_that_cannot_be_told_is_a_resync(
    case: str, site: Site, stream: redis.Redis, tell: Callable[..., None]
) -> None:
    tell("job.created")
    with site.socket() as socket:
        after = socket.sub("log")["seq"]
        match case:
            case "cut off":
                tell("job.created", 20)
                stream.xtrim(STREAM, maxlen=5, approximate=False)
            case "too much":
                pipeline = stream.pipeline(transaction=False)
                entry = json.dumps({"name": "job.created", "at": 1.0})
                for _ in range(MOST_REPLAYED + 1):
                    pipeline.xadd(STREAM, {"event": entry})
                last = pipeline.execute()[-1].decode()
                # What comes later is not told together with them, where few are shown of many.
                socket.hear_until(lambda message: message.get("seq") == last)
            case "beyond the end":
                after = "99999999999999-0"
            case "never":
                after = "0-0"
        socket.say("replay", after=after)
        resync = socket.hear_until(lambda message: message["op"] == "resync")[-1]
        assert resync["why"] == "too_old"
        SCHEMA.validate(resync)
        tell("queue.paused", queue="a")
        [*_, frame] = socket.hear_until(lambda frame: "queue.paused" in names([frame]))
        assert frame["prev"] >= resync["seq"]


@contextmanager
def held_up(server: Server) -> Iterator[None]:
    """The server does nothing meanwhile, as on a machine that sleeps."""
    server.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        server.process.send_signal(signal.SIGCONT)


def test_a_server_that_was_held_up_until_the_stream_was_cut_says_so(
    site: Site, server: Server, stream: redis.Redis, tell: Callable[..., None]
) -> None:
    tell("job.created")
    with site.socket() as socket:
        socket.sub("jobs")
        with held_up(server):
            pipeline = stream.pipeline(transaction=False)
            entry = json.dumps({"name": "job.created", "at": 1.0})
            for _ in range(4_000):
                pipeline.xadd(STREAM, {"event": entry})
            pipeline.execute()
            stream.xtrim(STREAM, maxlen=2_500, approximate=False)
        assert socket.hear_until(lambda m: m["op"] == "resync")[-1]["why"] == "behind"
        tell("job.dlq_entry")
        socket.hear_until(lambda m: "job.dlq_entry" in names([m]))


def test_a_server_that_is_late_goes_on_with_what_is_new_and_says_so(
    site: Site, server: Server, stream: redis.Redis, tell: Callable[..., None]
) -> None:
    tell("job.created")
    with site.socket() as socket:
        ready = socket.sub("queue:a")
        with held_up(server):
            pipeline = stream.pipeline(transaction=False)
            entry = json.dumps({"name": "job.created", "at": 1.0, "queue": "b"})
            now = int(time.time() * 1_000)
            for number in range(3_000):  # in two seconds, by their ids
                pipeline.xadd(STREAM, {"event": entry}, id=f"{now + number * 2 // 3}-{number}")
            pipeline.execute()
        frames = socket.hear_until(lambda frame: "other" in frame["left_out"])
        tell("job.created", queue="a")
        frames += socket.hear_until(lambda frame: frame["events"])
    assert [f["prev"] for f in frames] == [ready["seq"], *(f["seq"] for f in frames[:-1])]
    assert frames[-1]["events"][0]["queue"] == "a"


# Acknowledgement


def test_without_acknowledgement_four_frames_come_and_then_one_for_all_the_rest(
    site: Site, tell: Callable[..., None]
) -> None:
    with site.socket() as socket:
        socket.sub("jobs")
        frames = []
        for _ in range(4):
            tell("job.created")
            frames.append(socket.hear("frame"))
        last = frames[-1]
        for _ in range(5):
            tell("job.failed", 40)
            time.sleep(0.25)  # a tick each
        socket.say("ack", seq=last["seq"])
        [frame] = socket.hear_until(lambda frame: True)
    assert frame["prev"] == last["seq"]
    assert len(frame["events"]) == 50
    assert frame["left_out"] == {"job.failed": 150}


def test_a_client_that_never_acknowledges_is_closed(
    hasty: Server, site: Site, tell: Callable[..., None]
) -> None:
    with hasty.site(**site.headers).socket() as socket:
        socket.sub("jobs")
        tell("job.created")
        assert closing(socket) == 4408


def test_a_quiet_connection_hears_where_the_stream_stands(
    hasty: Server, site: Site, tell: Callable[..., None]
) -> None:
    with hasty.site(**site.headers).socket() as socket:
        first = socket.sub("queue:mine")["seq"]
        tell("job.created", queue="other")
        frames = socket.hear_until(lambda frame: frame["seq"] > first)
    assert frames[-1]["events"] == []
    assert frames[0]["prev"] == first


# What a client may not do


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("nonsense", "bad_message"),
        ('{"op": "dance"}', "bad_message"),
        ('{"op": "sub", "topics": ["nothing"]}', "bad_topic"),
        ('{"op": "replay", "after": "1-1"}', "bad_message"),
        (b"\x00\xff", "bad_message"),
        (json.dumps({"op": "sub", "topics": ["x" * 20_000]}), "too_large"),
    ],
)
def test_a_message_that_makes_no_sense_is_answered_and_ends_it(
    text: str | bytes, code: str, site: Site
) -> None:
    with site.socket() as socket:
        socket.send(text)
        error = socket.hear()
        SCHEMA.validate(error)
        assert (error["op"], error["code"]) == ("error", code)
        assert closing(socket) == 4400


def test_too_many_topics_and_messages_end_it(site: Site) -> None:
    narrow = [f"queue:{number}" for number in range(50)]
    filtered = [f"jobs?type=t{number}" for number in range(5)]
    for allowed, one_more in ((narrow, "overview"), (filtered, "log?type=x")):
        with site.socket() as socket:
            socket.sub(*allowed)
            socket.say("sub", topics=[one_more])
            assert socket.hear("error")["code"] == "too_many_topics"
            assert closing(socket) == 4400
    with site.socket() as socket:
        for _ in range(100):
            socket.say("unsub", topics=["overview"])
        assert socket.hear("error")["code"] == "too_fast"
        assert closing(socket) == 4400


# Who may connect


def test_nobody_gets_in_without_a_session_or_token(server: Server, site: Site) -> None:
    key = site.headers["Authorization"]
    for headers in (
        {},
        {"Origin": server.origin},
        {"Origin": server.origin, "Cookie": "sessionid=made-up"},
        {"Authorization": key[:-1] + "x"},
        {"Authorization": "Token"},
        {"Authorization": key.replace("Token", "Bearer")},
    ):
        assert refusal(partial(server.site().socket, headers)) == 403
    assert refusal(lambda: site.socket(path="/ws/other/")) == 403


def test_a_session_gets_in_from_the_sites_own_pages_only(server: Server, site: Site) -> None:
    with signed_in(server, "jobs.view_job") as (_, _, headers):
        with server.site().socket(headers) as socket:
            assert socket.sub("overview")["topics"] == ["overview"]
        for origin in ("https://evil.example", "http://localhost", "null", "http://[", ""):
            wrong = {**headers, "Origin": origin}
            assert refusal(partial(server.site().socket, wrong)) in (400, 403)
        del headers["Origin"]
        assert refusal(lambda: server.site().socket(headers)) == 403


def test_a_strange_host_is_refused(server: Server, site: Site) -> None:
    strange = Site(address=server.address, host="evil.example", headers=site.headers)
    assert refusal(strange.socket) == 403
    assert refusal(strange.events) == 400


def test_a_user_without_the_permission_or_no_longer_active_is_refused(
    server: Server, site: Site, key_of: Callable[..., str]
) -> None:
    assert refusal(server.site(Authorization=f"Token {key_of()}").socket) == 403
    key = key_of("jobs.view_job")
    user = ApiToken.objects.get(digest=tokens.digest(key)).user
    with signed_in(server, "jobs.view_job") as (gone, _, headers):
        for each in (user, gone):
            each.is_active = False
            each.save()
        assert refusal(server.site(Authorization=f"Token {key}").socket) == 403
        assert refusal(lambda: server.site().socket(headers)) == 403


def test_a_logout_closes_the_sockets_of_that_session_at_once(server: Server, site: Site) -> None:
    with signed_in(server, "jobs.view_job") as (user, _, headers), site.socket() as stays:
        user.is_staff = True
        user.save()
        other = Client()
        other.force_login(user)
        second = {**headers, "Cookie": f"sessionid={other.cookies['sessionid'].value}"}
        with server.site().socket(headers) as socket, server.site().socket(second) as kept:
            for each in (socket, kept, stays):
                each.sub("overview")
            token = "x" * 32
            connection = http.client.HTTPConnection(*server.address)
            connection.request(
                "POST",
                "/admin/logout/",
                headers={
                    "Host": server.host,
                    "Origin": server.origin,
                    "Cookie": f"{headers['Cookie']}; csrftoken={token}",
                    "X-CSRFToken": token,
                },
            )
            assert connection.getresponse().status in (200, 302)
            connection.close()
            assert closing(socket) == 4401
            kept.sub("workers")
            stays.sub("workers")
        assert refusal(lambda: server.site().socket(headers)) == 403


def test_what_is_taken_away_elsewhere_is_noticed_at_the_next_look(
    hasty: Server, site: Site, key_of: Callable[..., str]
) -> None:
    with signed_in(hasty, "jobs.view_job") as (user, client, headers):
        with hasty.site().socket(headers) as socket:
            socket.sub("jobs")
            client.logout()
            assert closing(socket) == 4401
        client.force_login(user)
        headers["Cookie"] = f"sessionid={client.cookies['sessionid'].value}"
        with hasty.site().socket(headers) as socket:
            socket.sub("jobs")
            user.user_permissions.clear()
            assert closing(socket) == 4403
    key = key_of("jobs.view_job")
    token = ApiToken.objects.get(digest=tokens.digest(key))
    with hasty.site(Authorization=f"Token {key}").socket() as socket:
        socket.sub("jobs")
        tokens.revoke(token)
        assert closing(socket) == 4401
    settled(hasty, connections=0, receivers=0)


def test_a_permission_that_is_given_later_shows_errors_without_a_new_connection(
    hasty: Server, site: Site, key_of: Callable[..., str], tell: Callable[..., None]
) -> None:
    from django.contrib.auth.models import Permission

    key = key_of("jobs.view_job")
    user = ApiToken.objects.get(digest=tokens.digest(key)).user
    with hasty.site(Authorization=f"Token {key}").socket() as socket:
        socket.sub("jobs")
        user.user_permissions.add(Permission.objects.get(codename="view_payload"))

        def shown() -> bool:
            tell("job.failed", facts={"error": "boom"})
            [*_, frame] = socket.hear_until(lambda m: m.get("events"))
            return bool(frame["events"][-1]["facts"]["error"] == "boom")

        wait_for(shown)


def test_one_user_has_a_number_of_connections(hasty: Server, site: Site) -> None:
    mine = hasty.site(**site.headers)
    with mine.socket(), mine.events():
        assert refusal(mine.socket) == 403
        assert refusal(mine.events) == 429
    settled(hasty, connections=0)
    mine.socket().close()


def test_a_process_has_a_number_of_connections(settings: Any) -> None:
    class Someone:
        def __init__(self, user: str) -> None:
            self.person = gate.Person(user=user, may_see=False)

        def end(self, code: int) -> None: ...

    settings.COPPICE_LIVE_CONNECTIONS = connections.count() + 2
    entered = [Someone("1"), Someone("2")]
    for one in entered:
        connections.enter(one)
    with pytest.raises(gate.Refused) as refused:
        connections.enter(Someone("3"))
    assert refused.value.status == 429
    connections.leave(entered[0])
    connections.enter(Someone("3"))
    for left in list(connections._open):
        connections.leave(left)


@pytest.mark.parametrize(
    ("origin", "host", "is_own"),
    [
        ("https://a.example", "a.example", True),
        ("http://a.example", "a.example", False),  # cookies only go over https here
        ("HTTPS://A.example", "a.EXAMPLE", True),
        ("https://a.example:8443", "a.example:8443", True),
        ("https://a.example:8443", "a.example", False),
        ("https://b.example", "a.example", False),
        ("https://trusted.example", "a.example", True),
        ("http://trusted.example", "a.example", False),
        ("https://sub.below.example", "a.example", True),
        ("https://below.example.evil", "a.example", False),
        ("https://a.example.evil", "a.example", False),
        ("https://user@a.example", "a.example", False),
        ("null", "null", False),
        ("", "", False),
        ("file://a.example", "a.example", False),
        ("https://[", "a.example", False),
    ],
)
def test_an_origin_is_the_sites_own_or_trusted(
    origin: str, host: str, is_own: bool, settings: Any
) -> None:
    settings.SESSION_COOKIE_SECURE = True
    settings.CSRF_TRUSTED_ORIGINS = ["https://trusted.example", "https://*.below.example"]
    assert gate.is_own(origin, host) is is_own
