"""What a client is told, decided without a server: batches, coalescing, the chain, the window."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from jsonschema import Draft202012Validator

from jobs.errors import InvalidInput
from jobs.events import PUBLIC_NAMES
from jobs.live import batches, entries, messages, positions, topics, window
from jobs.live.batches import Batch, Part, Subscription, cut, merge
from jobs.live.entries import AFTER, TOUCHED, Entry, Uncounted
from jobs.live.owed import FeedIs, Frame, Owed, Resync
from jobs.live.positions import Position
from jobs.live.rate import Bucket
from jobs.live.window import Window
from jobs.publishing import PLENTIFUL

SCHEMA = json.loads(Path("docs/live-schema.json").read_text())
SENT = Draft202012Validator(SCHEMA)

NAMES = (
    "job.created",
    "job.completed",
    "job.progress",
    "job.dlq_entry",
    "queue.paused",
    "job.failed",
)
ID = "0198c0de-0000-7000-8000-000000000001"


def part_of(schema: str) -> Draft202012Validator:
    return Draft202012Validator({**SCHEMA, "oneOf": [{"$ref": f"#/$defs/{schema}"}]})


def one(name: str = "job.completed", at: int = 1, **fields: Any) -> Entry:
    return Entry((at, 0), name, 1767225600.0, **fields)


def subscription(*texts: str, may_see: bool = True) -> Subscription:
    return Subscription(topics=frozenset(map(topics.parse, texts)), may_see=may_see)


def batch(found: Sequence[Entry | Uncounted], prev: Position = (0, 0)) -> Batch:
    return Batch(prev=prev, to=found[-1].position if found else prev, found=found)


def told(part: Part) -> Counter[str]:
    """How often each name was told of, singly or as a number."""
    return Counter(entry.name for entry in part.events) + Counter(part.left_out)


names = st.sampled_from(NAMES)
events = st.lists(
    st.builds(
        lambda name, error: (name, {"error": error} if error else {}),
        names,
        st.text(max_size=300),
    ),
    max_size=120,
).map(
    lambda found: [
        one(name, n + 1, job_id=ID, facts=facts) for n, (name, facts) in enumerate(found)
    ]
)


# A frame's events


@given(events, st.booleans())
def test_a_frame_is_bounded_and_tells_of_everything(found: list[Entry], may_see: bool) -> None:
    part = cut(found, {}, may_see=may_see)
    assert len(part.events) <= batches.MOST_EVENTS
    assert sum(len(e.text(may_see=may_see)) for e in part.events) <= batches.MOST_BYTES
    assert told(part) == Counter(entry.name for entry in found)
    assert [e.position for e in part.events] == sorted(e.position for e in part.events)


@given(events)
def test_rare_events_are_kept_before_plentiful_ones_and_newer_before_older(
    found: list[Entry],
) -> None:
    kept = cut(found, {}, may_see=False).events
    gone = [entry for entry in found if entry not in kept]
    for lost in gone:
        for stayed in kept:
            if (lost.name in PLENTIFUL) == (stayed.name in PLENTIFUL):
                assert lost.position < stayed.position
            else:
                assert lost.name in PLENTIFUL


def test_large_events_are_cut_by_size() -> None:
    found = [one("job.failed", n, facts={"error": "x" * 5_000}) for n in range(1, 41)]
    assert 5 < len(cut(found, {}, may_see=True).events) < 20
    assert len(cut(found, {}, may_see=False).events) == 40


@given(st.lists(events, max_size=6))
def test_a_client_that_is_late_gets_one_bounded_frame_with_all_counts(
    found: list[list[Entry]],
) -> None:
    whole = Part()
    for each in found:
        whole = merge(whole, cut(each, {}, may_see=True), may_see=True)
    assert len(whole.events) <= batches.MOST_EVENTS
    assert told(whole) == Counter(entry.name for each in found for entry in each)


def test_counts_of_many_names_stay_bounded() -> None:
    counts: dict[str, int] = {}
    for number in range(1_000):
        entries.add_counts(counts, {f"made.up{number}": 2})
    assert len(counts) == entries.MOST_NAMES + 1
    assert sum(counts.values()) == 2_000


@given(events, st.integers(0, 30))
def test_a_replay_is_whole_in_order_and_ends_where_the_gap_ends(
    found: list[Entry], more: int
) -> None:
    entire: list[Entry | Uncounted] = [*found, Uncounted((10_000, 0), {"job.created": more + 1})]
    pieces = list(batch(entire).pieces(subscription("log")))
    assert [e for _, part in pieces for e in part.events] == found
    assert all(len(part.events) <= batches.MOST_EVENTS for _, part in pieces)
    assert sum(sum(part.left_out.values()) for _, part in pieces) == more + 1
    assert pieces[-1][0] == (10_000, 0)
    ends = [to for to, _ in pieces]
    assert ends == sorted(ends)
    for to, part in pieces:
        assert all(entry.position <= to for entry in part.events)


def test_equal_clients_share_one_part() -> None:
    shared = batch([one(at=n) for n in range(1, 5)])
    assert shared.part_for(subscription("log")) is shared.part_for(subscription("log"))
    assert shared.part_for(subscription("log")) is not shared.part_for(
        subscription("log", may_see=False)
    )


# The chain


class Chain(RuleBasedStateMachine):
    """A client is told things at random moments; whatever happens, its frames join."""

    def __init__(self) -> None:
        super().__init__()
        self.owed = Owed()
        self.wanted = subscription("log")
        self.end: Position = (0, 0)
        self.has: Position = (0, 0)
        self.happened: Counter[str] = Counter()
        self.heard: Counter[str] = Counter()

    @rule(found=st.lists(names, min_size=1, max_size=80), uncounted=st.integers(0, 5))
    def something_happens(self, found: list[str], uncounted: int) -> None:
        begin = self.end
        made: list[Entry | Uncounted] = [
            Entry((begin[0] + n + 1, 0), name, 0.0) for n, name in enumerate(found)
        ]
        self.happened += Counter(found)
        if uncounted:
            made.append(Uncounted((begin[0] + len(found) + 1, 0), {"job.log": uncounted}))
            self.happened["job.log"] += uncounted
        self.end = made[-1].position
        self.owed.add(Batch(prev=begin, to=self.end, found=made), self.wanted)

    @rule()
    def nothing_the_client_asked_for_happens(self) -> None:
        begin, self.end = self.end, (self.end[0] + 1, 0)
        self.owed.add(Batch(prev=begin, to=self.end, found=[]), self.wanted)

    @rule()
    def numbers_come(self) -> None:
        self.owed.add_stats("{}")

    @rule()
    def the_feed_comes_back(self) -> None:
        self.owed.add_feed("live")
        self.owed.add_resync(self.end, "outage")
        self.happened.clear()
        self.heard.clear()

    @rule()
    def the_client_is_told(self) -> None:
        match self.owed.take():
            case Frame(prev=prev, to=to, part=part):
                assert prev == self.has
                self.has = to
                self.heard += told(part)
            case Resync(to=to):
                self.has = to
            case FeedIs() | None:
                pass

    @rule()
    def the_client_is_told_that_all_is_well(self) -> None:
        if not self.owed.is_due:
            frame = self.owed.take_frame()
            assert (frame.prev, frame.to, frame.part) == (self.has, self.end, Part())
            self.has = self.end

    @invariant()
    def what_was_told_has_happened(self) -> None:
        assert self.heard <= self.happened

    def teardown(self) -> None:
        while self.owed.is_due:
            self.the_client_is_told()
        assert self.heard == self.happened


TestChain = Chain.TestCase


def test_a_client_that_joins_in_the_middle_of_a_batch_is_told_the_rest() -> None:
    owed = Owed((2, 0))
    owed.add(batch([one(at=n) for n in range(1, 5)]), subscription("log"))
    frame = owed.take_frame()
    assert [entry.position for entry in frame.part.events] == [(3, 0), (4, 0)]
    assert (frame.prev, frame.to) == ((2, 0), (4, 0))


# The window


@given(st.lists(st.tuples(st.integers(1, 200_000), st.booleans()), max_size=60))
def test_no_more_is_on_its_way_than_the_window_allows(steps: list[tuple[int, bool]]) -> None:
    tried = Window()
    on_its_way: list[tuple[Position, int]] = []
    for number, (size, acknowledges) in enumerate(steps, start=1):
        if tried.is_open:
            tried.sent((number, 0), size, 0.0)
            on_its_way.append(((number, 0), size))
        assert len(on_its_way) <= window.FRAMES
        assert sum(size for _, size in on_its_way[:-1]) < window.BYTES
        if acknowledges and on_its_way:
            position, _ = on_its_way.pop(0)
            tried.acknowledge(position, 0.0)
    if not on_its_way:
        assert tried.is_open


def test_patience_begins_with_the_oldest_frame_or_the_last_acknowledgement() -> None:
    tried = Window()
    assert not tried.is_stuck(1e9)
    tried.sent((1, 0), 10, 100.0)
    tried.sent((2, 0), 10, 120.0)
    assert tried.gives_up_at == 100.0 + window.PATIENCE_SECONDS
    tried.acknowledge((1, 0), 125.0)
    assert not tried.is_stuck(154.9)
    assert tried.is_stuck(155.0)
    tried.acknowledge((2, 0), 155.0)
    assert not tried.is_stuck(1e9)


def test_a_client_cannot_acknowledge_what_it_was_not_sent() -> None:
    tried = Window()
    for number in range(1, window.FRAMES + 1):
        tried.sent((number, 0), 10, 0.0)
    for beyond in ((number, 1), (2**64, 0)):
        tried.acknowledge(beyond, window.PATIENCE_SECONDS)
    assert not tried.is_open
    assert tried.is_stuck(window.PATIENCE_SECONDS)
    tried.acknowledge((number, 0), window.PATIENCE_SECONDS)
    assert tried.is_open


def test_after_the_stream_began_anew_the_old_place_may_still_be_acknowledged() -> None:
    tried = Window()
    tried.sent((100, 0), 10, 0.0)
    tried.sent((5, 0), 10, 0.0)
    tried.acknowledge((100, 0), 1.0)
    tried.acknowledge((5, 0), 1.0)
    assert not tried.is_stuck(1e9)


def test_answers_to_a_client_that_does_not_read_are_bounded_too() -> None:
    tried = Window()
    for _ in range(100):
        tried.sent((1, 0), 10_000, 0.0, is_frame=False)
    assert tried.is_stuck(0.0)


def test_a_bucket_lets_through_a_burst_and_then_a_rate() -> None:
    bucket = Bucket(per_second=10, at_once=5, now=0.0)
    assert [bucket.take(0.0) for _ in range(6)] == [True] * 5 + [False]
    assert bucket.take(0.1)
    assert not bucket.take(0.1)
    assert [bucket.take(100.0) for _ in range(6)] == [True] * 5 + [False]


# Topics

RUN, WORKER, SCHEDULE, BULK = (f"0198c0de-0000-7000-8000-00000000000{n}" for n in range(2, 6))

HAPPENED = {
    "created": one(
        "job.created", 1, job_id=ID, type="mail", queue="a", facts={"schedule_id": SCHEDULE}
    ),
    "dead": one("job.dlq_entry", 2, job_id=ID, type="mail", queue="a"),
    "other": one("job.started", 3, job_id=RUN, type="resize", queue="b"),
    "progress": one("job.progress", 4, job_id=ID, type="mail", queue="a"),
    "log": one("job.log", 5, job_id=ID),
    "paused": one("queue.paused", 6, queue="a"),
    "lost": one("worker.lost", 7, facts={"worker_id": WORKER}),
    "missed": one("schedule.missed", 8, type="mail", queue="a", facts={"schedule_id": SCHEDULE}),
    "run": one("range.paused", 9, job_id=ID, queue="a", facts={"run_id": RUN}),
    "node": one("node.split", 10, job_id=ID, queue="a", facts={"run_id": RUN}),
    "bulk": one("bulk.updated", 11, facts={"id": BULK}),
    "alert": one("alert.dead_letters", 12),
    "reset": one("jobs.reset", 13),
}


@pytest.mark.parametrize(
    ("topic", "expected"),
    [
        ("overview", "created dead other paused lost missed run bulk alert"),
        ("jobs", "created dead other progress log"),
        ("jobs?type=mail", "created dead progress"),
        ("jobs?queue=b", "other"),
        ("jobs?type=mail,resize&queue=b", "other"),
        ("jobs?state=dead", "dead"),
        ("jobs?state=running&type=resize,mail", "dead other progress"),
        ("jobs?state=ready", "created dead other"),
        (f"job:{ID}", "created dead progress log run node"),
        (f"job:{ID.upper()}", "created dead progress log run node"),
        ("queues", "paused"),
        ("queue:a", "created dead progress paused missed run node"),
        ("workers", "lost"),
        (f"worker:{WORKER}", "lost"),
        ("schedules", "created missed"),
        (f"schedule:{SCHEDULE}", "created missed"),
        ("runs", "run"),
        (f"run:{RUN}", "run node"),
        ("bulk", "bulk"),
        (f"bulk:{BULK}", "bulk"),
        (f"bulk:{RUN}", ""),
        ("log", "created dead other progress log paused lost missed run node bulk alert"),
        ("log?event=job.*", "created dead other progress log"),
        ("log?event=job.d*,queue.paused", "dead paused"),
        (f"log?job={ID}&event=*.split", "node"),
        ("log?queue=a&type=mail", "created dead progress missed"),
    ],
)
def test_a_topic_tells_what_it_names(topic: str, expected: str) -> None:
    whole = batch(list(HAPPENED.values()))
    told = whole.part_for(subscription(topic)).events
    by_entry = {id(entry): name for name, entry in HAPPENED.items()}
    assert [by_entry[id(entry)] for entry in told] == [*expected.split(), "reset"]
    wanted = topics.parse(topic)
    for entry in told:  # what may be meant singly may be counted too
        assert wanted.could_be(entry.name)


def test_topics_add_up_without_doubles() -> None:
    whole = batch(list(HAPPENED.values()))
    told = whole.part_for(subscription("queue:a", "jobs", "workers")).events
    assert len(told) == len(set(told))
    assert {entry.name for entry in told} >= {"queue.paused", "worker.lost", "job.started"}


def test_a_state_lets_through_more_rather_than_less() -> None:
    wanted = topics.parse("jobs?state=dead")
    assert wanted.could_be("job.dlq_entry")
    assert wanted.could_be("job.retried")
    assert wanted.could_be("job.purged")
    assert wanted.could_be("job.something_new")
    assert not wanted.could_be("job.started")


@pytest.mark.parametrize(
    "text",
    [
        "", "nonsense", "job", "job:", "job:7", "queue", "queue:", "run:x", "overview?type=a", "jobs?",
        "jobs?colour=red", "jobs?state=angry", "jobs?type=", "log?event=a b", "log?event=[a]", "log?job=1",
        "queues:a", "jobs?type=" + "x" * 201, "x" * 501, "jobs?type=" + ",".join("ab" for _ in range(51)),
    ],
)  # fmt: skip
def test_a_topic_that_does_not_exist_is_refused(text: str) -> None:
    if text == "jobs?":
        assert topics.parse("jobs?").text == "jobs?"  # no filter is no filter
        return
    with pytest.raises(InvalidInput):
        topics.parse(text)


def test_a_topic_is_one_thing_however_it_is_written() -> None:
    assert topics.parse("jobs?queue=b,a&type=x") == topics.parse("jobs?type=x&queue=a&queue=b")


@given(st.text(max_size=80))
def test_any_text_is_a_topic_or_refused(text: str) -> None:
    for start in ("", "job:", "queue:", "jobs?", "log?event=", "log?job="):
        try:
            topics.parse(start + text)
        except InvalidInput:
            continue


# What comes in

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(st.text(max_size=60) | json_values.map(json.dumps))
def test_any_message_is_understood_or_refused(text: str) -> None:
    try:
        messages.read(text)
    except InvalidInput:
        return


@given(
    st.fixed_dictionaries(
        {"op": st.sampled_from(["sub", "unsub", "ack", "replay"])},
        optional={
            "topics": json_values,
            "after": json_values,
            "seq": json_values,
            "more": json_values,
        },
    )
)
def test_what_is_understood_follows_the_schema(found: dict[str, Any]) -> None:
    try:
        messages.read(json.dumps(found))
    except InvalidInput:
        return
    found = {key: value for key, value in found.items() if value is not None}
    part_of("from_client").validate(found)


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "1", "null", '"sub"', "{}", '{"op": "dance"}', '{"op": ["sub"]}', '{"op": "sub"}',
        '{"op": "sub", "topics": []}', '{"op": "sub", "topics": "overview"}', '{"op": "sub", "topics": [1]}',
        '{"op": "sub", "topics": ["overview"], "after": "now"}', '{"op": "ack"}', '{"op": "ack", "seq": 5}',
        '{"op": "ack", "seq": "5"}', '{"op": "ack", "seq": "99999999999999999999-0"}', '{"op": "replay"}',
        '{"op": "unsub", "topics": ["overview"], "after": "1-1"}', '{"op": "sub", "topics": ["\\ud800"]}',
        "[" * 100_000,
    ],
)  # fmt: skip
def test_a_message_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        messages.read(text)


@given(st.binary(max_size=60) | json_values.map(lambda value: json.dumps(value).encode()))
def test_nothing_in_the_stream_makes_a_reader_stumble(text: bytes) -> None:
    found = entries.read((1, 0), text)
    assert found is None or isinstance(found, Entry | Uncounted)


@given(
    st.fixed_dictionaries(
        {"name": st.text(max_size=20), "at": st.integers(0, 10)},
        optional={
            "job_id": st.uuids().map(str) | json_values, "type": json_values, "queue": json_values,
            "facts": st.dictionaries(st.text(max_size=8), json_values, max_size=4), "counts": json_values,
        },
    ),
    st.booleans(),
)  # fmt: skip
def test_whatever_is_in_the_stream_goes_out_by_the_schema(
    found: dict[str, Any], may_see: bool
) -> None:
    entry = entries.read((1, 0), json.dumps(found))
    if isinstance(entry, Entry):
        text = messages.render_frame(
            Frame(prev=(0, 0), to=(1, 0), part=Part(events=(entry,))), at=1.0, may_see=may_see
        )
        if entry.name:
            SENT.validate(json.loads(text, parse_constant=pytest.fail))
        assert len(messages.as_events(
            Frame(prev=(0, 0), to=(1, 0), part=Part(events=(entry,))), at=1.0, may_see=may_see
        )[0].rstrip("\n").split("\n")) == 3  # fmt: skip


@pytest.mark.parametrize(
    "odd",
    [
        {"job_id": "x"}, {"job_id": ""}, {"job_id": 7}, {"job_id": ["a"]}, {"job_id": "a/b"},
        {"at": -1}, {"at": 1e12}, {"at": 1e300}, {"at": float("nan")}, {"at": float("inf")},
        {"at": None}, {"at": "soon"}, {"facts": {"error": "\ud800"}}, {"facts": {"\udfff": 1}},
        {"type": "\ud800"}, {"queue": "\ud800"}, {"name": "\ud800"}, {"facts": {"rate": float("nan")}},
        {"facts": {"rate": float("-inf")}}, {"facts": ["error"]},
        {"name": "events.left_out", "counts": {"a": float("inf")}},
    ],
)  # fmt: skip
def test_what_no_page_could_show_is_not_ours(odd: dict[str, Any]) -> None:
    whole = {
        "name": "job.failed",
        "at": 1.5,
        "job_id": ID,
        "type": "\U0001f98a",
        "facts": {"n": 1e3},
    }
    assert entries.read((1, 0), json.dumps(whole)) is not None
    assert entries.read((1, 0), json.dumps({**whole, **odd})) is None


def test_a_number_too_large_for_anybody_is_not_ours() -> None:
    assert entries.read((1, 0), b'{"name": "a", "at": 1, "facts": {"n": 1e999}}') is None


# What goes out


@given(events, st.booleans(), st.integers(0, 3))
def test_a_frame_follows_the_schema(found: list[Entry], may_see: bool, left_out: int) -> None:
    part = cut(found, {"job.created": left_out} if left_out else {}, may_see=may_see)
    frame = Frame(prev=(1, 2), to=(3, 4), part=part)
    SENT.validate(json.loads(messages.render(frame, at=5.0, may_see=may_see)))


@pytest.mark.parametrize("message", [Resync(to=(1, 2), why="behind"), FeedIs(feed="away")])
def test_the_other_messages_follow_the_schema(message: Resync | FeedIs) -> None:
    SENT.validate(json.loads(messages.render(message, at=5.0, may_see=True)))


def test_errors_are_hidden_from_those_who_may_not_see_payloads() -> None:
    entry = one("job.failed", facts={"error": "card 4111 refused", "attempt": 2})
    full, reduced = (json.loads(entry.text(may_see=may_see)) for may_see in (True, False))
    assert full["facts"]["error"] == "card 4111 refused"
    assert "hidden" not in full
    assert reduced["facts"] == {"error": None, "attempt": 2}
    assert reduced["hidden"] == ["error"]
    assert "4111" not in entry.text(may_see=False)


def test_nothing_is_hidden_where_there_is_nothing() -> None:
    entry = one("job.failed", facts={"error": "", "attempt": 2})
    assert "hidden" not in json.loads(entry.text(may_see=False))


def test_payloads_do_not_travel_even_if_a_stranger_wrote_them_into_the_stream() -> None:
    text = json.dumps({"name": "job.failed", "at": 1, "facts": {"payload": {"a": 1}, "result": 2}})
    entry = entries.read((1, 0), text)
    assert isinstance(entry, Entry)
    assert entry.facts == {}


def test_the_status_after_an_event_is_told_where_it_is_known() -> None:
    expected = {
        "job.created": "pending", "job.started": "processing", "job.completed": "completed",
        "job.retry_scheduled": "pending", "job.dlq_entry": "failed", "job.cancelled": "cancelled",
        "job.retried": "pending", "job.held": "pending", "job.failed": None, "job.purged": None,
        "job.log": None, "queue.paused": None,
    }  # fmt: skip
    assert {name: one(name, job_id=ID).status for name in expected} == expected
    assert one("job.failed", job_id=ID, facts={"status": "failed"}).status == "failed"
    assert one("bulk.updated", facts={"status": "running"}).status is None
    public = {name for each in PUBLIC_NAMES.values() for name in each}
    assert public <= set(TOUCHED)
    assert set(AFTER) <= set(TOUCHED)


@pytest.mark.parametrize("text", ["1-1", "0-0", "18446744073709551615-18446744073709551615"])
def test_a_position_reads_as_it_is_written(text: str) -> None:
    assert positions.write(positions.parse(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "1-",
        "-1",
        "a-b",
        "1-1 ",
        "1-1\n",
        "\uff11-\uff11",
        "18446744073709551616-0",
        None,
        1,
        ["1-1"],
    ],
)
def test_what_is_no_position_is_refused(text: object) -> None:
    with pytest.raises(InvalidInput):
        positions.parse(text)
