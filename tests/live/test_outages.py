"""A socket that breaks and a Redis that goes away: in the end a client shows what is so."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from config.servers import Valkey, valkey_url
from jobs import enqueue_many, events, lifecycle, registry
from jobs.models import Job
from tests.live.clients import Closed, Site, WebSocket, wait_for
from tests.live.conftest import Server, daphne, settled


class Page:
    """What a page of the console does: it reads once, applies events, and reads again when told."""

    def __init__(self, site: Site, queue: str) -> None:
        self.site = site
        self.queue = queue
        self.shown: dict[str, str] = {}
        self.seq: str | None = None
        self.reads = 0
        self.feeds: list[str] = []
        self.doubtful_since: float | None = None
        self.connect()

    def connect(self) -> None:
        self.socket: WebSocket = self.site.socket()
        after = {"after": self.seq} if self.seq else {}
        self.socket.say("sub", topics=[f"jobs?queue={self.queue}"], **after)

    def read(self) -> None:
        rows = Job.objects.filter(queue=self.queue).values_list("id", "status")
        self.shown = {str(id): status for id, status in rows}
        self.reads += 1
        self.doubtful_since = None

    def look(self) -> bool:
        """One message, if there is one. Whether there was."""
        has_come = self.socket.wire.has_something(0.1)
        try:
            message: Any = self.socket.hear() if has_come else {"op": "nothing"}
        except Closed:
            self.connect()
            return True
        self.handle(message)
        if self.doubtful_since is not None and time.monotonic() > self.doubtful_since + 0.5:
            self.read()
        return has_come

    def handle(self, message: Any) -> None:
        match message["op"]:
            case "ready":
                if self.seq is None:
                    self.read()
                self.seq = message["seq"]
            case "frame":
                if message["prev"] != self.seq:
                    self.socket.say("replay", after=self.seq)
                    self.socket.say("ack", seq=message["seq"])
                    return
                for event in message["events"]:
                    self.shown[event["job_id"]] = event["status"]
                self.seq = message["seq"]
                if message["left_out"] and self.doubtful_since is None:
                    self.doubtful_since = time.monotonic()
                self.socket.say("ack", seq=self.seq)
            case "resync":
                self.seq = message["seq"]
                self.socket.say("ack", seq=self.seq)
                self.read()
            case "status":
                self.feeds.append(message["feed"])

    def shows_what_is_so(self) -> bool:
        if self.look():
            return False
        rows = Job.objects.filter(queue=self.queue).values_list("id", "status")
        return self.shown == {str(id): status for id, status in rows}


@pytest.fixture(autouse=True)
def _type() -> Iterator[None]:
    @registry.handler("live.any")
    def live_any(payload: Any) -> None: ...

    yield
    registry.remove("live.any")


def change(queue: str, count: int) -> None:
    """Jobs are made, and every fortieth of them is cancelled."""
    ids = enqueue_many("live.any", [{}] * count, queue=queue)
    lifecycle.cancel_many(ids[::40])


def test_sockets_that_break_during_ten_thousand_events_end_with_what_is_so(site: Site) -> None:
    page = Page(site, "broken")
    page.look()
    for number in range(10):
        change("broken", 920)
        for _ in range(3):
            page.look()
        if number % 3 == 0:
            page.socket.cut()
            page.connect()
    wait_for(page.shows_what_is_so)
    assert len(page.shown) == 9_200
    page.socket.close()


@pytest.fixture(scope="module")
def shaken(own_valkey: Valkey, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    url = valkey_url(own_valkey.place)
    with daphne(tmp_path_factory.mktemp("shaken"), REDIS_URL=url) as made:
        yield made


def test_a_redis_that_goes_and_comes_back_empty_is_told_and_leaves_no_error_behind(
    own_valkey: Valkey, shaken: Server, key_of: Callable[..., str], settings: Any
) -> None:
    settings.COPPICE_REDIS_URL = valkey_url(own_valkey.place)
    site = shaken.site(Authorization=f"Token {key_of('jobs.view_job')}")
    page = Page(site, "shaken")
    change("shaken", 20)
    wait_for(page.shows_what_is_so)
    with site.events() as listening:
        listening.hear("ready")
        for _ in range(2):
            page.feeds.clear()
            own_valkey.stop()
            change("shaken", 20)
            wait_for(lambda: (page.look(), page.feeds[-1:] == ["away"])[1])
            assert site.poll("jobs")["feed"] == "away"
            with site.socket() as newcomer:
                assert newcomer.hear()["feed"] == "away"
                assert newcomer.sub("jobs")["feed"] == "away"
                own_valkey.start()
                change("shaken", 20)
                heard = newcomer.hear_until(lambda message: message["op"] == "resync")
                assert heard[-1]["why"] == "outage"
                assert {"op": "status", "feed": "live"}.items() <= heard[-2].items()
            wait_for(page.shows_what_is_so)
            assert page.feeds[-1] == "live"
            heard = listening.hear_until(lambda event: event.name == "resync")
            feeds = [event.data["feed"] for event in heard if event.name == "status"]
            assert (feeds[0], feeds[-1]) == ("away", "live")
            assert heard[-1].data["why"] == "outage"
    assert len(page.shown) == 100
    # The feed goes on as before, not by reading everything again and again.
    change("shaken", 1)
    wait_for(page.shows_what_is_so)
    page.socket.close()
    settled(shaken, connections=0, receivers=0, reading=False, live_tasks=[])
    lines = shaken.log.read_text()
    # Once each time, or twice where a server answers once more while it goes.
    assert 2 <= lines.count("the live feed cannot be read") <= 4
    assert 2 <= lines.count("the live feed can be read again") <= 4
    assert "Traceback" not in lines


def test_a_redis_that_does_not_answer_for_a_while_loses_nothing_unsaid(
    own_valkey: Valkey, shaken: Server, key_of: Callable[..., str], settings: Any
) -> None:
    """Frozen, it accepts and does not answer: what is published meanwhile is dropped, and counted."""
    settings.COPPICE_REDIS_URL = valkey_url(own_valkey.place)
    site = shaken.site(Authorization=f"Token {key_of('jobs.view_job')}")
    page = Page(site, "frozen")
    change("frozen", 5)
    wait_for(page.shows_what_is_so)
    process = own_valkey._process
    assert process is not None
    process.send_signal(signal.SIGSTOP)
    try:
        change("frozen", 5)
        assert not events.flush(10.0)
    finally:
        process.send_signal(signal.SIGCONT)
    change("frozen", 5)
    wait_for(page.shows_what_is_so)
    page.socket.close()
    settled(shaken, connections=0)
