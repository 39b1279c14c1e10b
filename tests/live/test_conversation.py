"""What one socket is told, by a conversation without a server: orders that a network rarely shows."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from django.http import HttpRequest

from jobs.live.batches import Batch
from jobs.live.console import Conversation
from jobs.live.entries import Entry
from jobs.live.gate import Person


def batch(number: int) -> Batch:
    entry = Entry((number, 0), "queue.paused", 1.0, queue="mail")
    return Batch(prev=(number - 1, 0), to=(number, 0), found=[entry])


def test_topics_that_are_added_while_a_frame_is_on_its_way_do_not_break_the_chain() -> None:
    heard: list[dict[str, Any]] = []
    conversation: Conversation

    async def send(text: str) -> None:
        message = json.loads(text)
        heard.append(message)
        if message["op"] == "frame" and message["seq"] == "1-0":
            conversation.hear('{"op": "sub", "topics": ["overview"]}')
            conversation.receiver.take(batch(2))
        await asyncio.sleep(0)

    async def talk() -> None:
        nonlocal conversation
        conversation = Conversation(HttpRequest(), Person(user="1", may_see=True), send)
        conversation.hear('{"op": "sub", "topics": ["queues"]}')
        task = asyncio.create_task(conversation.run())
        while not heard:
            await asyncio.sleep(0)
        conversation.receiver.take(batch(1))
        while sum(message["op"] == "ready" for message in heard) < 2:
            await asyncio.sleep(0)
        conversation.receiver.take(batch(3))
        while heard[-1]["seq"] != "3-0":
            await asyncio.sleep(0)
        task.cancel()

    asyncio.run(asyncio.wait_for(talk(), 60))
    stands = heard[0]["seq"]
    for message in heard[1:]:
        if message["op"] == "frame":
            assert message["prev"] == stands
        stands = message["seq"]
