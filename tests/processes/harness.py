"""Real workers on a real database, with effects that can be counted and processes that can be hurt.

`running.py` starts a process and follows its log; here is what a proof needs beside it.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import psutil

from config.servers import Postgres
from tests.processes.running import PATIENCE, Running, Tables, eventually, runworker

EFFECTS = """
CREATE TABLE IF NOT EXISTS effect (
    n bigserial PRIMARY KEY, job_id uuid NOT NULL, epoch bigint NOT NULL, attempt integer NOT NULL,
    word text NOT NULL, pid integer NOT NULL, at timestamptz NOT NULL DEFAULT clock_timestamp()
)
"""
TERMINAL = "('completed', 'failed', 'cancelled')"


@dataclass
class World(Tables):
    """One database with its jobs and what they did."""

    def __post_init__(self) -> None:
        self.rows(EFFECTS)

    def enqueue_all(self, type: str, amount: int, **columns: Any) -> list[str]:
        """Jobs that are alike, due now; `payload` and other columns as given."""
        payload = json.dumps(columns.pop("payload", {}))
        columns = {"max_attempts": 1_000, **columns}
        names = "".join(f", {name}" for name in columns)
        marks = ", %s" * len(columns)
        rows = self.rows(
            f"INSERT INTO jobs_job (id, type, payload{names})"
            f" SELECT gen_random_uuid(), %s, %s{marks} FROM generate_series(1, %s) RETURNING id",
            type,
            payload,
            *columns.values(),
            amount,
        )
        return [str(row[0]) for row in rows]

    def effects(self, job_id: str, word: str = "ran") -> int:
        return int(
            self.one("SELECT count(*) FROM effect WHERE job_id = %s AND word = %s", job_id, word)
        )

    def effect_count(self, word: str = "ran") -> int:
        return int(self.one("SELECT count(*) FROM effect WHERE word = %s", word))

    def leave_effect(self, job_id: str, word: str) -> None:
        """Say something to a handler that reads its table."""
        self.rows(
            "INSERT INTO effect (job_id, epoch, attempt, word, pid) VALUES (%s, 0, 0, %s, 0)",
            job_id,
            word,
        )

    def pid_of(self, job_id: str) -> int:
        """The process in which the job runs, or ran last."""
        return int(self.one("SELECT pid FROM effect WHERE job_id = %s ORDER BY n DESC", job_id))

    def unfinished(self) -> int:
        return int(self.one(f"SELECT count(*) FROM jobs_job WHERE status NOT IN {TERMINAL}"))

    def counts(self) -> dict[str, int]:
        return dict(self.rows("SELECT status, count(*) FROM jobs_job GROUP BY status"))

    def all_ended(self, seconds: float = PATIENCE) -> None:
        eventually(
            lambda: self.unfinished() == 0, lambda: f"all jobs ended: {self.counts()}", seconds
        )

    def becomes(self, job_id: str, status: str, seconds: float = PATIENCE) -> None:
        eventually(
            lambda: self.status(job_id) == status,
            lambda: f"{status}; it is {self.status(job_id)}, attempts {self.attempts(job_id)}",
            seconds,
        )

    def outcomes(self) -> dict[str, int]:
        return dict(self.rows("SELECT outcome, count(*) FROM jobs_attempt GROUP BY outcome"))

    def worker_id(self) -> str:
        """Of the one worker that lives."""
        return str(self.one("SELECT id FROM jobs_worker WHERE state = 'running'"))

    def sessions(self, name: str = "") -> list[int]:
        """Server processes of the sessions of workers, all or those of one part."""
        return [
            row[0]
            for row in self.rows(
                "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
                " AND application_name LIKE %s",
                f"coppice {name}%",
            )
        ]

    def end_sessions(self, name: str = "") -> int:
        """Have the server end them, as an administrator or a failover would."""
        return len(
            self.rows(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND application_name LIKE %s",
                f"coppice {name}%",
            )
        )

    def history_is_consistent(self) -> None:
        """Each lease has one attempt on record, and what was spent is what was counted."""
        assert not self.rows(
            "SELECT j.id, j.lease_epoch, array_agg(a.outcome) FROM jobs_job j"
            " LEFT JOIN jobs_attempt a ON a.job_id = j.id WHERE j.status <> 'processing'"
            " GROUP BY j.id HAVING count(a.job_id) <> j.lease_epoch"
        )
        assert not self.rows(
            "SELECT j.id, j.attempt_count, array_agg(a.outcome) FROM jobs_job j"
            " LEFT JOIN jobs_attempt a ON a.job_id = j.id"
            " AND a.outcome NOT IN ('handed_back', 'snoozed', 'waited')"
            " WHERE j.status <> 'processing'"
            " GROUP BY j.id HAVING count(a.job_id) <> j.attempt_count"
        )
        assert not self.rows(
            "SELECT a.job_id FROM jobs_attempt a WHERE a.outcome = 'succeeded'"
            " GROUP BY a.job_id HAVING count(*) > 1"
        )


@dataclass(frozen=True)
class Shared:
    """One worker, and the database that it works on, for several tests."""

    world: World
    worker: Running

    def forget(self) -> None:
        """Nothing of an earlier test is at work, noted or in the log."""
        self.world.all_ended()
        for table in ("jobs_attempt", "jobs_joblog", "jobs_jobdependency", "jobs_job", "effect"):
            self.world.rows(f"DELETE FROM {table}")
        self.worker.lines.clear()


def tree(worker: Running) -> list[psutil.Process]:
    """The worker's processes, its supervisor first."""
    with suppress(psutil.NoSuchProcess):
        supervisor = psutil.Process(worker.process.pid)
        return [supervisor, *supervisor.children(recursive=True)]
    return []


def children(worker: Running) -> list[int]:
    return [line["pid"] for line in worker.logged("worker.ready") if psutil.pid_exists(line["pid"])]


def power_cut(*workers: Running) -> None:
    """SIGKILL to every process at once; nobody can tell anybody."""
    processes = [process for worker in workers for process in tree(worker)]
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)
    for worker in workers:
        worker.process.wait(60)


def send(number: int, *pids: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


@contextmanager
def workers(url: str, count: int, *options: str, **variables: str) -> Iterator[list[Running]]:
    """Some workers, ready."""
    if count == 0:
        yield []
        return
    with (
        runworker(url, *options, **variables) as first,
        workers(url, count - 1, *options, **variables) as others,
    ):
        first.wait_for("worker.ready")
        yield [first, *others]


def crash(server: Postgres) -> None:
    """End the server as a power cut would: sessions break, nothing is flushed."""
    postmaster = psutil.Process(int((server.data / "postmaster.pid").read_text().split()[0]))
    postmaster.send_signal(signal.SIGQUIT)  # PostgreSQL's immediate shutdown
    postmaster.wait(60)


def noise(workers: Iterable[Running]) -> list[dict[str, Any]]:
    """Warnings and errors that are about no single job."""
    return [
        line
        for worker in workers
        for line in list(worker.lines)
        if line.get("level") in ("warning", "error") and "job_id" not in line
    ]
