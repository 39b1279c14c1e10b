from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.processes.harness import Shared, World
from tests.processes.running import runworker


@pytest.fixture
def world(project_database: str, django_db_blocker: Any) -> Iterator[World]:
    """A fresh database of the project, with a table of what handlers did.

    Django works on it in this process too: what a person does is done here.
    """
    with _working_on(project_database, django_db_blocker):
        yield World(project_database)


@pytest.fixture(scope="module")
def _one_worker(module_database: str, request: pytest.FixtureRequest) -> Iterator[Shared]:
    slots = getattr(request.module, "SLOTS", 4)
    with runworker(module_database, "--concurrency", str(slots)) as worker:
        worker.wait_for("worker.ready")
        yield Shared(World(module_database), worker)
        assert worker.stop() == 0


@pytest.fixture
def shared(_one_worker: Shared) -> Shared:
    """A worker for all tests of a module, on a database of theirs, where nothing is left of another."""
    _one_worker.forget()
    return _one_worker


@contextmanager
def _working_on(url: str, blocker: Any) -> Iterator[None]:
    from django.db import connections
    from psycopg.conninfo import conninfo_to_dict

    wrapper, parts = connections["default"], conninfo_to_dict(url)
    before = dict(wrapper.settings_dict)
    with blocker.unblock():
        wrapper.close()
        wrapper.settings_dict.update(NAME=parts["dbname"], USER=parts["user"], HOST=parts["host"])
        try:
            yield
        finally:
            wrapper.close()
            wrapper.settings_dict.update(before)
