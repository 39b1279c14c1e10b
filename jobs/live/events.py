"""Server-sent events: one message for each event, with its position as id."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

import structlog
from channels.consumer import AsyncConsumer
from channels.exceptions import StopConsumer
from django.conf import settings
from django.http import HttpRequest

from jobs.errors import InvalidInput
from jobs.live import connections, gate, messages, positions, stream, topics
from jobs.live.follower import Follower
from jobs.live.gate import Person, Refused
from jobs.live.hub import hub, in_thread
from jobs.live.owed import Frame, Message
from jobs.live.positions import Position

MOST_BYTES = 1_000_000
MOST_SECONDS = 300.0
RETRY_MILLISECONDS = (1_000, 3_000)
"""Between these each client comes back after a time of its own."""

OVER = 1000
PARAMETERS = frozenset({"type", "queue", "job", "event", "after"})
HEADERS = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    # Neither stored nor changed on its way: a compressing proxy would hold it back.
    (b"cache-control", b"no-cache, no-store, no-transform"),
    (b"x-accel-buffering", b"no"),
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"same-origin"),
)

_log = structlog.get_logger("coppice.live")

type Send = Callable[[str], Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What a request asks for."""

    topic: topics.Topic
    after: Position | None

    @classmethod
    def of(cls, request: HttpRequest) -> Wish:
        """Raises InvalidInput naming the parameter."""
        given = {name: request.GET.getlist(name) for name in request.GET}
        for name in given:
            if name not in PARAMETERS:
                raise InvalidInput("there is no such parameter", field=name[:60])
        filters = topics.parse_filters(given)
        kind = replace(topics.WIDE["log"], has_stats=filters.wants_stats)
        after = request.META.get("HTTP_LAST_EVENT_ID") or next(iter(given.get("after", ())), None)
        return cls(
            topic=topics.Topic(text=f"events {filters}", kind=kind, filters=filters),
            after=None if after is None else positions.parse(after),
        )


class EventStream(AsyncConsumer):
    """Answers the request, and ends when the client or the server has had enough."""

    channel_layer_alias = None
    """No channel layer, whatever the project has: the hub is enough."""

    listening: Listening | None = None
    task: asyncio.Task[None] | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:  # also when the server cancels what takes too long
            self._leave()

    async def dispatch(self, message: dict[str, Any]) -> None:
        match message["type"]:
            case "http.request" if not message.get("more_body"):
                await self._begin()
            case "http.disconnect":
                raise StopConsumer

    async def _begin(self) -> None:
        try:
            request = gate.request_of(self.scope)
            wish = await self._admit(request)
        except InvalidInput as error:
            await self._answer(400, {error.field: [error.message]})
        except Refused as refused:
            await self._answer(refused.status, {"detail": refused.detail})
        else:
            if self.scope["method"] == "HEAD":
                self._leave()
                await self._send_head(request)
                await self.send({"type": "http.response.body", "body": b""})
            else:
                await self._start(request, wish)

    async def _admit(self, request: HttpRequest) -> Wish:
        person = await in_thread(gate.admit, request, is_socket=False)
        wish = Wish.of(request)
        if not stream.is_configured():
            raise Refused(503, "No live feed is configured (COPPICE_REDIS_URL).")
        listening = Listening(request, person, self._send_text)
        connections.enter(listening.receiver)
        self.listening = listening
        return wish

    async def _start(self, request: HttpRequest, wish: Wish) -> None:
        listening = self.listening
        assert listening is not None
        await self._send_head(request)
        await hub().enter(listening.receiver)
        await listening.begin(wish)
        self.task = asyncio.create_task(self._talk(listening), name="coppice-live-events")

    async def _send_head(self, request: HttpRequest) -> None:
        headers = [*HEADERS, *_cors(request)]
        await self.send({"type": "http.response.start", "status": 200, "headers": headers})

    async def _talk(self, listening: Listening) -> None:
        try:
            await listening.run()
        except Exception:  # noqa: BLE001 - the client comes back by itself
            _log.exception("a live stream of events broke")
        await self.send({"type": "http.response.body", "body": b": bye\n\n"})

    async def _send_text(self, text: str) -> None:
        body = text.encode(errors="replace")
        await self.send({"type": "http.response.body", "body": body, "more_body": True})

    async def _answer(self, status: int, content: dict[str, Any]) -> None:
        headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]
        if status == 401:
            headers.append((b"www-authenticate", b'Token realm="Coppice"'))
        if status in (429, 503):
            headers.append((b"retry-after", b"10"))
        body = json.dumps(content).encode()
        headers.append((b"content-length", str(len(body)).encode()))
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})

    def _leave(self) -> None:
        if self.task is not None:
            self.task.cancel()
        if self.listening is not None:
            hub().leave(self.listening.receiver)
            connections.leave(self.listening.receiver)
            self.listening = None


class Listening(Follower):
    """One response. It is short, since there is no other limit to what a client leaves unread."""

    def __init__(self, request: HttpRequest, person: Person, send: Send) -> None:
        super().__init__(request, person)
        self._send = send
        self._sent = 0
        self._ends_at = self._clock() + MOST_SECONDS * (0.8 + random.random() / 5)

    async def begin(self, wish: Wish) -> None:
        receiver = self.receiver
        receiver.subscription = replace(receiver.subscription, topics=frozenset({wish.topic}))
        self.replay_after = wish.after
        if wish.after is None:
            receiver.join(self._hub.position)
        self._hub.show_stats(receiver)
        position = wish.after or self._hub.position
        data = {"v": messages.VERSION, "seq": positions.write(position)}
        data |= {"at": round(time.time(), 3), "feed": self._hub.feed}
        retry = random.randint(*RETRY_MILLISECONDS)
        await self._write(f"retry: {retry}\n{messages.event('ready', json.dumps(data), position)}")

    async def tell(self, message: Message) -> None:
        may_see = self.receiver.subscription.may_see
        told = messages.as_events(message, at=time.time(), may_see=may_see)
        if isinstance(message, Frame) and not message.part and message.stats is None:
            told.insert(0, ": still here\n\n")
        await self._write("".join(told))

    def has_room(self) -> bool:
        return self._sent < MOST_BYTES and self._clock() < self._ends_at

    async def before_telling(self) -> None:
        if self.receiver.ended_with is None and not self.has_room():
            self.receiver.ended_with = OVER

    def wakes_at(self) -> float:
        return self._ends_at

    async def _write(self, text: str) -> None:
        if text:
            self._sent += len(text)
            await self._send(text)


def _cors(request: HttpRequest) -> list[tuple[bytes, bytes]]:
    """For pages of other sites that the project lets in. They have a token: no cookies."""
    origin = request.META.get("HTTP_ORIGIN")
    if origin and origin in getattr(settings, "CORS_ALLOWED_ORIGINS", ()):
        return [(b"access-control-allow-origin", origin.encode()), (b"vary", b"Origin")]
    return []
