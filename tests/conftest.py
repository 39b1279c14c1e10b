"""Servers and databases for the tests.

Each process of a run has a PostgreSQL of its own, without durability, in a folder that vanishes with
the run. `COPPICE_TEST_SYSTEM_POSTGRES=1` takes the system's PostgreSQL instead of the embedded one.

- `database_url`: the server, for whoever makes databases of their own.
- `db` and its like from pytest-django: the database `test_coppice`, in this process.
- `project_database`: a fresh migrated database, for tests that start real processes;
  `module_database`: one for all tests of a module.
- `own_postgres`: a durable server for one test, to stop and start at will; `coppice` is migrated.
- `redis_url`: an empty Valkey, started when first asked for. Without it nothing answers there.
- `own_valkey`: one for a module, to stop and start at will.
"""

import gc
import os
import secrets
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis
from psycopg.conninfo import conninfo_to_dict

from config import embedded
from config.servers import (
    DATABASE,
    Place,
    Postgres,
    Valkey,
    embedded_programs,
    postgres_url,
    valkey_url,
)
from tests import cluster

# For the processes that tests start. With DATABASE_URL, which each test gives, they would
# otherwise ask for all that production needs.
os.environ |= {
    "ALLOWED_HOSTS": "localhost,127.0.0.1,testserver",
    "DEBUG": "false",
    "DEMO": "true",
    "HTTPS": "false",
    "SECRET_KEY": "only-for-tests-" + "0123456789" * 5,
}

# Hundreds of processes are started: each would compile the whole checkout anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


LONG = (
    "processes/test_outages.py",
    "benchmarks/",
    "examples/test_demo.py",
    "console/browser/test_every_page.py",
    "examples/test_range_jobs.py",
    "processes/test_sessions.py",
    "processes/test_promises.py",
    "processes/test_supervisor.py",
    "processes/test_supervisor_recovery.py",
    "processes/test_ranges_chaos.py",
    "processes/",
    "packaging/",
    "setup/test_embedded_servers.py",
    "live/",
    "console/browser/",
    "examples/",
    "console/test_every_control.py",
    "console/test_statements.py",
    "security/test_matrix",
    "security/test_database_role.py",
)
"""Files that take long, however few tests they hold, in the order in which they begin."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """No long file is left for the end, when other processes have nothing more to do."""
    here = Path(__file__).parent
    sizes = Counter(item.path for item in items)

    def place(item: pytest.Item) -> tuple[int, int]:
        name = item.path.relative_to(here).as_posix() if item.path.is_relative_to(here) else ""
        found = (number for number, start in enumerate(LONG) if name.startswith(start))
        return next(found, len(LONG)), -sizes[item.path]

    items.sort(key=place)


def pytest_configure() -> None:
    """Pages are rendered without `collectstatic`, whatever DEBUG was when the settings were read."""
    # What is imported and collected stays: it is not looked through for garbage again and again.
    gc.disable()
    cluster.begin()
    if "DJANGO_SETTINGS_MODULE" in os.environ:
        from django.conf import settings

        plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
        settings.STORAGES = {**settings.STORAGES, "staticfiles": plain}


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_unconfigure() -> None:
    cluster.end()


@pytest.fixture(scope="session")
def postgres_programs() -> Path:
    """The PostgreSQL under test."""
    if not os.environ.get("COPPICE_TEST_SYSTEM_POSTGRES"):
        return embedded_programs()
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name)
    )
    if not found:
        pytest.exit("COPPICE_TEST_SYSTEM_POSTGRES is set, but /usr/lib/postgresql is empty.", 2)
    return found[-1]


@pytest.fixture(scope="session")
def database_url(postgres_programs: Path) -> Iterator[str]:
    """The URL of the run's PostgreSQL; its database is `postgres`."""
    place = Place(home=cluster.temporary_folder())
    cluster.copy_to(place, postgres_programs)
    embedded.start(
        embedded.Wanted(place=place, postgres=postgres_programs, fast=True, temporary=True)
    )
    yield postgres_url(place, "postgres")
    embedded.release(place)


@pytest.fixture
def own_postgres(postgres_programs: Path) -> Iterator[Postgres]:
    """A running, durable server for this test alone; `url("coppice")` is its migrated database."""
    place = Place(home=cluster.temporary_folder())
    cluster.copy_to(place, postgres_programs)
    server = Postgres(place=place, programs=postgres_programs)
    server.start()
    yield server
    server.stop()
    place.remove()


@pytest.fixture(scope="module")
def own_valkey() -> Iterator[Valkey]:
    """A running Valkey for a module alone, to stop and start at will. It keeps nothing on disk."""
    place = Place(home=cluster.temporary_folder())
    place.make_account()
    place.make_base()
    server = Valkey(place=place)
    server.start()
    yield server
    server.stop()
    place.remove()


@pytest.fixture(scope="session")
def django_db_modify_db_settings(database_url: str) -> None:
    """pytest-django's hook before it makes the test database."""
    from django.db import connections

    connections["default"].settings_dict.update(_django_database(database_url))


@pytest.fixture(scope="session")
def django_db_keepdb() -> bool:
    """It is there, and migrated. The whole server goes after the run."""
    return True


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """What a test has committed is removed in our own way, which is quicker."""
    from django.db import connection
    from django.test import TransactionTestCase

    from tests.emptying import Emptying

    with django_db_blocker.unblock():
        emptying = Emptying()
        connection.close()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", lambda _: emptying.empty())
        yield


@pytest.fixture
def project_database(database_url: str) -> Iterator[str]:
    """The URL of a fresh, migrated database. Give it to a process as DATABASE_URL."""
    with _fresh_database(database_url) as url:
        yield url


@pytest.fixture(scope="module")
def module_database(database_url: str) -> Iterator[str]:
    """The same for all tests of a module, where each minds only its own rows."""
    with _fresh_database(database_url) as url:
        yield url


@pytest.fixture(scope="session")
def _valkey_place() -> Iterator[Place]:
    place = Place(home=cluster.temporary_folder())
    yield place
    embedded.release(place)
    place.remove()


@pytest.fixture
def redis_url(_valkey_place: Place) -> str:
    """The URL of the run's Valkey, emptied."""
    embedded.start(embedded.Wanted(place=_valkey_place, valkey=True, temporary=True))
    url = valkey_url(_valkey_place)
    with redis.Redis.from_url(url) as client:
        client.flushall()
    return url


@pytest.fixture(scope="session", autouse=True)
def _servers_of_the_checkout_are_not_touched(
    request: pytest.FixtureRequest, _valkey_place: Place
) -> Iterator[None]:
    """This process finds the run's Valkey, or nothing, where a developer's own would be."""
    if not request.config.pluginmanager.hasplugin("django"):
        yield
        return
    from django.conf import settings
    from django.test import override_settings

    url = valkey_url(_valkey_place)
    caches = {"default": {**settings.CACHES["default"], "LOCATION": url}}
    with override_settings(COPPICE_REDIS_URL=url, CACHES=caches):
        yield


@contextmanager
def _fresh_database(server_url: str) -> Iterator[str]:
    name = f"project_{secrets.token_hex(6)}"
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{DATABASE}"'.encode())
        yield _named(server_url, name)
        connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())


def _named(url: str, database: str) -> str:
    return f"{url.rpartition('/')[0]}/{database}"


def _django_database(url: str) -> dict[str, str]:
    parts = conninfo_to_dict(url)
    return {"NAME": DATABASE, "USER": str(parts["user"]), "HOST": str(parts["host"]), "PORT": ""}
