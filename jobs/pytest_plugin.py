"""The pytest fixture `jobs`: `jobs.run_due_jobs()`, `jobs.assert_enqueued(...)`, `jobs.inline()`.

Found by pytest itself once the package is installed; it needs pytest-django's `db` or a TestCase.
"""

from __future__ import annotations

from types import ModuleType

import pytest


@pytest.fixture(name="jobs")
def jobs_fixture(db: None) -> ModuleType:  # noqa: ARG001
    """`jobs.testing`, with the database ready."""
    from jobs import testing

    return testing
