"""The web process and the worker, as children whose output goes to files."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

HOST = "127.0.0.1"
PORTS_TRIED = 50
START_SECONDS = 60


class PartFailed(Exception):
    """The web process or the worker could not start, or has ended by itself."""


class Part:
    """One child process. It stops when told to and only then."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        folder: Path,
        log: Path,
        environment: Mapping[str, str],
        stop_seconds: float,
    ) -> None:
        self.name = name
        self.log = log
        self.stop_seconds = stop_seconds
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as output:
            # In a group of its own: Ctrl-C is for the demo, which then stops its parts in order.
            self.process = subprocess.Popen(
                [sys.executable, *command],
                cwd=folder,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                process_group=0,
            )

    def check(self) -> None:
        """Raise PartFailed if it has ended."""
        code = self.process.poll()
        if code is not None:
            lines = self.log.read_text(errors="replace").splitlines()[-15:]
            raise PartFailed(
                "\n".join([f"The {self.name} ended with code {code}; see {self.log}:", *lines])
            )

    def stop(self) -> int:
        """Ask it to finish, wait, and return its exit code; kill it if it takes too long."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(self.stop_seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


def start_worker(folder: Path, data: Path) -> Part:
    return Part(
        "worker",
        ["manage.py", "runworker"],
        folder=folder,
        log=data / "worker.log",
        # Nobody should get the demo's e-mail.
        environment={"EMAIL_URL": "dummymail://"},
        stop_seconds=45,
    )


def start_web(folder: Path, data: Path, port: int) -> Part:
    return Part(
        "web process",
        ["-m", "daphne", "-b", HOST, "-p", str(port), "config.asgi:application"],
        folder=folder,
        log=data / "web.log",
        environment={},
        stop_seconds=10,
    )


def free_port(first: int) -> int:
    """`first`, or the next port that nobody has."""
    for port in range(first, first + PORTS_TRIED):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except (OSError, OverflowError):
                continue
            return port
    raise PartFailed(f"No port from {first} to {first + PORTS_TRIED - 1} is free.")


def wait_until_served(web: Part, address: str) -> None:
    limit = time.monotonic() + START_SECONDS
    while True:
        web.check()
        try:
            with urllib.request.urlopen(address, timeout=START_SECONDS):  # noqa: S310 - our own
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError) as error:
            if time.monotonic() > limit or isinstance(error, urllib.error.HTTPError):
                raise PartFailed(f"{address} does not answer: {error}; see {web.log}") from error
            time.sleep(0.1)
