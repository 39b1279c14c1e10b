"""Settings of the project that the benchmarks run: the product at its defaults.

Redis is left out, and the log is at warnings unless a benchmark is about the log.
"""

import os
import sys

from config import logging

SECRET_KEY = "for a benchmark on this machine"
USE_TZ = True
TIME_ZONE = "UTC"
INSTALLED_APPS = [
    "django.contrib.contenttypes",
    "django.contrib.auth",
    "jobs",
    "ranges",
    "worker",
    "benchmarks.project",
]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": os.environ.get("PGHOST", ""),
        "USER": os.environ.get("PGUSER", ""),
        "NAME": os.environ.get("PGDATABASE", ""),
        "CONN_MAX_AGE": 600,
        "OPTIONS": {"prepare_threshold": 2},
    }
}
COPPICE_REDIS_URL = ""
LOGGING = logging.configure(os.environ.get("LOG_LEVEL", "WARNING"), sys.argv)
