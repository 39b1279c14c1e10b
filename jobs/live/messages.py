"""Messages as they go out, and as they come in. docs/live-schema.json says the same."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from jobs.errors import InvalidInput
from jobs.live import topics
from jobs.live.owed import FeedIs, Frame, Message, Resync
from jobs.live.positions import Position, parse, write
from jobs.live.topics import Topic

VERSION = 1
MESSAGE_LENGTH = 16 * 1024
"""The longest message from a client."""


# To a socket


def render(message: Message, *, at: float, may_see: bool) -> str:
    match message:
        case Frame():
            return render_frame(message, at=at, may_see=may_see)
        case Resync(to=to, why=why, within=within):
            return _object("resync", at, seq=write(to), why=why, within=within)
        case FeedIs(feed=feed):
            return _object("status", at, feed=feed)


def render_frame(frame: Frame, *, at: float, may_see: bool) -> str:
    """Put together from texts that are made once for all clients."""
    events = ",".join(event.text(may_see=may_see) for event in frame.part.events)
    stats = f',"stats":{frame.stats}' if frame.stats is not None else ""
    return (
        f'{{"v":{VERSION},"op":"frame","at":{at:.3f},"prev":"{write(frame.prev)}"'
        f',"seq":"{write(frame.to)}","events":[{events}]'
        f',"left_out":{json.dumps(frame.part.left_out, separators=(",", ":"))}{stats}}}'
    )


def ready(position: Position, topics: Iterable[Topic], *, feed: str, at: float) -> str:
    named = sorted(topic.text for topic in topics)
    return _object("ready", at, seq=write(position), topics=named, feed=feed)


def error(code: str, message: str, *, at: float) -> str:
    return _object("error", at, code=code, message=message)


def _object(op: str, at: float, **fields: Any) -> str:
    return json.dumps({"v": VERSION, "op": op, "at": round(at, 3), **fields})


# To a stream of server-sent events


def as_events(message: Message, *, at: float, may_see: bool) -> list[str]:
    """One message of the stream for each thing to tell.

    What was left out is told first and has no id: whoever breaks off after it has been told, and
    whoever breaks off before it asks for all of the batch again.
    """
    match message:
        case Frame(to=to, part=part, stats=stats):
            told = []
            if part.left_out:
                told.append(event("events.left_out", json.dumps({"left_out": part.left_out})))
            told += [
                event(each.name, each.text(may_see=may_see), each.position) for each in part.events
            ]
            if stats is not None:
                told.append(event(topics.STATS, stats))
            if not part.events or part.events[-1].position != to:
                told.append(f"id: {write(to)}\n\n")
            return told
        case Resync(to=to, why=why, within=within):
            data = {"seq": write(to), "at": round(at, 3), "why": why, "within": within}
            return [event("resync", json.dumps(data), to)]
        case FeedIs(feed=feed):
            return [event("status", json.dumps({"at": round(at, 3), "feed": feed}))]


def event(name: str, data: str, position: Position | None = None) -> str:
    place = "" if position is None else f"id: {write(position)}\n"
    # A name is any text that a process has sent: it must not end the line.
    return f"{place}event: {' '.join(name.split())}\ndata: {data}\n\n"


# From a socket


@dataclass(frozen=True, kw_only=True)
class Sub:
    topics: frozenset[Topic]
    after: Position | None = None


@dataclass(frozen=True, kw_only=True)
class Unsub:
    topics: frozenset[Topic]


@dataclass(frozen=True, kw_only=True)
class Ack:
    seq: Position


@dataclass(frozen=True, kw_only=True)
class Replay:
    after: Position


type Request = Sub | Unsub | Ack | Replay

_FIELDS = {
    "sub": {"op", "topics", "after"},
    "unsub": {"op", "topics"},
    "ack": {"op", "seq"},
    "replay": {"op", "after"},
}


def read(text: str) -> Request:
    """Raises InvalidInput, whatever was sent."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidInput("is no JSON", field="message") from None
    if not isinstance(found, dict):
        raise InvalidInput("must be an object", field="message")
    op = found.get("op")
    fields = _FIELDS.get(op) if isinstance(op, str) else None
    if fields is None:
        raise InvalidInput("must be sub, unsub, ack or replay", field="op")
    for name in found:
        if name not in fields:
            raise InvalidInput(f"there is no field {name[:60]!r}", field=str(op))
    match op:
        case "sub":
            after = found.get("after")
            return Sub(
                topics=topics.parse_all(found.get("topics")),
                after=None if after is None else parse(after),
            )
        case "unsub":
            return Unsub(topics=topics.parse_all(found.get("topics")))
        case "ack":
            return Ack(seq=parse(found.get("seq"), "seq"))
        case _:
            return Replay(after=parse(found.get("after")))
