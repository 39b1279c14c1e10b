"""The publisher against a real Valkey that comes and goes."""

import json
import logging
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import redis

from config.servers import Valkey, valkey_url
from jobs import events, publishing
from jobs.events import Event
from jobs.publishing import LEFT_OUT, SINGLES_PER_SECOND, STREAM, Publisher, encode

CHECKOUT = Path(__file__).resolve().parent.parent.parent


def entries(url: str) -> list[dict[str, Any]]:
    with redis.Redis.from_url(url) as client:
        return [json.loads(fields[b"event"]) for _, fields in client.xrange(STREAM)]


def wait_for(fact: Callable[[], bool], seconds: float = 90.0) -> None:
    limit = time.monotonic() + seconds
    while not fact():
        assert time.monotonic() < limit, "waited too long"
        time.sleep(0.02)


def tell(publisher: Publisher, name: str, count: int = 1) -> int:
    room = publisher.room(name, count)
    publisher.put([Event(name, str(number)) for number in range(room)])
    return room


@pytest.fixture(autouse=True)
def _this_process_sends_nothing_of_its_own(settings: Any) -> None:
    current = publishing._Current.publisher
    if current is not None:
        current.close(5.0)
    settings.COPPICE_REDIS_URL = ""


@pytest.fixture
def publisher(redis_url: str) -> Iterator[Publisher]:
    made = Publisher(redis_url, queue_length=10_000)
    yield made
    made.close(5.0)


def test_a_connection_that_was_cut_while_nothing_was_said_costs_no_event(
    publisher: Publisher, redis_url: str
) -> None:
    tell(publisher, "job.created")
    assert publisher.flush(90)
    with redis.Redis.from_url(redis_url) as client:
        assert client.client_kill_filter(_type="normal", skipme=True)
    tell(publisher, "job.completed")
    assert publisher.flush(90)
    assert [entry["name"] for entry in entries(redis_url)] == ["job.created", "job.completed"]


def test_an_event_becomes_an_entry_of_the_stream(publisher: Publisher, redis_url: str) -> None:
    publisher.room("job.completed", 1)
    publisher.put([Event("job.completed", "0198", "resize", "images", {"attempt": 1})])
    assert publisher.flush(60.0)
    [entry] = entries(redis_url)
    assert abs(entry.pop("at") - time.time()) < 60
    assert entry == {
        "name": "job.completed",
        "job_id": "0198",
        "type": "resize",
        "queue": "images",
        "facts": {"attempt": 1},
    }


def test_events_keep_their_order(publisher: Publisher, redis_url: str) -> None:
    assert tell(publisher, "job.cancelled", 900) == 900
    assert publisher.flush(60.0)
    assert [entry["job_id"] for entry in entries(redis_url)] == [str(n) for n in range(900)]


def test_a_flood_becomes_a_number_and_rare_events_still_get_through(
    publisher: Publisher, redis_url: str
) -> None:
    sent = sum(tell(publisher, "job.completed", 500) for _ in range(100))
    assert sent < SINGLES_PER_SECOND
    assert tell(publisher, "job.dlq_entry") == 1
    assert publisher.flush(60.0)
    found = entries(redis_url)
    counts = [entry["counts"] for entry in found if entry["name"] == LEFT_OUT]
    assert sum(count["job.completed"] for count in counts) == 50_000 - sent
    assert [e["name"] for e in found].count("job.completed") == sent
    assert [e["name"] for e in found].count("job.dlq_entry") == 1


def test_more_than_the_queue_holds_is_counted(redis_url: str) -> None:
    publisher = Publisher(redis_url, queue_length=10)
    assert publisher.room("job.failed", 50) == 10
    publisher.close(60.0)
    [entry] = entries(redis_url)
    assert entry["counts"] == {"job.failed": 40}


def test_the_caller_neither_waits_nor_fails_while_redis_is_away(
    own_valkey: Valkey, caplog: pytest.LogCaptureFixture
) -> None:
    url = valkey_url(own_valkey.place)
    publisher = Publisher(url, queue_length=100)
    tell(publisher, "job.failed")
    assert publisher.flush(60.0)
    own_valkey.stop()
    with caplog.at_level(logging.INFO, logger="coppice.events"):
        for _ in range(3):
            tell(publisher, "job.failed", 60)
            wait_for(lambda: publisher.is_away)
        assert not publisher.flush(1.0)
        own_valkey.start()
        tell(publisher, "job.failed")
        wait_for(lambda: publisher.flush(1.0))
    publisher.close(60.0)
    found = entries(url)  # this server keeps nothing on disk: all is from after the outage
    arrived = [entry["name"] for entry in found].count("job.failed")
    counted = sum(entry["counts"]["job.failed"] for entry in found if entry["name"] == LEFT_OUT)
    assert counted > 0
    assert arrived + counted == 3 * 60 + 1
    lines = [record.getMessage() for record in caplog.records if record.name == "coppice.events"]
    assert len(lines) == 2, lines


def test_a_server_that_accepts_and_never_answers_is_an_outage_too() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        publisher = Publisher(f"redis://127.0.0.1:{port}/0", queue_length=100)
        tell(publisher, "job.failed")
        wait_for(lambda: publisher.is_away)
        publisher.close(0.0)


def test_the_stream_does_not_grow_without_end(
    publisher: Publisher, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishing, "STREAM_LENGTH", 100)
    tell(publisher, "job.failed", 1_500)
    assert publisher.flush(60.0)
    assert len(entries(redis_url)) < 400


def test_payloads_and_results_are_never_sent_and_long_texts_are_cut() -> None:
    facts = {
        "payload": {"card": "4111"},
        "result": "secret",
        "error": "x" * 5_000,
        "when": datetime(2026, 1, 1, tzinfo=UTC),
        "key": UUID(int=7),
        "ratio": float("nan"),
        "many": list(range(1_000)),
        "big": 10**5_000,
        "odd": "\ud800\x00",
    }
    sent = json.loads(encode(0.0, Event("job.failed", "1", facts=facts)))["facts"]
    assert set(facts) - set(sent) == {"payload", "result"}
    assert len(sent["error"]) <= 500
    assert sent["when"] == "2026-01-01T00:00:00+00:00"
    assert sent["key"] == "00000000-0000-0000-0000-000000000007"
    assert sent["ratio"] is None
    assert len(sent["many"]) == 50
    assert sent["big"] == "<a large number>"
    assert sent["odd"] == "��"


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_a_forked_child_sends_its_own_events_and_none_of_its_parents(
    publisher: Publisher, redis_url: str
) -> None:
    tell(publisher, "job.failed")
    assert publisher.flush(60.0)
    tell(publisher, "job.cancelled")
    child = os.fork()
    if child == 0:
        tell(publisher, "job.purged")
        os._exit(0 if publisher.flush(60.0) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert publisher.flush(60.0)
    names = sorted(entry["name"] for entry in entries(redis_url))
    assert names == ["job.cancelled", "job.failed", "job.purged"]


def test_what_a_process_told_last_is_sent_before_it_ends(redis_url: str) -> None:
    code = (
        "import django; django.setup()\n"
        "from jobs.events import emit\n"
        "emit('queue.paused', name='images', by='a test')\n"
    )
    env = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "DATABASE_URL": "postgresql://nobody@localhost/none",
        "REDIS_URL": redis_url,
    }
    subprocess.run([sys.executable, "-c", code], cwd=CHECKOUT, env=env, check=True, timeout=60)
    [entry] = entries(redis_url)
    assert entry["name"] == "queue.paused"
    assert entry["facts"] == {"name": "images", "by": "a test"}


def test_the_settings_name_the_stream_and_none_means_no_feed(redis_url: str, settings: Any) -> None:
    settings.COPPICE_REDIS_URL = ""
    assert not events.wanted("job.started")
    settings.COPPICE_REDIS_URL = redis_url
    assert events.wanted("job.started")
    events.emit("job.started", job_id="1")
    assert events.flush(5.0)
    assert [entry["name"] for entry in entries(redis_url)] == ["job.started"]


def test_what_was_set_while_another_setting_was_wrong_holds_once_that_is_right(
    redis_url: str, settings: Any
) -> None:
    settings.COPPICE_PREFETCH_SECONDS = "often"
    settings.COPPICE_REDIS_URL = redis_url
    assert not events.wanted("job.started")
    settings.COPPICE_PREFETCH_SECONDS = 1.0
    assert events.wanted("job.started")


def test_a_closed_way_to_the_stream_is_replaced(redis_url: str, settings: Any) -> None:
    settings.COPPICE_REDIS_URL = redis_url
    current = publishing._Current.publisher
    assert current is not None
    current.close(5.0)
    publishing.install()
    events.emit("job.started", job_id="1")
    assert events.flush(60.0)
    assert [entry["name"] for entry in entries(redis_url)] == ["job.started"]
