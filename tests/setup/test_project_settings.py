"""The settings that come out of an environment, as a process of its own sees them."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[2]
PRINT = """
import json, sys
from django.conf import settings
print(json.dumps({name: getattr(settings, name, None) for name in sys.argv[1:]}))
"""


def settings(*names: str, **variables: str) -> dict[str, Any]:
    command = [sys.executable, "-c", PRINT, *names]
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "config.settings", **variables}
    done = subprocess.run(
        command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def database(**variables: str) -> dict[str, Any]:
    found: dict[str, Any] = settings("DATABASES", **variables)["DATABASES"]["default"]
    return found


def test_a_database_url_is_read_as_libpq_reads_it() -> None:
    url = "postgresql://alice:p%40ss@db.example.org:6432/coppice?sslmode=verify-full"
    found = database(DATABASE_URL=url)
    assert (found["HOST"], found["PORT"], found["NAME"]) == ("db.example.org", "6432", "coppice")
    assert (found["USER"], found["PASSWORD"]) == ("alice", "p@ss")
    assert found["OPTIONS"] == {"sslmode": "verify-full"}


def test_through_a_transaction_pooler_nothing_of_a_session_is_used() -> None:
    found = database(
        DATABASE_URL="postgresql://pooler/coppice", DATABASE_DIRECT_URL="postgresql://db/coppice"
    )
    assert found["DISABLE_SERVER_SIDE_CURSORS"]
    assert found["OPTIONS"] == {"prepare_threshold": None}


def test_the_embedded_server_prepares_what_comes_twice() -> None:
    assert database(DATABASE_URL="")["OPTIONS"] == {"prepare_threshold": 2}


def test_the_direct_connection_is_known_to_the_apps() -> None:
    direct = "postgresql://db/coppice"
    given = {"DATABASE_URL": "postgresql://pooler/coppice", "DATABASE_DIRECT_URL": direct}
    found = settings("COPPICE_DATABASE_DIRECT_URL", **given)
    assert found == {"COPPICE_DATABASE_DIRECT_URL": direct}


def test_production_passes_django_s_deployment_checks() -> None:
    environment = {
        **os.environ,
        "ALLOWED_HOSTS": "console.example.org",
        "DATABASE_URL": "postgresql://db/coppice",
        "DEBUG": "false",
        "DEMO": "false",
        "HTTPS": "true",
        "SECRET_KEY": "a1b2c3d4e5" * 6,
    }
    command = [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"]
    done = subprocess.run(
        command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_wrong_environment_ends_a_command_without_a_traceback() -> None:
    environment = {**os.environ, "DATABASE_URL": "mysql://db/coppice"}
    command = [sys.executable, "manage.py", "check"]
    done = subprocess.run(
        command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "DATABASE_URL: must look like postgresql://" in done.stderr
    assert "Traceback" not in done.stderr
