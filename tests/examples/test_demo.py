"""`manage.py demo` as its users run it: web, worker, real work, a proof, and a clean end."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import psycopg

CHECKOUT = Path(__file__).resolve().parent.parent.parent
PATIENCE = 480.0
"""Seconds. It takes a thirtieth, but not on a machine that has much else to do."""


def free_port() -> str:
    """One that nobody listens on, not even another run of these tests."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return str(found.getsockname()[1])


@contextmanager
def demo(
    database: str, redis: str, output: Path, *arguments: str
) -> Iterator[subprocess.Popen[bytes]]:
    environment = {
        **os.environ,
        "DATABASE_URL": database,
        "REDIS_URL": redis,
        "DEBUG": "true",
        "COLUMNS": "200",
    }
    command = [sys.executable, "manage.py", "demo", "--limit", "400", "--port", free_port()]
    command += arguments
    with output.open("wb") as file:
        process = subprocess.Popen(
            command, cwd=CHECKOUT, env=environment, stdout=file, stderr=subprocess.STDOUT
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            for child in psutil.Process(process.pid).children(recursive=True):
                child.kill()
            process.kill()
            raise


def wait_for_text(process: subprocess.Popen[bytes], output: Path, pattern: str) -> re.Match[str]:
    limit = time.monotonic() + PATIENCE
    while not (found := re.search(pattern, output.read_text())):
        assert process.poll() is None, output.read_text()
        assert time.monotonic() < limit, output.read_text()
        time.sleep(0.1)
    return found


def test_the_demo_does_its_work_proves_it_and_ends(
    project_database: str, redis_url: str, tmp_path: Path
) -> None:
    output = tmp_path / "output"
    with demo(project_database, redis_url, output, "--once") as process:
        assert process.wait(PATIENCE) == 0, output.read_text()
    assert "All is as it should be" in output.read_text()
    with psycopg.connect(project_database) as connection:
        row = connection.execute(
            "SELECT (SELECT count(*) FROM geonames_city WHERE geohash <> ''),"
            " (SELECT count(*) FROM geonames_city WHERE cell <> ''),"
            " (SELECT string_agg(status, ' ') FROM ranges_rangerun),"
            " (SELECT count(*) FROM jobs_job WHERE status = 'processing'),"
            " (SELECT count(*) FROM jobs_worker WHERE state IN ('running', 'draining'))"
        ).fetchone()
    assert row == (400, 400, "completed", 0, 0)


def test_the_demo_fails_when_something_that_was_written_is_wrong(
    project_database: str, redis_url: str, tmp_path: Path
) -> None:
    output = tmp_path / "output"
    with psycopg.connect(project_database, autocommit=True) as connection:
        # Whatever the jobs write, one city comes out wrong.
        connection.execute(
            "CREATE FUNCTION spoil() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN IF NEW.id % 97 = 0 THEN NEW.geohash := 'wrong'; END IF; RETURN NEW; END $$"
        )
        connection.execute(
            "CREATE TRIGGER spoil BEFORE UPDATE ON geonames_city"
            " FOR EACH ROW WHEN (NEW.geohash <> '') EXECUTE FUNCTION spoil()"
        )
    with demo(project_database, redis_url, output, "--once") as process:
        assert process.wait(PATIENCE) == 1, output.read_text()
    assert re.search(r"WRONG City \d+ has -?\d+, 'wrong'", output.read_text())


def test_the_console_answers_meanwhile_and_a_signal_ends_everything(
    project_database: str, redis_url: str, tmp_path: Path
) -> None:
    output = tmp_path / "output"
    with demo(project_database, redis_url, output) as process:
        found = wait_for_text(process, output, r"(http://\S+)\s+user admin\s+password (\S+)")
        with urllib.request.urlopen(found[1]) as answer:
            assert answer.status == 200
        children = psutil.Process(process.pid).children(recursive=True)
        assert len(children) >= 2
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0, output.read_text()
    gone, alive = psutil.wait_procs(children, timeout=PATIENCE)
    assert not alive
    assert len(gone) == len(children)
