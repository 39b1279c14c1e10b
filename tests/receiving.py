"""A receiver of webhooks, and how docs/webhooks.md says that it can believe them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

DOCS = Path(__file__).resolve().parents[1] / "docs" / "webhooks.md"


@dataclass
class Receiver:
    """A server that takes note of what it is sent, and answers as it is told."""

    port: int
    codes: list[int] = field(default_factory=list)
    """The next answers; then 200."""
    got: list[tuple[str, Message, bytes]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?k=1"


@contextmanager
def receiving() -> Iterator[Receiver]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found.got.append((self.path, self.headers, body))
            code = found.codes.pop(0) if found.codes else 200
            self.send_response(code)
            if code == 302:
                self.send_header("Location", f"http://127.0.0.1:{found.port}/elsewhere")
            self.end_headers()
            self.wfile.write(b"thank you")

        do_GET = do_POST  # noqa: N815 - the library's name

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found = Receiver(port=server.server_address[1])
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield found
    server.shutdown()
    server.server_close()


def documented_check() -> Any:
    """The function that docs/webhooks.md gives to receivers."""
    [code] = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    found: dict[str, Any] = {}
    exec(code, found)
    return found["is_from_coppice"]
