"""Listening and telling, without Django and without Redis."""

from collections.abc import Iterator, Sequence
from dataclasses import FrozenInstanceError, dataclass
from typing import Any

import pytest

from jobs import events
from jobs.errors import RegistrationError
from jobs.events import PUBLIC_NAMES, Event, emit, emit_alike, emit_jobs, emit_many, on
from jobs.states import ARROWS


@dataclass(frozen=True, kw_only=True)
class ClaimedJob:
    id: str
    type: str = "resize"
    queue: str = "images"


class Feed:
    """A sink that takes `limit` events and counts the rest."""

    def __init__(self, limit: int = 1_000) -> None:
        self.limit = limit
        self.sent: list[Event] = []
        self.left_out = 0

    def room(self, name: str, count: int) -> int:
        room = min(count, self.limit - len(self.sent))
        self.left_out += count - room
        return room

    def put(self, events: Sequence[Event]) -> None:
        self.sent.extend(events)

    def flush(self, seconds: float) -> bool:
        return True


@pytest.fixture(autouse=True)
def _nobody_listens_afterwards() -> Iterator[None]:
    before = events._audience
    events._audience = events._Audience()
    yield
    events._audience = before


def test_every_arrow_of_the_table_sends_an_event() -> None:
    assert {arrow.event for arrow in ARROWS} <= set(PUBLIC_NAMES)


def test_each_failed_attempt_is_told_and_then_what_follows_from_it() -> None:
    assert PUBLIC_NAMES["retry_scheduled"] == ("job.failed", "job.retry_scheduled")
    assert PUBLIC_NAMES["dead_lettered"] == ("job.failed", "job.dlq_entry")


def test_a_listener_hears_the_names_that_match_its_pattern() -> None:
    heard: list[Event] = []
    on("job.*", heard.append)
    emit("job.completed", job_id="1", type="resize", queue="images", attempt=2)
    emit("queue.paused", name="images")
    assert heard == [Event("job.completed", "1", "resize", "images", {"attempt": 2})]


def test_on_is_also_a_decorator() -> None:
    heard: list[str] = []

    @on("job.failed")
    def listen(event: Event) -> None:
        heard.append(event.name)

    emit("job.failed")
    emit("job.failed_twice")
    assert heard == ["job.failed"]
    assert listen(Event("by hand")) is None


def test_listening_ends_when_the_returned_function_is_called() -> None:
    heard: list[Event] = []
    stop = on("job.*", heard.append)
    emit("job.started")
    stop()
    stop()
    emit("job.started")
    assert len(heard) == 1
    assert not events.active()


def test_the_same_function_may_listen_twice_and_stop_once() -> None:
    heard: list[Event] = []
    on("job.*", heard.append)
    stop = on("job.*", heard.append)
    stop()
    emit("job.started")
    assert len(heard) == 1


def test_a_listener_that_fails_does_not_keep_others_or_the_caller_from_going_on() -> None:
    heard: list[Event] = []

    def fail(event: Event) -> None:
        raise LookupError(event.name)

    on("*", fail)
    on("*", heard.append)
    emit("job.started")
    emit_jobs("job.completed", [ClaimedJob(id="1"), ClaimedJob(id="2")])
    assert [event.job_id for event in heard] == [None, "1", "2"]


def test_a_listener_may_start_and_stop_listening_while_it_is_called() -> None:
    heard: list[str] = []

    def once(event: Event) -> None:
        stop()
        on("job.*", lambda event: heard.append(event.name))

    stop = on("job.*", once)
    emit("job.started")
    assert heard == []
    emit("job.completed")
    assert heard == ["job.completed"]


def test_an_async_listener_is_refused_since_nobody_would_await_it() -> None:
    async def listen(event: Event) -> None: ...

    with pytest.raises(RegistrationError, match="plain function"):
        on("job.*", listen)


def test_wanted_is_false_while_nobody_would_notice() -> None:
    assert not events.wanted("job.started")
    stop = on("queue.*", lambda event: None)
    assert events.active()
    assert events.wanted("queue.paused")
    assert not events.wanted("job.started")
    stop()
    events.send_to(Feed())
    assert events.wanted("job.started")
    events.send_to(None)
    assert not events.wanted("queue.paused")


def test_an_event_cannot_be_changed_by_a_listener() -> None:
    with pytest.raises(FrozenInstanceError):
        Event("job.started").name = "other"  # type: ignore[misc]


def test_a_mixed_batch_is_told_in_order() -> None:
    heard: list[str] = []
    on("*", lambda event: heard.append(event.name))
    emit_many([Event("job.failed"), Event("job.retry_scheduled"), Event("worker.lost")])
    assert heard == ["job.failed", "job.retry_scheduled", "worker.lost"]


def test_the_feed_gets_what_it_has_room_for_and_listeners_get_all() -> None:
    feed = Feed(limit=3)
    events.send_to(feed)
    jobs = [ClaimedJob(id=str(number)) for number in range(5)]
    emit_jobs("job.started", jobs)
    assert [event.job_id for event in feed.sent] == ["0", "1", "2"]
    assert feed.left_out == 2

    heard: list[Any] = []
    on("job.*", lambda event: heard.append(event.job_id))
    emit_jobs("job.completed", jobs)
    emit("job.purged", job_id="9")
    assert heard == ["0", "1", "2", "3", "4", "9"]
    assert feed.left_out == 8


def test_jobs_of_one_type_are_told_by_their_ids() -> None:
    heard: list[Event] = []
    on("job.created", heard.append)
    emit_alike("job.created", ["1", "2"], type="resize", queue="images", by="a test")
    assert heard == [
        Event("job.created", each, "resize", "images", {"by": "a test"}) for each in ("1", "2")
    ]


def test_what_is_told_to_listeners_alone_never_reaches_the_feed() -> None:
    feed, seen = Feed(), list[Event]()
    events.send_to(feed)
    assert not events.heard("node.started")
    on("node.*", seen.append)
    assert events.heard("node.started")
    assert not events.heard("range.started")
    told = [Event("node.started"), Event("range.started")]
    events.tell_listeners(told)
    assert seen == told[:1]
    assert not feed.sent
