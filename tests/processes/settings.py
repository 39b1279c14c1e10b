"""The project's settings, with handlers for tests and without live events."""

import os

from config.settings import *  # noqa: F403
from config.settings import INSTALLED_APPS as PROJECTS_APPS

INSTALLED_APPS = [*PROJECTS_APPS, "tests.processes.toys", "tests.processes.app"]
COPPICE_REDIS_URL = os.environ.get("COPPICE_TEST_REDIS_URL", "")
