"""The benchmarks' project with the console: settings and addresses of the process that serves it."""

from pathlib import Path

from benchmarks.project.settings import *  # noqa: F403
from benchmarks.project.settings import INSTALLED_APPS as OTHERS

CHECKOUT = Path(__file__).resolve().parents[2]

INSTALLED_APPS = [
    "jobs.console.config.ConsoleConfig",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    *OTHERS,
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [CHECKOUT / "templates"],
        "APP_DIRS": True,
    }
]
STATIC_URL = "/static/"
ROOT_URLCONF = "benchmarks.project.console_urls"
