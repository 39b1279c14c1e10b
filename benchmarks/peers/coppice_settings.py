"""The settings of the adapter's project: the product, and the two handlers of the harness."""

import os

SECRET_KEY = "for a benchmark on this machine"
USE_TZ = True
INSTALLED_APPS = [
    "django.contrib.contenttypes",
    "django.contrib.auth",
    "jobs",
    "worker",
    "coppice_app",
]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": os.environ.get("PGHOST"),
        "PORT": os.environ.get("PGPORT"),
        "USER": os.environ.get("PGUSER"),
        "NAME": os.environ.get("PGDATABASE"),
        "OPTIONS": {"prepare_threshold": 2},
    }
}
LOGGING = {
    "version": 1,
    "handlers": {"console": {"class": "logging.StreamHandler"}},
    "root": {"handlers": ["console"], "level": "WARNING"},
}
