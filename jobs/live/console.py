"""The WebSocket of the console: topics, frames, acknowledgement."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import structlog
from channels.generic.websocket import AsyncWebsocketConsumer
from django.http import HttpRequest

from jobs.errors import InvalidInput
from jobs.live import connections, gate, messages, stream, topics
from jobs.live.follower import Follower
from jobs.live.gate import Person, Refused
from jobs.live.hub import hub, in_thread
from jobs.live.messages import Ack, Replay, Sub, Unsub
from jobs.live.owed import FeedIs, Frame, Message, Resync
from jobs.live.rate import Bucket
from jobs.live.window import Window

BAD_MESSAGE = 4400
TOO_SLOW = 4408
NO_FEED = 4501
BROKEN = 4500

MESSAGES_PER_SECOND = 20.0
MESSAGES_AT_ONCE = 40

_log = structlog.get_logger("coppice.live")

type Send = Callable[[str], Awaitable[None]]


class Console(AsyncWebsocketConsumer):
    """Accepts or refuses, and carries messages between the socket and the conversation."""

    channel_layer_alias = None
    """No channel layer, whatever the project has: the hub is enough."""

    conversation: Conversation | None = None
    task: asyncio.Task[None] | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:  # also when the server cancels what takes too long
            self._leave()

    async def dispatch(self, message: dict[str, Any]) -> None:
        # Channels would look after database connections here, in a thread, at each message.
        match message["type"]:
            case "websocket.connect":
                await self.connect()
            case "websocket.receive":
                if self.conversation is not None:
                    self.conversation.hear(message.get("text"))
            case "websocket.disconnect":
                await self.websocket_disconnect(message)

    async def connect(self) -> None:
        try:
            request = gate.request_of(self.scope)
            person = await in_thread(gate.admit, request, is_socket=True)
            conversation = Conversation(request, person, self.send)
            connections.enter(conversation.receiver)
        except Refused as refused:
            _log.info("a live socket was refused", status=refused.status, reason=refused.detail)
            await self.close()
            return
        self.conversation = conversation
        await self.accept()
        if not stream.is_configured():
            await self.close(NO_FEED)
            return
        await hub().enter(conversation.receiver)
        self.task = asyncio.create_task(self._talk(conversation), name="coppice-live-console")

    async def _talk(self, conversation: Conversation) -> None:
        try:
            await conversation.run()
            await self.close(conversation.receiver.ended_with)
        except Exception:  # noqa: BLE001 - the console comes back by itself
            _log.exception("a live socket broke")
            await self.close(BROKEN)

    def _leave(self) -> None:
        if self.task is not None:
            self.task.cancel()
        if self.conversation is not None:
            hub().leave(self.conversation.receiver)
            connections.leave(self.conversation.receiver)
            self.conversation = None


class Conversation(Follower):
    """What one socket has asked for, has been sent and has acknowledged."""

    is_socket = True

    def __init__(self, request: HttpRequest, person: Person, send: Send) -> None:
        super().__init__(request, person)
        self._send = send
        self._window = Window()
        self._replies: list[Callable[[], str]] = []
        """Made when they are sent: where the client stands then is what they tell."""
        self._bucket = Bucket(MESSAGES_PER_SECOND, MESSAGES_AT_ONCE, self._clock())

    # What the client says

    def hear(self, text: str | None) -> None:
        """Never raises: what cannot be understood ends the conversation."""
        if self.receiver.ended_with is not None:
            return
        if not self._bucket.take(self._clock()):
            self._refuse("too_fast", f"at most {MESSAGES_PER_SECOND:g} messages a second")
        elif text is None:
            self._refuse("bad_message", "messages are text")
        elif len(text) > messages.MESSAGE_LENGTH:
            self._refuse("too_large", f"at most {messages.MESSAGE_LENGTH} characters")
        else:
            try:
                self._obey(messages.read(text))
            except InvalidInput as error:
                code = "bad_topic" if error.field == "topics" else "bad_message"
                self._refuse(code, str(error))
        self.receiver.changed.set()

    def _obey(self, request: messages.Request) -> None:
        known = self.receiver.subscription.topics
        match request:
            case Ack(seq=seq):
                self._window.acknowledge(seq, self._clock())
            case Sub(topics=wanted, after=after):
                filtered = sum(topic.is_filtered for topic in known | wanted)
                if len(known | wanted) > topics.TOPICS or filtered > topics.FILTERED:
                    limits = f"{topics.TOPICS} topics, {topics.FILTERED} of them with filters"
                    self._refuse("too_many_topics", f"at most {limits}")
                    return
                self._follow(known | wanted)
                if after is not None:
                    self.replay_after = after
                elif not known:
                    self.receiver.join(self._hub.position)
                self._hub.show_stats(self.receiver)
                self._reply_ready()
            case Unsub(topics=unwanted):
                self._follow(known - unwanted)
                if not known - unwanted:
                    self.receiver.part()
                    self.replay_after = None
                self._reply_ready()
            case Replay(after=after):
                if not known:
                    raise InvalidInput("needs topics", field="replay")
                self.replay_after = after

    def _follow(self, wanted: frozenset[topics.Topic]) -> None:
        self.receiver.subscription = replace(self.receiver.subscription, topics=wanted)

    def _reply_ready(self) -> None:
        self._replies.append(
            lambda: messages.ready(
                self.replay_after or self.receiver.owed.told,
                self.receiver.subscription.topics,
                feed=self._hub.feed,
                at=time.time(),
            )
        )

    def _refuse(self, code: str, message: str) -> None:
        self._replies.append(lambda: messages.error(code, message, at=time.time()))
        self.receiver.ended_with = BAD_MESSAGE

    # What the client is told

    async def before_telling(self) -> None:
        while self._replies:
            reply = self._replies.pop(0)()
            self._window.sent(self.receiver.owed.told, len(reply), self._clock(), is_frame=False)
            await self._send(reply)
        if self.receiver.ended_with is None and self._window.is_stuck(self._clock()):
            self.receiver.ended_with = TOO_SLOW

    def has_room(self) -> bool:
        return self._window.is_open

    def wakes_at(self) -> float:
        return self._window.gives_up_at

    async def tell(self, message: Message) -> None:
        may_see = self.receiver.subscription.may_see
        text = messages.render(message, at=time.time(), may_see=may_see)
        match message:
            case Frame(to=to) | Resync(to=to):
                self._window.sent(to, len(text), self._clock())
            case FeedIs():
                position = self.receiver.owed.told
                self._window.sent(position, len(text), self._clock(), is_frame=False)
        await self._send(text)
