"""The project's settings for workers alone: with handlers for tests, without pages or live events.

Without the apps of the pages, and without libraries that others import where they find them and no
worker uses, a process starts in half of the time.
"""

import os
import sys

UNUSED = ["requests", "twisted", "yaml"]
if "runworker" in sys.argv[1:2]:
    UNUSED.append("rich")  # with which other commands draw tables
sys.modules |= dict.fromkeys(UNUSED)  # type: ignore[arg-type]

from config.settings import *  # noqa: E402, F403
from config.settings import INSTALLED_APPS as PROJECTS_APPS  # noqa: E402

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
