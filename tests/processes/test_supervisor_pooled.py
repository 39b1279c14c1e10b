"""A worker that reaches its database through a transaction pooler, with and without a way past it."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from config.servers import ACCOUNT
from tests.processes.harness import World
from tests.processes.running import Tables, eventually, run, runworker

pytestmark = [
    pytest.mark.pooler,
    pytest.mark.skipif(
        shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin") is None,
        reason="pgbouncer is not installed",
    ),
]


@pytest.fixture
def pooled_url(project_database: str) -> Iterator[str]:
    """The test's database through pgbouncer, which listens on a socket in a folder of its own."""
    direct = conninfo_to_dict(project_database)
    home = Path(tempfile.mkdtemp(prefix="coppice-pooler-", dir="/tmp"))
    (home / "users.txt").write_text(f'"{direct["user"]}" ""\n')
    (home / "pgbouncer.ini").write_text(
        f"[pgbouncer]\nlisten_port = 6432\nunix_socket_dir = {home}\nlisten_addr =\n"
        f"auth_type = any\nauth_file = {home}/users.txt\npool_mode = transaction\n"
        "default_pool_size = 5\nmax_client_conn = 100\n"
        "ignore_startup_parameters = extra_float_digits\n"
        f"[databases]\n{direct['dbname']} = host={direct['host']} user={direct['user']}\n"
    )
    # The servers' sockets are open to their own account only, and pgbouncer refuses to be root.
    user = ACCOUNT if os.geteuid() == 0 else None
    if user:
        for path in (home, *home.iterdir()):
            os.chown(path, pwd.getpwnam(user).pw_uid, -1)
    process = subprocess.Popen(
        [
            shutil.which("pgbouncer", path="/usr/sbin:/usr/bin") or "pgbouncer",
            "-q",
            "pgbouncer.ini",
        ],
        cwd=home,
        user=user,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"postgresql://{direct['user']}@/{direct['dbname']}?host={home}&port=6432"

    def answers() -> bool:
        try:
            psycopg.connect(url, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    try:
        eventually(answers, "the pooler answers")
        yield url
    finally:
        process.terminate()
        process.wait(60)
        shutil.rmtree(home)


@pytest.fixture
def tables(project_database: str) -> Tables:
    return Tables(project_database)


def complete(tables: Tables, notes: Path, count: int) -> None:
    ids = [tables.enqueue("toy.note", notes=str(notes)) for _ in range(count)]
    eventually(
        lambda: all(tables.status(job) == "completed" for job in ids), "all jobs are completed"
    )


def test_with_only_a_pooler_jobs_run_and_the_slow_recovery_is_said(
    pooled_url: str, tables: Tables, tmp_path: Path
) -> None:
    with runworker(pooled_url) as worker:
        worker.wait_for("worker.slow_recovery")
        worker.wait_for("worker.ready")
        complete(tables, tmp_path / "notes", 20)
        worker.wait_for("leader.elected")

        assert tables.one("SELECT lock_key FROM jobs_worker") is None
        assert tables.one("SELECT term FROM jobs_leader") == 1
        assert worker.stop() == 0
    assert tables.workers() == ["stopped"]


def test_a_dead_worker_is_found_by_its_beats_alone(
    pooled_url: str, tables: Tables, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    with runworker(pooled_url) as doomed, runworker(pooled_url) as other:
        (line,) = doomed.wait_for("worker.ready")
        other.wait_for("worker.ready")
        eventually(
            lambda: min(row[0] for row in tables.rows("SELECT beats FROM jobs_worker")), "beats"
        )
        doomed.process.kill()
        (lost,) = other.wait_for("worker.lost", worker_id=line["worker_id"])

        assert lost["reason"].startswith("no beat")
        complete(tables, notes, 5)
        assert other.stop() == 0


def test_with_a_direct_url_beside_the_pooler_sessions_are_held(
    pooled_url: str, tables: Tables, tmp_path: Path
) -> None:
    with runworker(pooled_url, DATABASE_DIRECT_URL=tables.url) as worker:
        worker.wait_for("worker.ready")
        complete(tables, tmp_path / "notes", 20)

        assert tables.one("SELECT lock_key FROM jobs_worker") is not None
        assert not worker.logged("worker.slow_recovery")
        assert worker.stop() == 0


ENQUEUE = """
import os, django
django.setup()
from django.db import transaction
from jobs import JobSpec, enqueue, enqueue_jobs, enqueue_many, lifecycle
for n in range(20):
    with transaction.atomic():
        job = enqueue("prove.effect", {"n": n})
        enqueue_many("prove.effect", [{"n": n}] * 20)
        enqueue_jobs([JobSpec(type="prove.effect", key="a"),
            JobSpec(type="prove.effect", depends_on=["a", job])])
        gone = enqueue("prove.effect", {}, unique_key=f"{os.getpid()} {n}", scheduled_at="2100-01-01T00:00:00Z")
    lifecycle.cancel(gone.id)
"""


def test_jobs_are_made_and_changed_through_the_pooler_by_many_at_once(
    pooled_url: str, tables: Tables
) -> None:
    """More clients than the pool has sessions, each of which everybody shares."""
    World(tables.url)  # makes the table of effects
    with ExitStack() as stack:
        clients = [stack.enter_context(run(["-c", ENQUEUE], pooled_url)) for _ in range(6)]
        worker = stack.enter_context(runworker(pooled_url))
        for client in clients:
            assert client.ended() == 0, client.other_output
        eventually(
            lambda: (
                tables.rows("SELECT status, count(*) FROM jobs_job GROUP BY 1 ORDER BY 1")
                == [("cancelled", 120), ("completed", 6 * 20 * 23)]
            ),
            "all jobs have ended",
            60,
        )
        assert worker.stop() == 0
        assert "prepared statement" not in str(worker.lines) + str(worker.other_output)
