"""Where benchmarks take place: a PostgreSQL of their own, fresh databases, real workers.

The server has its default durability, and its data lie in a temporary folder. Whatever a run
starts, it stops; it never signals a process that it did not start.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import psutil
import psycopg
from django.core.management import call_command
from django.db import connections
from psycopg.conninfo import conninfo_to_dict

from benchmarks.records import PATH_VARIABLE
from config.servers import Place, Postgres, embedded_programs

CHECKOUT = Path(__file__).resolve().parent.parent
TEMPLATE = "template_of_benchmarks"
READY_SECONDS = 240.0
STOP_SECONDS = 120.0


class Scale(StrEnum):
    FULL = "full"
    QUICK = "quick"
    SMOKE = "smoke"
    """So small that the figures mean nothing: for tests."""


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Of one process, in MiB. Proportional: a page that n processes share counts 1/n in each."""

    resident: float
    proportional: float


@dataclass(kw_only=True)
class Worker:
    """One `runworker`: a supervisor and its children."""

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def children(self) -> list[psutil.Process]:
        return list(psutil.Process(self.process.pid).children())

    def memory(self) -> list[Memory]:
        """Of each child."""
        found = []
        for child in self.children:
            with suppress(psutil.Error):
                facts = child.memory_full_info()
                found.append(Memory(resident=facts.rss / 2**20, proportional=facts.pss / 2**20))
        return found

    def kill_tree(self) -> None:
        """SIGKILL to all its processes, as an empty battery or a container's end would."""
        tree = [psutil.Process(self.process.pid), *self.children]
        for each in tree:
            with suppress(psutil.NoSuchProcess):
                each.kill()
        self.process.wait(STOP_SECONDS)
        psutil.wait_procs(tree[1:], STOP_SECONDS)

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill_tree()
                raise


@dataclass(kw_only=True)
class Database:
    """A fresh database with the product's tables; Django of this process is connected to it."""

    name: str
    url: str
    stage: Stage
    _connection: psycopg.Connection | None = None

    @property
    def connection(self) -> psycopg.Connection:
        """For the benchmark's own questions, in autocommit."""
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(self.url, autocommit=True)
        return self._connection

    def rows(self, sql: str, *params: Any) -> list[tuple[Any, ...]]:
        cursor = self.connection.execute(sql.encode(), params or None)
        return cursor.fetchall() if cursor.description else []

    def one(self, sql: str, *params: Any) -> Any:
        return self.rows(sql, *params)[0][0]

    def tidy(self) -> None:
        """What autovacuum and the next checkpoint would soon have done, so that it is not measured."""
        self.rows("VACUUM ANALYZE")
        self.rows("CHECKPOINT")

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        connections["default"].close()

    @contextmanager
    def workers(
        self,
        *,
        processes: int = 1,
        concurrency: int = 16,
        records: Path | None = None,
        log_level: str = "WARNING",
        wait: bool = True,
    ) -> Iterator[Worker]:
        """A running `runworker`, by default from when all its children are ready and idle."""
        worker = self.start_worker(
            processes=processes, concurrency=concurrency, records=records, log_level=log_level
        )
        try:
            if wait:
                self.wait_ready(worker, processes)
            yield worker
        finally:
            worker.stop()

    def start_worker(
        self,
        *,
        processes: int = 1,
        concurrency: int = 16,
        records: Path | None = None,
        log_level: str = "WARNING",
    ) -> Worker:
        command = [sys.executable, "-m", "benchmarks.project.manage", "runworker"]
        command += ["--processes", str(processes), "--concurrency", str(concurrency)]
        environment = self.stage.environment(records=records, database=self.name)
        log = self.stage.folder / f"{self.name}.log"
        with log.open("ab") as output:
            process = subprocess.Popen(
                command,
                cwd=CHECKOUT,
                env={**environment, "LOG_LEVEL": log_level},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self.stage.started.append(process)
        return Worker(process=process, log=log)

    def wait_ready(self, worker: Worker, processes: int) -> None:
        def ready() -> bool:
            if worker.process.poll() is not None:
                raise RuntimeError(f"runworker ended: {worker.log.read_text()[-2_000:]}")
            pids = [child.pid for child in worker.children]
            return bool(
                self.one(
                    "SELECT count(*) = %s FROM jobs_worker"
                    " WHERE state = 'running' AND waiting AND pid = ANY(%s)",
                    processes,
                    pids,
                )
            )

        wait_until(ready, "the workers are ready", READY_SECONDS, every=0.05)


@dataclass(kw_only=True)
class Stage:
    folder: Path
    server: Postgres
    scale: Scale
    repeat: int
    kills: int
    say: Callable[[str], None]
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _databases: int = 0

    @contextmanager
    def database(self) -> Iterator[Database]:
        self._databases += 1
        name = f"run_{self._databases}"
        with psycopg.connect(self.server.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}".encode())
        made = Database(name=name, url=self.server.url(name), stage=self)
        self._point_django_at(name)
        try:
            yield made
        finally:
            made.close()
            with psycopg.connect(self.server.url("postgres"), autocommit=True) as connection:
                connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())

    def environment(
        self, *, records: Path | None = None, database: str = TEMPLATE
    ) -> dict[str, str]:
        """For a process of the benchmark: how it finds the server, and where handlers note."""
        parts = conninfo_to_dict(self.server.url(database))
        return {
            **os.environ,
            "PGHOST": str(parts["host"]),
            "PGUSER": str(parts["user"]),
            "PGDATABASE": database,
            PATH_VARIABLE: str(records or ""),
        }

    @property
    def processes(self) -> int:
        """Of a worker that is to use the machine; starting one is most of a smoke test's time."""
        return 1 if self.scale is Scale.SMOKE else 2

    def file(self, name: str) -> Path:
        """A path for records or the like; the file does not exist."""
        path = self.folder / name
        path.unlink(missing_ok=True)
        return path

    def prepare(self) -> None:
        with psycopg.connect(self.server.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {TEMPLATE}".encode())
        self._point_django_at(TEMPLATE)
        call_command("migrate", verbosity=0)
        connections["default"].close()

    def _point_django_at(self, name: str) -> None:
        parts = conninfo_to_dict(self.server.url(name))
        wrapper = connections["default"]
        wrapper.close()
        wrapper.settings_dict.update(NAME=name, HOST=str(parts["host"]), USER=str(parts["user"]))


@contextmanager
def set_up(
    *,
    scale: Scale,
    repeat: int,
    kills: int,
    say: Callable[[str], None],
    parent: Path | None = None,
) -> Iterator[Stage]:
    """A stage in a new folder below `parent`; at the end everything on it is gone."""
    folder = Path(tempfile.mkdtemp(prefix="coppice-bench-", dir=parent))
    folder.chmod(0o755)  # the server's account must get through
    place = Place(home=folder / "server")
    place.make_account()
    place.make_base()
    # Without durability only where the figures mean nothing.
    fast = scale is Scale.SMOKE
    server = Postgres(place=place, programs=embedded_programs(), fast=fast)
    stage = Stage(folder=folder, server=server, scale=scale, repeat=repeat, kills=kills, say=say)
    try:
        server.start()
        stage.prepare()
        yield stage
    finally:
        for process in stage.started:
            if process.poll() is None:
                Worker(process=process, log=folder).kill_tree()
        connections["default"].close()
        server.stop()
        place.remove()
        shutil.rmtree(folder, ignore_errors=True)


def wait_until(fact: Callable[[], object], what: str, seconds: float, every: float = 0.02) -> None:
    """Raises TimeoutError if the fact does not come true in time."""
    give_up_at = time.monotonic() + seconds
    while not fact():
        if time.monotonic() > give_up_at:
            raise TimeoutError(f"not within {seconds:g} s: {what}")
        time.sleep(every)
