"""Many clients: what they leave behind, and what they can do to the server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from socket import SO_RCVBUF, SOL_SOCKET
from typing import Any
from uuid import UUID

import pytest
import redis

from jobs.publishing import STREAM
from tests.live.clients import EventSource, Site, WebSocket, wait_for
from tests.live.conftest import Server, daphne, settled


def flood(stream: redis.Redis, count: int, size: int) -> None:
    """Events that are as large as events can be, straight into the stream."""
    entry = {"name": "job.failed", "at": 1.0, "job_id": str(UUID(int=7)), "type": "t", "queue": "q"}
    text = json.dumps({**entry, "facts": {"error": "x" * size}})
    pipeline = stream.pipeline(transaction=False)
    for _ in range(count):
        pipeline.xadd(STREAM, {"event": text}, maxlen=100_000, approximate=True)
    pipeline.execute()


def opened[T](count: int, open_one: Callable[[int], T]) -> list[T]:
    with ThreadPoolExecutor(8) as threads:
        return list(threads.map(open_one, range(count)))


def test_two_hundred_clients_that_are_cut_off_leave_nothing_behind(
    site: Site, server: Server, tell: Callable[..., None]
) -> None:
    def open_one(number: int) -> WebSocket | EventSource:
        if number % 4 == 0:
            events = site.events("event=job.*")
            events.hear("ready")
            return events
        socket = site.socket()
        socket.sub("overview", f"queue:{number}")
        return socket

    # The pools of threads and connections fill once.
    for each in opened(8, open_one):
        each.cut()
    before = settled(server, connections=0, receivers_alive=0, reading=False)
    clients = opened(200, open_one)
    during = server.counts()
    assert (during["connections"], during["receivers"]) == (200, 200)
    assert len([name for name in during["live_tasks"] if "reader" in name]) == 1
    assert during["descriptors"] >= before["descriptors"] + 200
    tell("job.created", 20)
    for each in clients:
        each.cut()
    after = settled(
        server,
        connections=0,
        receivers=0,
        receivers_alive=0,
        reading=False,
        live_tasks=[],
        tasks=before["tasks"],
    )
    wait_for(lambda: server.counts()["descriptors"] <= before["descriptors"] + 1)
    assert after["connections"] == 0


@pytest.fixture
def patient(live_redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with daphne(
        tmp_path_factory.mktemp("patient"),
        REDIS_URL=live_redis_url,
        COPPICE_LIVE_CONNECTIONS_PER_USER="200",
        LIVE_WINDOW_PATIENCE_SECONDS="3",
        LIVE_HUB_TICK_SECONDS="0.06",
    ) as made:
        yield made


def test_fifty_clients_that_never_read_cannot_grow_the_server(
    patient: Server, site: Site, stream: redis.Redis
) -> None:
    """60 frames of 35 kB go by; a socket may hold 256 kB of them, and a stream a megabyte."""
    here = patient.site(**site.headers)
    with here.socket() as reader:
        reader.sub("queue:q")
        flood(stream, 200, 400)
        reader.hear_until(lambda message: message["op"] == "frame")

        def open_one(number: int) -> Any:
            if number % 5 == 0:
                events = here.events("event=job.*")
                events.wire.socket.setsockopt(SOL_SOCKET, SO_RCVBUF, 4_096)
                return events
            socket = here.socket()
            socket.wire.socket.setsockopt(SOL_SOCKET, SO_RCVBUF, 4_096)
            socket.say("sub", topics=["jobs", "log"])
            return socket

        empty = patient.counts()["descriptors"]
        silent = opened(50, open_one)
        wait_for(lambda: patient.counts()["receivers"] == 51)
        before = patient.resident()
        for _ in range(60):
            flood(stream, 60, 500)
            reader.hear_until(lambda message: message["op"] == "frame")
        grown = patient.resident() - before
        assert grown < 40 * 2**20, f"{grown / 2**20:.0f} MiB"
    # In the end the sockets are closed, for all that is unread; the streams have time left.
    wait_for(lambda: patient.counts()["receivers"] <= 10)
    wait_for(lambda: patient.counts()["descriptors"] <= empty + 10 + 2)
    for each in silent:
        each.cut()
    settled(patient, connections=0, receivers=0, receivers_alive=0, live_tasks=[])
