"""A PostgreSQL cluster with the project's tables, made once for a test run and copied from there.

Making it takes seconds of a processor (`initdb`, and all migrations); each process of a run, and each
test with a server of its own, takes a copy instead. The process that starts a run has the folder.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import psycopg

from config.servers import DATABASE, Place, Postgres

CHECKOUT = Path(__file__).resolve().parent.parent
FOLDER = "COPPICE_TEST_RUN_FOLDER"
DJANGO_S = "test_coppice"
"""The database that pytest-django wants; it comes migrated as well."""


def begin() -> None:
    """Called in each process of a run; the first one, which started the others, makes the folder."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        os.environ[FOLDER] = str(temporary_folder())


def end() -> None:
    if "PYTEST_XDIST_WORKER" not in os.environ:
        shutil.rmtree(os.environ.pop(FOLDER), ignore_errors=True)


def temporary_folder() -> Path:
    # In /tmp whatever TMPDIR says: the path of a socket must be short.
    folder = Path(tempfile.mkdtemp(prefix="coppice-test-", dir="/tmp"))
    # The servers' account must get through.
    folder.chmod(0o755)
    return folder


def copy_to(place: Place, programs: Path) -> None:
    """Put a copy where a server of this place finds it. Its database `coppice` is migrated."""
    made = _made(programs)
    place.make_account()
    place.make_base()
    subprocess.run(["cp", "-a", str(made), str(place.base / made.name)], check=True)


def _made(programs: Path) -> Path:
    """The data of the run's cluster, which is stopped."""
    home = Path(os.environ[FOLDER]) / "cluster"
    server = Postgres(place=Place(home=home), programs=programs, fast=True)
    is_made = home.with_name("cluster-is-made")
    with home.with_name("lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_made.exists():
            _make(server)
            is_made.touch()
    return server.data


def _make(server: Postgres) -> None:
    server.place.make_account()
    server.place.make_base()
    server.start()
    try:
        subprocess.run(
            [sys.executable, "manage.py", "migrate", "--verbosity", "0"],
            cwd=CHECKOUT,
            env={**os.environ, "DATABASE_URL": server.url(DATABASE)},
            check=True,
        )
        with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {DJANGO_S} TEMPLATE {DATABASE}".encode())
    finally:
        server.stop()
    # Its processor time is over, and the sockets' folder would be another's.
    shutil.rmtree(server.place.sockets, ignore_errors=True)
