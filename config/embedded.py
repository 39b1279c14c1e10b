"""PostgreSQL and Valkey for a checkout that was given none.

`start` is the whole interface: it returns when the servers answer, and the calling process counts
as a user of them until it ends. The first user starts a keeper (`config/keeper.py`); the last one
leaves by ending, in whatever way.

Servers start for `manage.py` commands that need them and for the web process, never by importing
settings: a type checker or `manage.py check` must not start a database.
"""

import fcntl
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from config.servers import (
    START_SECONDS,
    Place,
    Postgres,
    ServerFailed,
    Valkey,
    embedded_programs,
)

CHECKOUT = Path(__file__).resolve().parent.parent
HERE = Place(home=CHECKOUT / ".data")

NEED_NO_SERVER = frozenset(
    {
        "check",
        "collectstatic",
        "compilemessages",
        "diffsettings",
        "findstatic",
        "help",
        "makemessages",
        "makemigrations",
        "sendtestemail",
        "spectacular",
        "sqlmigrate",
        "startapp",
        "startproject",
        "test",
        "testserver",
        "version",
    }
)

_descriptors: dict[Path, int] = {}


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Which servers to run in a place."""

    place: Place
    postgres: Path | None = None
    valkey: bool = False
    fast: bool = False
    temporary: bool = False

    def servers(self) -> list[Postgres | Valkey]:
        found: list[Postgres | Valkey] = []
        if self.postgres is not None:
            found.append(Postgres(place=self.place, programs=self.postgres))
        if self.valkey:
            found.append(Valkey(place=self.place))
        return found


def start_for_command(arguments: Sequence[str], *, postgres: bool, valkey: bool) -> None:
    """Start what a `manage.py` command line needs: `postgres` and `valkey` say what is missing."""
    asks_for_help = any(argument in ("-h", "--help", "--version") for argument in arguments)
    if len(arguments) < 2 or arguments[1] in NEED_NO_SERVER or asks_for_help:
        # makemigrations asks a database whether it agrees, and can do without an answer.
        warnings.filterwarnings("ignore", "Got an error checking a consistent migration history")
        return
    start_here(postgres=postgres, valkey=valkey)


def start_here(*, postgres: bool, valkey: bool) -> None:
    # Always both, so that two processes that miss different ones can share a keeper.
    if postgres or valkey:
        start(Wanted(place=HERE, postgres=embedded_programs(), valkey=True))


def start(wanted: Wanted) -> None:
    """Return when the servers answer. Safe to call again, and in a forked child."""
    home = wanted.place.home
    if home in _descriptors:
        return
    try:
        home.mkdir(parents=True, exist_ok=True)
        (home / "start.lock").touch(mode=0o600)
    except OSError as error:
        raise ServerFailed(f"{error.filename} cannot be written: {error.strerror}.") from error
    with _locked(home / "start.lock"):
        users = os.open(home / "users.lock", os.O_RDWR | os.O_CREAT, 0o600)
        # Waits here while a keeper is stopping. The lock goes with the last process that
        # inherited the descriptor, so a worker's forked children count as users too.
        fcntl.flock(users, fcntl.LOCK_SH)
        try:
            _make_ready(wanted)
        except BaseException:
            os.close(users)
            raise
        _descriptors[home] = users


def release(place: Place) -> None:
    """Stop being a user before the process ends."""
    descriptor = _descriptors.pop(place.home, None)
    if descriptor is not None:
        os.close(descriptor)


def _make_ready(wanted: Wanted) -> None:
    """Called under `start.lock`, as a user: no other keeper starts, and the present one stays."""
    limit = time.monotonic() + START_SECONDS
    while not _is_free(wanted.place.home / "keeper.lock"):
        said_so = (wanted.place.home / "ready").exists()
        if said_so and all(server.is_running() for server in wanted.servers()):
            return
        if time.monotonic() > limit:
            raise ServerFailed(
                f"The embedded servers in {wanted.place.home} do not answer; see the logs there."
            )
        time.sleep(0.05)
    _start_keeper(wanted)


def _start_keeper(wanted: Wanted) -> None:
    reader, writer = os.pipe()
    command = [sys.executable, "-m", "config.keeper", "--home", str(wanted.place.home)]
    command += ["--report", str(writer)]
    if wanted.postgres is not None:
        command += ["--postgres", str(wanted.postgres)]
    for flag in ("valkey", "fast", "temporary"):
        if getattr(wanted, flag):
            command.append(f"--{flag}")
    with (wanted.place.home / "keeper.log").open("ab") as log:
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=CHECKOUT,
            pass_fds=[writer],
            # Ctrl-C in the terminal is for the users, not for the keeper.
            start_new_session=True,
        )
    os.close(writer)
    with os.fdopen(reader, "rb") as report:
        said = report.read().decode()
    if said != "ready":
        reason = said or f"see {wanted.place.home / 'keeper.log'}"
        raise ServerFailed(f"The embedded servers did not start: {reason}")


def _is_free(lock: Path) -> bool:
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
