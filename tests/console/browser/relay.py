"""Stands between a browser and the server, as a proxy does: it can cut sockets, and refuse them."""

from __future__ import annotations

import socket
import struct
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Thread

SOCKETS = b"GET /ws/"
AT_ONCE = struct.pack("ii", 1, 0)


@dataclass(kw_only=True)
class Relay:
    """Passes on what comes, byte for byte."""

    server: tuple[str, int]
    refuses_sockets: bool = False
    sockets: list[tuple[socket.socket, socket.socket]] = field(default_factory=list)
    """Both ends of each WebSocket that there has been."""
    refused: int = 0

    def __post_init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.origin = f"http://localhost:{self._listener.getsockname()[1]}"
        Thread(target=self._listen, daemon=True).start()

    def cut(self) -> None:
        """Reset each WebSocket, on both sides: nobody says goodbye."""
        for ends in self.sockets:
            for end in ends:
                with suppress(OSError):
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
                    end.shutdown(socket.SHUT_RD)
                    end.close()

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _listen(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                Thread(target=self._serve, args=[client], daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError):
            begin = client.recv(65_536)
            if begin.startswith(SOCKETS) and self.refuses_sockets:
                self.refused += 1
                client.close()
                return
            server = socket.create_connection(self.server)
            if begin.startswith(SOCKETS):
                self.sockets.append((client, server))
            server.sendall(begin)
            Thread(target=_pass_on, args=[server, client], daemon=True).start()
            _pass_on(client, server)


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
