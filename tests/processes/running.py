"""A real worker as a test sees it: its log, its rows, its processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

import psycopg

CHECKOUT = Path(__file__).resolve().parents[2]
QUICK = {
    "COPPICE_BEAT_SECONDS": "0.25",
    "COPPICE_DEAD_AFTER_SECONDS": "3",
    "COPPICE_LOCK_FREE_SECONDS": "0.8",
    "COPPICE_GRACE_SECONDS": "0.5",
    "COPPICE_POLL_SECONDS": "0.2",
}
"""Settings that make a test wait for seconds, not minutes."""


def amount(usual: int, thorough: int) -> int:
    """How much of something a test does: `COPPICE_TEST_THOROUGH=1` asks for more than a check has time for."""
    return thorough if os.environ.get("COPPICE_TEST_THOROUGH") else usual


PATIENCE = 240.0
"""The longest that a test waits for a fact. What works takes a hundredth, but not on a machine that has
much else to do."""


def eventually(
    fact: Callable[[], Any], what: str | Callable[[], str], seconds: float = PATIENCE
) -> Any:
    """Wait for a fact; returns what it answered."""
    give_up_at = time.monotonic() + seconds
    while not (answer := fact()):
        if time.monotonic() > give_up_at:
            missing = what if isinstance(what, str) else what()
            raise AssertionError(f"not in {seconds:g} s: {missing}")
        time.sleep(0.03)
    return answer


@dataclass
class Tables:
    """The database of a test, for plain questions."""

    url: str
    _kept: psycopg.Connection[tuple[Any, ...]] | None = field(default=None, repr=False)

    def session(self) -> psycopg.Connection[tuple[Any, ...]]:
        """A connection for whoever holds something; closed at the end of its block."""
        return psycopg.connect(self.url, autocommit=True)

    def rows(self, sql: str, *params: Any) -> list[tuple[Any, ...]]:
        """Asked on one session: tests that wait ask all the time, and a new one costs more."""
        if self._kept is not None:
            try:
                return _answer(self._kept, sql, params)
            except psycopg.OperationalError:
                # It may be gone like those of the workers: with its server, or by a test.
                if not self._kept.closed:
                    raise
        self._kept = self.session()
        return _answer(self._kept, sql, params)

    def one(self, sql: str, *params: Any) -> Any:
        rows = self.rows(sql, *params)
        return rows[0][0] if rows else None

    def enqueue(self, type: str, max_attempts: int = 3, **payload: Any) -> str:
        return str(
            self.one(
                "INSERT INTO jobs_job (id, type, payload, max_attempts)"
                " VALUES (gen_random_uuid(), %s, %s, %s) RETURNING id",
                type,
                json.dumps(payload),
                max_attempts,
            )
        )

    def status(self, job_id: str) -> str:
        return str(self.one("SELECT status FROM jobs_job WHERE id = %s", job_id))

    def attempts(self, job_id: str) -> list[str]:
        rows = self.rows(
            "SELECT outcome FROM jobs_attempt WHERE job_id = %s ORDER BY lease_epoch", job_id
        )
        return [row[0] for row in rows]

    def workers(self) -> list[str]:
        """The states of all incarnations, oldest first."""
        return [row[0] for row in self.rows("SELECT state FROM jobs_worker ORDER BY started_at")]

    def child_pids(self) -> list[int]:
        return [
            row[0]
            for row in self.rows(
                "SELECT pid FROM jobs_worker WHERE state IN ('running', 'draining') AND pid > 0"
                " ORDER BY started_at"
            )
        ]


def _answer(
    session: psycopg.Connection[tuple[Any, ...]], sql: str, params: Sequence[Any]
) -> list[tuple[Any, ...]]:
    cursor = session.execute(sql.encode(), params)
    return cursor.fetchall() if cursor.description else []


@dataclass
class Running:
    process: subprocess.Popen[str]
    lines: list[dict[str, Any]] = field(default_factory=list)
    other_output: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.follower = Thread(target=self.follow, daemon=True)

    def follow(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            try:
                self.lines.append(json.loads(line))
            except ValueError:
                self.other_output.append(line)

    def messages(self) -> list[str]:
        return [line.get("message") or line.get("event", "") for line in self.lines]

    def logged(self, message: str, **facts: Any) -> list[dict[str, Any]]:
        return [
            line
            for line, name in zip(list(self.lines), self.messages(), strict=False)
            if name == message and facts.items() <= line.items()
        ]

    def wait_for(self, message: str, count: int = 1, **facts: Any) -> list[dict[str, Any]]:
        def found() -> list[dict[str, Any]]:
            lines = self.logged(message, **facts)
            if len(lines) >= count:
                return lines
            # Its last lines may still be on their way to us.
            assert self.process.poll() is None or self.follower.is_alive(), "it has ended"
            return []

        lines: list[dict[str, Any]] = eventually(
            found,
            lambda: f"{count} x {message!r} in {self.messages()} {self.other_output}",
        )
        return lines

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def ended(self, seconds: float = PATIENCE) -> int:
        """Wait for its end; returns the exit code."""
        return self.process.wait(seconds)

    def stop(self) -> int:
        self.signal(signal.SIGTERM)
        return self.ended()


@contextmanager
def run(command: Sequence[str], url: str, **variables: str) -> Iterator[Running]:
    """A process of ours on a database; killed at the end if it still runs."""
    process = subprocess.Popen(
        [sys.executable, *command],
        cwd=CHECKOUT,
        env={
            **os.environ,
            "DATABASE_URL": url,
            "REDIS_URL": "redis://127.0.0.1:1/0",
            "DJANGO_SETTINGS_MODULE": "tests.processes.settings",
            "PYTHONPATH": str(CHECKOUT),
            "PYTHONUNBUFFERED": "1",
            **QUICK,
            **variables,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    running = Running(process)
    running.follower.start()
    try:
        yield running
    except BaseException:
        print(*command, running.messages()[-50:], *running.other_output[-50:], sep="\n")
        raise
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(60)
        running.follower.join(10)


def runworker(url: str, *options: str, **variables: str) -> Any:
    return run(["manage.py", "runworker", *options], url, **variables)


def standins(url: str, behaviour: str, *options: str, **variables: str) -> Any:
    return run(["tests/processes/supervise.py", behaviour, *options], url, **variables)
