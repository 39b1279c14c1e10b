"""Settings of the project that the benchmarks run: the product at its defaults.

Redis is left out but where live events are measured, and the log is at warnings unless a benchmark is about the log.
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
    "django.contrib.sessions",
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
ROOT_URLCONF = "benchmarks.project.urls"
ALLOWED_HOSTS = ["testserver", "localhost"]
COPPICE_REDIS_URL = os.environ.get("BENCHMARK_REDIS_URL", "")
COPPICE_API_READS_PER_MINUTE = 0
LOGGING = logging.configure(os.environ.get("LOG_LEVEL") or "WARNING", sys.argv)
