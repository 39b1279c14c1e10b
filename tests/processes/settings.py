"""The project's settings for workers alone: with handlers for tests, without pages or live events.

Without the apps of the pages a process starts in three quarters of the time.
"""

import os

from config.settings import *  # noqa: F403
from config.settings import INSTALLED_APPS as PROJECTS_APPS

WORKERS_APPS = {
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "jobs",
    "ranges",
    "worker",
    "examples.geonames",
}
INSTALLED_APPS = [
    *(app for app in PROJECTS_APPS if app in WORKERS_APPS),
    "tests.processes.toys",
    "tests.processes.app",
]
ROOT_URLCONF = ""
COPPICE_REDIS_URL = os.environ.get("COPPICE_TEST_REDIS_URL", "")
