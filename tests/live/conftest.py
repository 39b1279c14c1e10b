"""A real daphne for the module, on the tests' database and Valkey.

Tests change jobs in this process, as a worker or another web process would, and look at what
clients of the server are told.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
import redis

from config import embedded
from config.servers import DATABASE, Place, valkey_url
from tests.live.clients import Site, wait_for

CHECKOUT = Path(__file__).resolve().parent.parent.parent


@dataclass(kw_only=True)
class Server:
    """A daphne process."""

    process: subprocess.Popen[bytes]
    address: tuple[str, int]
    log: Path

    @property
    def host(self) -> str:
        return f"localhost:{self.address[1]}"

    @property
    def origin(self) -> str:
        return f"http://{self.host}"

    def site(self, **headers: str) -> Site:
        return Site(address=self.address, host=self.host, headers=headers)

    def counts(self, query: str = "") -> Any:
        return self.site().get(f"/-/counts{query}")[1]

    def resident(self) -> int:
        return int(psutil.Process(self.process.pid).memory_info().rss)

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(10)


@contextmanager
def daphne(
    folder: Path, application: str = "tests.live.site", **environment: str
) -> Iterator[Server]:
    from django.conf import settings
    from django.db import connections

    database = connections["default"].settings_dict
    url = f"postgresql:///{database['NAME']}?host={database['HOST']}&user={database['USER']}"
    listener = socket.socket()
    # Connections inherit it: what a client does not read is soon the server's burden.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 32_768)
    listener.bind(("127.0.0.1", 0))
    listener.listen(512)
    descriptor = listener.fileno()
    log = folder / f"daphne-{secrets.token_hex(4)}.log"
    command = [sys.executable, "-m", "daphne", "--fd", str(descriptor), "-v", "0"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, f"{application}:application"],
            cwd=CHECKOUT,
            env={
                **os.environ,
                "DJANGO_SETTINGS_MODULE": "config.settings",
                "DATABASE_URL": url,
                "SECRET_KEY": settings.SECRET_KEY,  # sessions of this process count there too
                **environment,
            },
            pass_fds=[descriptor],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    address = listener.getsockname()
    listener.close()
    server = Server(process=process, address=address, log=log)
    try:
        wait_for(lambda: _answers(server), 60)
        yield server
    finally:
        server.stop()


def _answers(server: Server) -> bool:
    assert server.process.poll() is None, server.log.read_text()[-3_000:]
    with suppress(OSError), socket.create_connection(server.address, timeout=60) as connection:
        connection.sendall(b"GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n")
        return bool(connection.recv(1))
    return False


@pytest.fixture(scope="session")
def live_redis_url(_valkey_place: Place) -> str:
    """The run's Valkey, as the tests' own process finds it by its settings."""
    embedded.start(embedded.Wanted(place=_valkey_place, valkey=True, temporary=True))
    return valkey_url(_valkey_place)


@pytest.fixture(scope="session")
def live_database(database_url: str) -> Iterator[str]:
    """The name of a migrated database that is shared by these tests and their servers."""
    name = f"live_{secrets.token_hex(6)}"
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{DATABASE}"'.encode())
        yield name
        connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())


@contextmanager
def working_in(database: str, blocker: Any) -> Iterator[None]:
    """This process works there too, without transactions that would hide what it does."""
    from django.db import connections

    wrapper = connections["default"]
    before = wrapper.settings_dict["NAME"]
    with blocker.unblock():
        wrapper.close()
        wrapper.settings_dict["NAME"] = database
        yield
        wrapper.close()
        wrapper.settings_dict["NAME"] = before


@pytest.fixture(scope="module", autouse=True)
def _in_the_live_database(
    live_database: str, django_db_setup: None, django_db_blocker: Any
) -> Iterator[None]:
    with working_in(live_database, django_db_blocker):
        yield


ENVIRONMENTS = {
    "server": {
        "COPPICE_LIVE_CONNECTIONS_PER_USER": "400",
        "CORS_ALLOWED_ORIGINS": "https://pages.example",
    },
    "hasty": {
        "COPPICE_LIVE_RECHECK_SECONDS": "0.3",
        "COPPICE_LIVE_CONNECTIONS_PER_USER": "2",
        "LIVE_WINDOW_PATIENCE_SECONDS": "0.5",
        "LIVE_FOLLOWER_KEEP_ALIVE_SECONDS": "0.2",
        "LIVE_EVENTS_MOST_SECONDS": "1.5",
        "LIVE_EVENTS_MOST_BYTES": "50000",
    },
}


@pytest.fixture(scope="session")
def _servers(
    live_database: str, live_redis_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], Server]]:
    with ExitStack() as stack:

        def start(name: str) -> Server:
            folder = tmp_path_factory.mktemp(name)
            made = daphne(folder, REDIS_URL=live_redis_url, **ENVIRONMENTS[name])
            return stack.enter_context(made)

        yield cache(start)


@pytest.fixture
def server(_servers: Callable[[str], Server]) -> Server:
    """A daphne for the whole run."""
    return _servers("server")


@pytest.fixture
def hasty(_servers: Callable[[str], Server]) -> Server:
    """A second one: without patience, suspicious, its responses short in time and size."""
    return _servers("hasty")


@pytest.fixture
def key_of() -> Callable[..., str]:
    """`key_of("jobs.view_job")`: the key of a token of a new user with these permissions."""
    from jobs import tokens

    def make(*names: str) -> str:
        _, key = tokens.create(make_user(*names), "test")
        return key

    return make


def make_user(*names: str) -> Any:
    from django.contrib.auth.models import Permission, User

    user = User.objects.create_user(f"user{secrets.token_hex(4)}")
    for name in names:
        app, _, codename = name.partition(".")
        user.user_permissions.add(
            Permission.objects.get(content_type__app_label=app, codename=codename)
        )
    return user


@pytest.fixture
def site(server: Server, key_of: Callable[..., str]) -> Iterator[Site]:
    """The server, for a program that may see everything. It leaves nothing behind."""
    key = key_of("jobs.view_job", "jobs.view_payload")
    yield server.site(Authorization=f"Token {key}")
    settled(server, connections=0, receivers=0, reading=False, live_tasks=[])


@pytest.fixture
def viewer(server: Server, key_of: Callable[..., str]) -> Site:
    """The server, for a program that may not see error texts."""
    return server.site(Authorization=f"Token {key_of('jobs.view_job')}")


@pytest.fixture
def stream(live_redis_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(live_redis_url) as client:
        yield client


@pytest.fixture
def tell(live_redis_url: str) -> Callable[..., None]:
    """`tell("job.completed", 3, queue="mail")`: as another process would, and it has arrived."""
    from jobs import events
    from jobs.ids import new_uuid

    def send(name: str, count: int = 1, **fields: Any) -> None:
        facts = fields.pop("facts", {})
        for _ in range(count):
            job_id = fields.get("job_id", str(new_uuid()) if name.startswith("job.") else None)
            events.emit(name, **{**fields, "job_id": job_id}, **facts)
        assert events.flush(10.0)

    return send


def settled(server: Server, **expected: Any) -> Any:
    """Wait until the server's counts are these."""
    limit = time.monotonic() + 90
    while True:
        found = server.counts("?alive" if "receivers_alive" in expected else "")
        if all(found[name] == value for name, value in expected.items()):
            return found
        assert time.monotonic() < limit, found
        time.sleep(0.05)
