"""The embedded servers: shared by all processes of a checkout, and gone with the last of them."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psutil
import psycopg
import pytest
import redis

from config.servers import ACCOUNT, Place, postgres_url, valkey_url
from tests.cluster import temporary_folder

CHECKOUT = Path(__file__).resolve().parents[2]
USER = """
import sys
from pathlib import Path
from config import embedded
from config.servers import Place, embedded_programs
embedded.start(embedded.Wanted(
    place=Place(home=Path(sys.argv[1])), postgres=embedded_programs(), valkey=True, fast=True
))
print("ready", flush=True)
sys.stdin.read()
"""


class User:
    """A process that uses the servers until it is told to leave, or killed."""

    def __init__(self, home: Path) -> None:
        command = [sys.executable, "-c", USER, str(home)]
        self.process = subprocess.Popen(
            command, cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def is_ready(self) -> bool:
        assert self.process.stdout is not None
        return self.process.stdout.readline() == "ready\n"

    def leave(self) -> None:
        self.process.communicate(timeout=90)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=90)


@pytest.fixture
def home() -> Iterator[Path]:
    folder = temporary_folder()
    yield folder / "data"
    shutil.rmtree(folder)


@contextmanager
def using(home: Path) -> Iterator[User]:
    user = User(home)
    try:
        assert user.is_ready()
        yield user
    finally:
        if user.process.poll() is None:
            user.leave()
        wait_until(lambda: not processes(home))


def processes(home: Path) -> list[psutil.Process]:
    """The keeper and the servers of `home`."""
    sockets = str(Place(home=home).sockets)
    found = []
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
        except psutil.Error:
            continue
        keeper = "config.keeper" in words and str(home) in words
        if keeper or any(sockets in word for word in words if "\n" not in word):
            found.append(process)
    return found


def wait_until(fact: Callable[[], bool], seconds: float = 90.0) -> None:
    limit = time.monotonic() + seconds
    while not fact():
        assert time.monotonic() < limit, "the awaited fact did not come about"
        time.sleep(0.05)


def postmaster(home: Path) -> int:
    with psycopg.connect(postgres_url(Place(home=home), "coppice")) as connection:
        path = connection.execute("SHOW data_directory").fetchone()
    assert path is not None
    return int((Path(path[0]) / "postmaster.pid").read_text().splitlines()[0])


def answers(home: Path) -> bool:
    place = Place(home=home)
    try:
        with psycopg.connect(postgres_url(place, "coppice")) as connection:
            connection.execute("SELECT 1")
        with redis.Redis.from_url(valkey_url(place)) as client:
            return bool(client.ping())
    except (psycopg.OperationalError, redis.ConnectionError):
        return False


def test_the_servers_outlive_every_user_but_the_last(home: Path) -> None:
    with using(home) as first, using_another(home) as second:
        pid = postmaster(home)
        first.kill()
        # Longer than the keeper waits before it calls the servers unused.
        time.sleep(3)
        assert answers(home)
        assert postmaster(home) == pid
        second.kill()
        wait_until(lambda: not processes(home))


@contextmanager
def using_another(home: Path) -> Iterator[User]:
    user = User(home)
    assert user.is_ready()
    yield user
    if user.process.poll() is None:
        user.leave()


def test_users_that_come_at_the_same_moment_share_one_set_of_servers(home: Path) -> None:
    users = [User(home) for _ in range(4)]
    assert all(user.is_ready() for user in users)
    keepers = [each for each in processes(home) if "config.keeper" in each.cmdline()]
    for user in users:
        user.leave()
    assert len(keepers) == 1
    wait_until(lambda: not processes(home))


def test_what_was_stored_is_there_after_a_stop(home: Path) -> None:
    url = postgres_url(Place(home=home), "coppice")
    with using(home), psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE tree AS SELECT 'hazel' AS name")
    with using(home), psycopg.connect(url) as connection:
        assert connection.execute("SELECT name FROM tree").fetchone() == ("hazel",)


def test_a_stale_pid_file_that_names_a_living_process_does_not_block_a_start(home: Path) -> None:
    with using(home):
        data = Path(psutil.Process(postmaster(home)).cwd())
    (data / "postmaster.pid").write_text(f"{os.getpid()}\n{data}\n0\n5432\n\n\n\nready\n")
    with using(home):
        assert answers(home)


def test_a_server_that_dies_is_started_again(home: Path) -> None:
    # With a session open, which outlives the server for a moment.
    url = postgres_url(Place(home=home), "coppice")
    with using(home), closing(psycopg.connect(url)) as session:
        session.execute("SELECT 1")
        pid = postmaster(home)
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: answers(home) and postmaster(home) != pid)
        with redis.Redis.from_url(valkey_url(Place(home=home))) as client:
            client.shutdown(nosave=True)
        wait_until(lambda: answers(home))


def test_servers_whose_keeper_was_killed_are_taken_over_and_stopped(home: Path) -> None:
    with using(home) as first:
        pid = postmaster(home)
        keeper = next(each for each in processes(home) if "config.keeper" in each.cmdline())
        keeper.kill()
        wait_until(lambda: not keeper.is_running() or keeper.status() == psutil.STATUS_ZOMBIE)
        assert answers(home)
        with using_another(home) as second:
            assert postmaster(home) == pid
            first.leave()
            assert answers(home)
            second.leave()
            wait_until(lambda: not processes(home))


def test_a_path_too_long_for_a_socket_is_no_hindrance(home: Path) -> None:
    deep = home / ("long" * 20) / ("longer" * 20)
    with using(deep):
        assert answers(deep)
    Place(home=deep).remove()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_root_gets_a_server_that_does_not_run_as_root(home: Path) -> None:
    with using(home):
        assert psutil.Process(postmaster(home)).username() == ACCOUNT


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_checkout_that_only_root_may_enter_stays_closed_and_works(home: Path) -> None:
    home.mkdir(mode=0o700)
    with using(home / "closed"):
        assert answers(home / "closed")
        assert home.stat().st_mode & 0o777 == 0o700
    Place(home=home / "closed").remove()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_named(home: Path) -> None:
    home.parent.chmod(0o500)
    user = User(home)
    user.process.wait(90)
    home.parent.chmod(0o700)
    assert user.process.returncode != 0


@pytest.fixture(scope="module")
def copy() -> Iterator[Path]:
    """A copy of the checkout, whose .data is its own."""
    folder = temporary_folder()
    for name in ("config", "jobs", "ranges", "worker", "templates", "static", "examples"):
        if (CHECKOUT / name).exists():
            shutil.copytree(CHECKOUT / name, folder / name)
    shutil.copy(CHECKOUT / "manage.py", folder)
    yield folder
    shutil.rmtree(folder)


def manage(copy: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    ours = ("DATABASE_URL", "REDIS_URL", "DEBUG", "SECRET_KEY", "ALLOWED_HOSTS", "HTTPS", "DEMO")
    kept = {key: value for key, value in os.environ.items() if key not in ours}
    command = [sys.executable, "manage.py", *arguments]
    return subprocess.run(command, cwd=copy, env=kept, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "arguments",
    [["check"], ["help"], ["runworker", "--help"], ["makemigrations", "--check", "--dry-run"]],
    ids=lambda arguments: arguments[0],
)
def test_a_command_without_need_of_a_database_starts_no_server(
    copy: Path, arguments: list[str]
) -> None:
    manage(copy, *arguments)
    assert not (copy / ".data" / "keeper.lock").exists()


def test_a_checkout_without_any_settings_migrates_and_runs_a_shell(copy: Path) -> None:
    migrated = manage(copy, "migrate")
    assert migrated.returncode == 0, migrated.stderr
    ask = "import gc; print(User.objects.count(), gc.isenabled())"
    said = manage(copy, "shell", "-c", ask)
    assert said.stdout.splitlines()[-1:] == ["0 True"], said.stderr
    wait_until(lambda: not processes(copy / ".data"))
