"""Clients of the live feed, each a process: `python -m benchmarks.live_clients KIND PORT KEY REDIS`.

Each prints a line of JSON for whatever it is told: when, how many events singly with the time from
the sender's clock to here, and how many were left out. They act as docs/live.md says.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import redis
from autobahn.asyncio.websocket import WebSocketClientFactory, WebSocketClientProtocol

from jobs.live.stream import entries_of
from jobs.publishing import LEFT_OUT, STREAM

CHROMIUM = shutil.which("chromium")


def note(op: str, events: list[float], left_out: dict[str, int], size: int = 0) -> None:
    """`events`: when each was told, by its sender."""
    now = time.time()
    found = {"op": op, "at": now, "lags": [round(now - at, 4) for at in events], "size": size}
    sys.stdout.write(json.dumps({**found, "left_out": sum(left_out.values())}) + "\n")
    sys.stdout.flush()


class Console(WebSocketClientProtocol):
    def onOpen(self) -> None:  # noqa: N802 - its name
        self.say(op="sub", topics=["overview"])

    def onMessage(self, payload: bytes, isBinary: bool) -> None:  # noqa: ARG002, N802, N803
        message = json.loads(payload)
        events = [event["at"] for event in message.get("events", ())]
        note(message["op"], events, message.get("left_out", {}), len(payload))
        if message["op"] in ("frame", "resync"):
            self.say(op="ack", seq=message["seq"])

    def say(self, **message: Any) -> None:
        self.sendMessage(json.dumps(message).encode())  # type: ignore[no-untyped-call]  # it has none


def socket(port: int, key: str) -> None:
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    factory = WebSocketClientFactory(  # type: ignore[no-untyped-call]  # it has none
        f"ws://localhost:{port}/ws/console/",
        headers={"Authorization": f"Token {key}"},
        loop=loop,
    )
    factory.protocol = Console
    loop.run_until_complete(loop.create_connection(factory, "localhost", port))
    loop.run_forever()


def events(port: int, key: str) -> None:
    url = f"http://localhost:{port}/api/v1/jobs/stream"
    last = ""
    while True:
        headers = {"Authorization": f"Token {key}", **({"Last-Event-ID": last} if last else {})}
        with urlopen(Request(url, headers=headers), timeout=60) as response:
            name = data = ""
            size = 0
            for raw in response:
                size += len(raw)
                field, _, value = raw.decode().rstrip("\n").partition(": ")
                if field == "id":
                    last = value
                elif field == "event":
                    name = value
                elif field == "data":
                    data = value
                elif not field and data:
                    found = json.loads(data)
                    told = [found["at"]] if "facts" in found else []
                    note("event" if told else name, told, found.get("left_out", {}), size)
                    name, data, size = "", "", 0
        note("bye", [], {})


def bare(url: str) -> None:
    """What is beside: the stream as it is, without a web process."""
    with redis.Redis.from_url(url) as client:
        last: Any = "$"
        while True:
            answer: Any = client.xread({STREAM: last}, count=1_000, block=1_000)
            entries = entries_of(answer)
            if entries:
                last = entries[-1][0]
                found = [json.loads(fields[b"event"]) for _, fields in entries]
                counts = [each["counts"] for each in found if each["name"] == LEFT_OUT]
                told = [each["at"] for each in found if each["name"] != LEFT_OUT]
                note("page", told, {str(n): sum(each.values()) for n, each in enumerate(counts)})


SHOW = """
(cookie) => {
  const list = document.body;
  window.told = [];
  window.drawn = 0;
  const draw = () => { window.drawn++; requestAnimationFrame(draw); };
  requestAnimationFrame(draw);
  const show = (frame) => {
    const now = Date.now() / 1000;
    for (const event of frame.events) {
      const row = document.createElement("p");
      row.textContent = `${event.name} ${event.job_id}`;
      list.append(row);
      if (list.children.length > 200) list.firstChild.remove();
    }
    const count = Object.values(frame.left_out).reduce((sum, each) => sum + each, 0);
    window.told.push({lags: frame.events.map((each) => now - each.at), left_out: count, at: now});
  };
  live(`ws://${location.host}/ws/console/`, ["overview"], show, () => {});
}
"""


def browser(port: int, session: str) -> None:
    """A page in Chromium with the client of docs/live.md, which draws a row for each event."""
    from playwright.sync_api import sync_playwright

    page_of_docs = Path(__file__).resolve().parent.parent / "docs" / "live.md"
    found = re.search(r"```js\nexport (function live\(.*?)```", page_of_docs.read_text(), re.DOTALL)
    assert found is not None
    origin = f"http://localhost:{port}"
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        context = chromium.new_context()
        context.add_cookies([{"name": "sessionid", "value": session, "url": origin}])
        page = context.new_page()
        page.goto(f"{origin}/api/v1/nothing")
        page.evaluate(f"window.live = {found[1].strip()}")
        page.evaluate(SHOW)
        drawn_at = time.time()
        while True:
            page.wait_for_timeout(500)
            told, drawn = page.evaluate("[window.told.splice(0), window.drawn]")
            rate = drawn / (time.time() - drawn_at)
            for each in told:
                line = {"op": "frame", "size": 0, "rate": rate, **each}
                sys.stdout.write(json.dumps(line) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    kind, port, key, url = sys.argv[1:]
    match kind:
        case "socket":
            socket(int(port), key)
        case "events":
            events(int(port), key)
        case "bare":
            with suppress(redis.RedisError):  # it goes when Redis goes
                bare(url)
        case "browser":
            browser(int(port), key)
