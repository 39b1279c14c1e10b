"""One POST to a checked address: no redirects, no proxy, a limit on everything."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from threading import Timer

from jobs.webhooks.targets import Target

CONNECT_SECONDS = 5.0
SECONDS = 15.0
"""For the whole of it, however slowly the other side drips."""
ANSWER_BYTES = 2_000


class NotSent(Exception):
    """No answer was had; the text may be shown."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    code: int
    text: str
    """The beginning of the body."""

    @property
    def is_taken(self) -> bool:
        return 200 <= self.code < 300


def post(target: Target, body: bytes, headers: Mapping[str, str]) -> Answer:
    """Raises NotSent."""
    try:
        plain = socket.create_connection((target.address, target.port), CONNECT_SECONDS)
    except OSError as error:
        raise NotSent(f"could not connect: {_why(error)}") from None
    inside = [plain]
    end = Timer(SECONDS, _shut, [inside])
    end.daemon = True
    end.start()
    try:
        return _exchange(inside, target, body, headers)
    except ssl.SSLCertVerificationError as error:
        raise NotSent(f"its certificate is not trusted: {error.verify_message}") from None
    except (OSError, HTTPException, ValueError) as error:
        raise NotSent(f"no answer: {_why(error)}") from None
    finally:
        end.cancel()
        for each in inside:
            each.close()


def _exchange(
    inside: list[socket.socket], target: Target, body: bytes, headers: Mapping[str, str]
) -> Answer:
    inside[0].settimeout(SECONDS)
    connection = HTTPConnection(target.host, target.port)
    connection.auto_open = 0  # it would look the name up again
    if target.scheme == "https":
        wrapped = ssl.create_default_context().wrap_socket(
            inside[0], server_hostname=target.host, do_handshake_on_connect=False
        )
        inside[0] = wrapped  # which took the connection over
        wrapped.do_handshake()
    connection.sock = inside[0]
    try:
        connection.request("POST", target.path, body, {"Host": target.host_header, **headers})
        response = connection.getresponse()
        text = response.read1(ANSWER_BYTES).decode("utf-8", "replace")
        return Answer(code=response.status, text=text)
    finally:
        connection.close()


def _shut(inside: list[socket.socket]) -> None:
    with suppress(OSError):
        socket.socket.shutdown(inside[0], socket.SHUT_RDWR)


def _why(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "timed out"
    return (getattr(error, "strerror", None) or type(error).__name__)[:200]
