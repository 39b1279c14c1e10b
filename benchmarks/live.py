"""Live events while thousands of jobs a second go through a real worker and a real daphne.

Jobs are enqueued at a steady rate and worked off as they come; a socket, a stream of server-sent
events and, where there is Chromium, a page of it follow. Beside their delay is that of a bare reader
of the Redis stream: the rest of it is the time for which events wait to share a frame. Afterwards
Redis goes away for a moment, and comes back empty.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.request import urlopen

import psutil
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore
from django.test.utils import override_settings

from benchmarks.draining import completed
from benchmarks.figures import Figure, Goal, percentile
from benchmarks.live_clients import CHROMIUM
from benchmarks.stage import CHECKOUT, Database, Scale, Stage, wait_until
from config.servers import Place, Valkey, valkey_url
from jobs import enqueue_many, events, tokens

RATES = {Scale.FULL: 5_000, Scale.QUICK: 5_000, Scale.SMOKE: 200}
SECONDS = {Scale.FULL: 30.0, Scale.QUICK: 10.0, Scale.SMOKE: 1.0}
AWAY_SECONDS = 2.0
BATCHES_PER_SECOND = 10
URL_VARIABLE = "BENCHMARK_REDIS_URL"
READY_SECONDS = 240.0


@dataclass(kw_only=True)
class Client:
    """A process of `live_clients.py`, and what it has said."""

    kind: str
    process: subprocess.Popen[str]
    heard: list[dict[str, Any]] = field(default_factory=list)

    def listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.heard.append(json.loads(line))

    def lags(self) -> list[float]:
        return [1_000 * lag for each in self.heard for lag in each["lags"]]

    @property
    def left_out(self) -> int:
        return sum(each["left_out"] for each in self.heard)


def measure(stage: Stage) -> list[Figure]:
    place = Place(home=stage.folder / "valkey")
    place.make_account()
    place.make_base()
    valkey = Valkey(place=place)
    valkey.start()
    url = valkey_url(place)
    os.environ[URL_VARIABLE] = url
    try:
        with override_settings(COPPICE_REDIS_URL=url), stage.database() as database:
            return _measured(stage, database, valkey, url)
    finally:
        del os.environ[URL_VARIABLE]
        valkey.stop()
        place.remove()


def _measured(stage: Stage, database: Database, valkey: Valkey, url: str) -> list[Figure]:
    rate, seconds = RATES[stage.scale], SECONDS[stage.scale]
    with ExitStack() as stack:
        server, port = stack.enter_context(_daphne(stage, database))
        clients = [stack.enter_context(_client(kind, port, url)) for kind in _kinds(stage)]
        wait_until(lambda: all(_is_ready(each) for each in clients), "clients are ready", 60)
        stack.enter_context(database.workers(processes=stage.processes, concurrency=16))
        idle = server.memory_info().rss
        for each in clients:
            each.heard.clear()
        began = time.monotonic()
        peak, cpu = _pump(server, database, rate, seconds)
        took = time.monotonic() - began
        events.flush()
        time.sleep(1.0)  # the last frames
        figures = _figures(clients, rate * seconds / took, took)
        after = server.memory_info().rss
        back = _outage(valkey, clients)
    return [
        *figures,
        Figure(name="daphne, CPU", unit="% of a core", samples=[100 * cpu / took]),
        Figure(name="daphne, memory idle", unit="MiB", samples=[idle / 2**20]),
        Figure(
            name="daphne, memory at most",
            unit="MiB",
            samples=[peak / 2**20],
            beside="daphne, memory idle",
            goal=Goal(at_most=1.5, of_ratio=True),
        ),
        Figure(
            name="daphne, memory afterwards",
            unit="MiB",
            samples=[after / 2**20],
            beside="daphne, memory idle",
        ),
        Figure(
            name="Redis is back: the socket is told to read anew after",
            unit="s",
            samples=[back],
            goal=Goal(at_most=2),
        ),
    ]


def _kinds(stage: Stage) -> Sequence[str]:
    has_browser = CHROMIUM is not None and stage.scale is not Scale.SMOKE
    return ("bare", "socket", "events", *(("browser",) if has_browser else ()))


def _is_ready(client: Client) -> bool:
    if client.process.poll() is not None:
        raise RuntimeError(f"the client {client.kind} has ended")
    return client.kind == "bare" or bool(client.heard)


def _pump(
    server: psutil.Process, database: Database, rate: int, seconds: float
) -> tuple[int, float]:
    """Enqueue at the rate and wait until all is done; the server's most memory, and its CPU time."""
    before = completed(database)
    used = sum(server.cpu_times()[:2])
    size = rate // BATCHES_PER_SECOND
    count = round(seconds * BATCHES_PER_SECOND)
    began = time.monotonic()
    peak = 0
    for number in range(count):
        enqueue_many("noop", [{"n": n} for n in range(size)])
        peak = max(peak, server.memory_info().rss)
        time.sleep(max(0.0, began + (number + 1) / BATCHES_PER_SECOND - time.monotonic()))
    wait_until(
        lambda: completed(database) - before >= size * count, "all jobs are done", 300, every=0.1
    )
    return max(peak, server.memory_info().rss), sum(server.cpu_times()[:2]) - used


def _figures(clients: list[Client], reached: float, seconds: float) -> list[Figure]:
    found = [
        Figure(name="jobs made, run and completed", unit="jobs/s", samples=[reached]),
    ]
    for client in clients:
        lags = client.lags()
        beside = "" if client.kind == "bare" else "bare: lag, p50"
        found += [
            Figure(
                name=f"{client.kind}: lag, p50",
                unit="ms",
                samples=[percentile(lags, 50)],
                beside=beside,
            ),
            Figure(
                name=f"{client.kind}: lag, p95",
                unit="ms",
                samples=[percentile(lags, 95)],
                goal=None if client.kind == "bare" else Goal(at_most=1_000),
            ),
            Figure(name=f"{client.kind}: events shown", unit="/s", samples=[len(lags) / seconds]),
            Figure(
                name=f"{client.kind}: events counted",
                unit="/s",
                samples=[client.left_out / seconds],
            ),
        ]
        if client.kind == "socket":
            frames = sum(each["op"] == "frame" for each in client.heard)
            found.append(Figure(name="socket: frames", unit="/s", samples=[frames / seconds]))
            size = sum(each["size"] for each in client.heard) / seconds / 1_000
            found.append(Figure(name="socket: bytes", unit="kB/s", samples=[size]))
        if client.kind == "browser":
            rate = client.heard[-1]["rate"]
            found.append(Figure(name="browser: pictures drawn", unit="/s", samples=[rate]))
    return found


def _outage(valkey: Valkey, clients: list[Client]) -> float:
    """Seconds from Redis's return to the word that everything must be read again."""
    [client] = [each for each in clients if each.kind == "socket"]
    valkey.stop()
    time.sleep(AWAY_SECONDS)
    client.heard.clear()
    valkey.start()
    back_at = time.time()

    def told() -> list[float]:
        return [each["at"] for each in client.heard if each["op"] == "resync"]

    wait_until(told, "the socket is told", READY_SECONDS, every=0.01)
    return max(0.0, told()[0] - back_at)


@contextmanager
def _daphne(stage: Stage, database: Database) -> Iterator[tuple[psutil.Process, int]]:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(128)
    port = int(listener.getsockname()[1])
    descriptor = listener.fileno()
    log = stage.folder / "daphne.log"
    command = [sys.executable, "-m", "daphne", "-v", "0"]
    with log.open("ab") as output:
        process = subprocess.Popen(
            [*command, "--fd", str(descriptor), "benchmarks.project.asgi:application"],
            cwd=CHECKOUT,
            env=stage.environment(database=database.name),
            pass_fds=[descriptor],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    stage.started.append(process)
    listener.close()
    try:
        wait_until(lambda: _answers(process, log, port), "daphne answers", READY_SECONDS)
        yield psutil.Process(process.pid), port
    finally:
        process.terminate()
        process.wait(120)


def _answers(process: subprocess.Popen[bytes], log: Path, port: int) -> bool:
    if process.poll() is not None:
        raise RuntimeError(f"daphne ended: {log.read_text()[-2_000:]}")
    try:
        with urlopen(f"http://localhost:{port}/api/v1/nothing", timeout=5):
            return True
    except OSError as error:
        return getattr(error, "code", None) is not None


@contextmanager
def _client(kind: str, port: int, url: str) -> Iterator[Client]:
    key = _session() if kind == "browser" else _token()
    command = [sys.executable, "-m", "benchmarks.live_clients", kind, str(port), key, url]
    process = subprocess.Popen(
        command, cwd=CHECKOUT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    )
    client = Client(kind=kind, process=process)
    thread = Thread(target=client.listen, daemon=True)
    thread.start()
    try:
        yield client
    finally:
        process.terminate()
        process.wait(120)
        thread.join(20)


def _token() -> str:
    return tokens.create(_user(), "benchmark")[1]


def _session() -> str:
    user = _user()
    session = SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session.create()
    return str(session.session_key)


def _user() -> User:
    user, _ = User.objects.get_or_create(username="benchmark", is_superuser=True)
    return user
