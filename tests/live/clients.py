"""Clients for the live feed, small enough to see what goes over the wire.

A socket client and a reader of server-sent events on plain sockets. They can stop reading, and they
can be cut off without a goodbye, which libraries take care to avoid.
"""

from __future__ import annotations

import base64
import json
import os
import select
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

type Headers = dict[str, str]

SECONDS = 90.0
"""The longest that a test waits for a fact."""


def wait_for(fact: Callable[[], Any], seconds: float = SECONDS, every: float = 0.02) -> Any:
    limit = time.monotonic() + seconds
    while not (found := fact()):
        assert time.monotonic() < limit, f"waited too long; the last answer: {found!r}"
        time.sleep(every)
    return found


class Refused(Exception):
    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(f"{status} {body[:200]!r}")
        self.status = status
        self.body = body


class Closed(Exception):
    """The other side has ended it; `code` is None where it just went away."""

    def __init__(self, code: int | None) -> None:
        super().__init__(str(code))
        self.code = code


class Wire:
    """A TCP connection with a request sent and the head of the answer read."""

    def __init__(self, address: tuple[str, int], path: str, headers: Headers) -> None:
        self.socket = socket.create_connection(address, timeout=SECONDS)
        self._buffer = b""
        lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        self.socket.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        head = self.until(b"\r\n\r\n").decode()
        first, *rest = head.split("\r\n")
        self.status = int(first.split()[1])
        self.headers = {
            name.lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)
        }

    def until(self, mark: bytes) -> bytes:
        while mark not in self._buffer:
            self._more()
        found, _, self._buffer = self._buffer.partition(mark)
        return found

    def exactly(self, count: int) -> bytes:
        while len(self._buffer) < count:
            self._more()
        found, self._buffer = self._buffer[:count], self._buffer[count:]
        return found

    def rest(self) -> bytes:
        """The body of a short answer."""
        return self.exactly(int(self.headers.get("content-length", 0)))

    def has_something(self, seconds: float) -> bool:
        """Whether anything has come, or comes within that time."""
        return bool(self._buffer or select.select([self.socket], [], [], seconds)[0])

    def _more(self) -> None:
        try:
            got = self.socket.recv(65_536)
        except ConnectionError:
            got = b""
        if not got:
            raise Closed(None)
        self._buffer += got

    def cut(self) -> None:
        """Gone without a goodbye: the other side gets a reset."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def close(self) -> None:
        self.socket.close()


@dataclass(kw_only=True)
class Site:
    """Where a server listens, and how its clients sign in by default."""

    address: tuple[str, int]
    host: str
    headers: Headers = field(default_factory=dict)

    def get(self, path: str, headers: Headers | None = None) -> tuple[int, Any]:
        wire = Wire(self.address, path, {"Host": self.host, **self._with(headers)})
        try:
            body = wire.rest() if "content-length" in wire.headers else _chunks(wire)
        finally:
            wire.close()
        is_json = wire.headers.get("content-type", "").startswith("application/json")
        return wire.status, json.loads(body) if is_json else body

    def poll(self, *topics: str, after: str | None = None) -> Any:
        query = "&".join(f"topics={quote(topic, safe='')}" for topic in topics)
        status, found = self.get(f"/api/v1/live?{query}{f'&after={after}' if after else ''}")
        assert status == 200, found
        return found

    def socket(self, headers: Headers | None = None, path: str = "/ws/console/") -> WebSocket:
        return WebSocket(self.address, self.host, path, self._with(headers))

    def events(self, query: str = "", headers: Headers | None = None) -> EventSource:
        path = f"/api/v1/jobs/stream{'?' if query else ''}{query}"
        return EventSource(self.address, self.host, path, self._with(headers))

    def _with(self, headers: Headers | None) -> Headers:
        return self.headers if headers is None else headers


class WebSocket:
    """A client of RFC 6455. Raises Refused if the server does not want it."""

    def __init__(self, address: tuple[str, int], host: str, path: str, headers: Headers) -> None:
        key = base64.b64encode(os.urandom(16)).decode()
        self.wire = Wire(
            address,
            path,
            {
                "Host": host,
                "Upgrade": "websocket",
                "Connection": "Upgrade",
                "Sec-WebSocket-Version": "13",
                "Sec-WebSocket-Key": key,
                **headers,
            },
        )
        if self.wire.status != 101:
            body = self.wire.rest()
            self.wire.close()
            raise Refused(self.wire.status, body)

    def say(self, op: str, **fields: Any) -> None:
        self.send(json.dumps({"op": op, **fields}))

    def send(self, text: str | bytes) -> None:
        kind = 0x1 if isinstance(text, str) else 0x2
        self._send(kind, text.encode() if isinstance(text, str) else text)

    def hear(self, *ops: str) -> Any:
        """The next message, or the next of these ops. Raises Closed."""
        while True:
            message = json.loads(self._receive())
            if not ops or message["op"] in ops:
                return message

    def hear_until(self, fact: Callable[[Any], Any], *, acknowledge: bool = True) -> list[Any]:
        """All messages up to the one of which the fact holds."""
        limit = time.monotonic() + SECONDS
        found = []
        while True:
            found.append(self.hear())
            if acknowledge and found[-1]["op"] in ("frame", "resync"):
                self.say("ack", seq=found[-1]["seq"])
            if fact(found[-1]):
                return found
            assert time.monotonic() < limit, f"waited too long; heard {found[-3:]}"

    def sub(self, *topics: str, after: str | None = None) -> Any:
        self.say("sub", topics=list(topics), **({"after": after} if after else {}))
        return self.hear("ready")

    def cut(self) -> None:
        self.wire.cut()

    def close(self) -> None:
        self.wire.close()

    def __enter__(self) -> WebSocket:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _receive(self) -> bytes:
        whole = b""
        while True:
            first, second = self.wire.exactly(2)
            length = second & 0x7F
            if length >= 126:
                size = 2 if length == 126 else 8
                length = int.from_bytes(self.wire.exactly(size), "big")
            data = self.wire.exactly(length)
            match first & 0x0F:
                case 0x8:
                    raise Closed(int.from_bytes(data[:2], "big") if data else None)
                case 0x9:
                    self._send(0xA, data)
                case 0xA:
                    pass
                case _:
                    whole += data
                    if first & 0x80:
                        return whole

    def _send(self, kind: int, data: bytes) -> None:
        length = len(data)
        head = bytes([0x80 | kind])
        if length < 126:
            head += bytes([0x80 | length])
        elif length < 65_536:
            head += bytes([0x80 | 126]) + length.to_bytes(2, "big")
        else:
            head += bytes([0x80 | 127]) + length.to_bytes(8, "big")
        mask = os.urandom(4)
        masked = bytes(each ^ mask[index % 4] for index, each in enumerate(data))
        self.wire.socket.sendall(head + mask + masked)


@dataclass(kw_only=True)
class Event:
    id: str | None
    name: str
    data: Any


class EventSource:
    """A reader of server-sent events. Raises Refused for any answer but 200."""

    def __init__(self, address: tuple[str, int], host: str, path: str, headers: Headers) -> None:
        self.wire = Wire(address, path, {"Host": host, "Accept": "text/event-stream", **headers})
        if self.wire.status != 200:
            body = self.wire.rest()
            self.wire.close()
            raise Refused(self.wire.status, body)
        self.comments: list[str] = []
        self.last_id: str | None = None
        self.retry: int | None = None
        self._is_chunked = self.wire.headers.get("transfer-encoding") == "chunked"
        self._text = b""

    def hear(self, *names: str) -> Event:
        """The next event, or the next of these names. Raises Closed at the end."""
        while True:
            event = self._next()
            if event is not None and (not names or event.name in names):
                return event

    def hear_until(self, fact: Callable[[Event], Any]) -> list[Event]:
        limit = time.monotonic() + SECONDS
        found = []
        while True:
            found.append(self.hear())
            if fact(found[-1]):
                return found
            assert time.monotonic() < limit, f"waited too long; heard {found[-3:]}"

    def wait_for_comment(self) -> str:
        while not self.comments:
            self._next()
        return self.comments.pop(0)

    def cut(self) -> None:
        self.wire.cut()

    def close(self) -> None:
        self.wire.close()

    def __enter__(self) -> EventSource:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _next(self) -> Event | None:
        id, name, data = None, "message", None
        for line in self._block().split("\n"):
            field, _, value = line.partition(": ")
            match field:
                case "id":
                    id = self.last_id = value
                case "event":
                    name = value
                case "data":
                    data = json.loads(value)
                case "retry":
                    self.retry = int(value)
                case "":
                    self.comments.append(value)
        return None if data is None else Event(id=id, name=name, data=data)

    def _block(self) -> str:
        while b"\n\n" not in self._text:
            self._text += self._more()
        block, _, self._text = self._text.partition(b"\n\n")
        return block.decode()

    def _more(self) -> bytes:
        if not self._is_chunked:
            return self.wire.exactly(1)
        size = int(self.wire.until(b"\r\n"), 16)
        if not size:
            raise Closed(None)
        data = self.wire.exactly(size)
        self.wire.exactly(2)
        return data


def _chunks(wire: Wire) -> bytes:
    found = b""
    while size := int(wire.until(b"\r\n"), 16):
        found += wire.exactly(size)
        wire.exactly(2)
    return found
