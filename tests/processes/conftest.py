from __future__ import annotations

import pytest

from tests.processes.harness import World


@pytest.fixture
def world(project_database: str) -> World:
    """A fresh database of the project, with a table of what handlers did."""
    return World(project_database)
