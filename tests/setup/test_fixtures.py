"""The servers that tests are given."""

import subprocess
from pathlib import Path

import psycopg
import pytest
import redis
from django.contrib.auth.models import User
from django.core.cache import cache
from django.db import connection

from config.servers import Postgres


@pytest.mark.django_db
def test_the_database_of_a_test_is_on_the_run_s_own_server(database_url: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_database(), current_setting('fsync')")
        assert cursor.fetchone() == ("test_coppice", "off")
        cursor.execute("SHOW unix_socket_directories")
        (sockets,) = cursor.fetchone()
    with psycopg.connect(database_url) as other:
        assert other.execute("SHOW unix_socket_directories").fetchone() == (sockets,)


@pytest.mark.django_db
def test_the_database_of_a_test_is_the_postgres_under_test(postgres_programs: Path) -> None:
    version = subprocess.run(
        [str(postgres_programs / "postgres"), "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    with connection.cursor() as cursor:
        cursor.execute("SHOW server_version")
        (running,) = cursor.fetchone()
    assert running in version.stdout


def test_a_project_database_is_migrated_and_empty(project_database: str) -> None:
    with psycopg.connect(project_database) as other:
        assert other.execute("SELECT count(*) FROM auth_user").fetchone() == (0,)


def test_an_own_server_is_durable_and_can_be_restarted(own_postgres: Postgres) -> None:
    own_postgres.stop()
    assert not own_postgres.is_running()
    own_postgres.start()
    with psycopg.connect(own_postgres.url("coppice")) as other:
        assert other.execute("SHOW fsync").fetchone() == ("on",)


def test_redis_is_empty_and_serves_the_caches(redis_url: str) -> None:
    with redis.Redis.from_url(redis_url) as client:
        assert client.dbsize() == 0
        cache.set("tree", "hazel")
        assert client.dbsize() == 1
    assert cache.get("tree") == "hazel"


@pytest.mark.django_db(transaction=True)
def test_data_of_one_test_is_not_seen_by_the_next() -> None:
    assert User.objects.count() == 0
    User.objects.create_user("alice")
