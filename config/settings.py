"""Settings of the project that runs Coppice from this repository.

Everything that differs between places comes from the environment (`config/environment.py`).
A project that installs Coppice as a package has its own settings; see docs/install.md.
"""

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from corsheaders.defaults import default_headers
from psycopg.conninfo import conninfo_to_dict

from config import embedded, environment, logging, servers
from jobs.api import document
from jobs.security import csp

BASE_DIR = Path(__file__).resolve().parent.parent
given = environment.read()

SECRET_KEY = given.secret_key
DEBUG = given.debug
ALLOWED_HOSTS = given.allowed_hosts

# The app "channels" stays out: it has a `runworker` command of its own.
INSTALLED_APPS = [
    "jobs.console.config.ConsoleConfig",  # django.contrib.admin, with the console as its site
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    # Before staticfiles: development then serves static files as production does.
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "django_filters",
    "corsheaders",
    "jobs",
    "ranges",
    "worker",
]
if given.demo and find_spec("examples") and find_spec("examples.geonames"):
    INSTALLED_APPS.append("examples.geonames")

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "jobs.middleware.ClientAddressMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "jobs.middleware.BrowserRulesMiddleware",
    "django.middleware.csp.ContentSecurityPolicyMiddleware",
    "corsheaders.middleware.CorsMiddleware",
    "jobs.middleware.RequestSizeMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "config.urls"
ASGI_APPLICATION = "config.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.csp",
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]


# Database

DATABASE_URL = given.database_url or servers.postgres_url(embedded.HERE, servers.DATABASE)
COPPICE_DATABASE_DIRECT_URL = given.database_direct_url


def _database() -> dict[str, Any]:
    options: dict[str, Any] = dict(conninfo_to_dict(DATABASE_URL))
    moved = {"NAME": "dbname", "USER": "user", "PASSWORD": "password", "HOST": "host"}
    moved["PORT"] = "port"
    database = {key: str(options.pop(name, "")) for key, name in moved.items()}
    pooled = bool(given.database_direct_url)
    # Statements that a pooler's server connection does not know must not be prepared. Our own
    # server is spared the parsing from the second time on.
    if pooled:
        options["prepare_threshold"] = None
    elif not given.database_url:
        options["prepare_threshold"] = 2
    return {
        "ENGINE": "django.db.backends.postgresql",
        **database,
        "OPTIONS": options,
        "CONN_MAX_AGE": 600,
        "CONN_HEALTH_CHECKS": True,
        "DISABLE_SERVER_SIDE_CURSORS": pooled,
    }


DATABASES = {"default": _database()}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"


# Redis or Valkey: live events and caches, which may be away without harm. Sessions are not there.

COPPICE_REDIS_URL = given.redis_url or servers.valkey_url(embedded.HERE)
CACHES = {
    "default": {
        "BACKEND": "django_redis.cache.RedisCache",
        "LOCATION": COPPICE_REDIS_URL,
        "KEY_PREFIX": "coppice",
        "OPTIONS": {
            "IGNORE_EXCEPTIONS": True,
            "SOCKET_CONNECT_TIMEOUT": 1,
            "SOCKET_TIMEOUT": 1,
        },
    },
}
SESSION_ENGINE = "django.contrib.sessions.backends.db"


# Language and time

LANGUAGE_CODE = "en-gb"
TIME_ZONE = "UTC"
USE_I18N = True
USE_TZ = True


# Static files

STATIC_URL = "static/"
STATIC_ROOT = BASE_DIR / "staticfiles"
STATICFILES_DIRS = [folder for folder in [BASE_DIR / "static"] if folder.exists()]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"
        if DEBUG
        else "whitenoise.storage.CompressedManifestStaticFilesStorage",
    },
}


# E-mail

DEFAULT_FROM_EMAIL = SERVER_EMAIL = given.default_from_email
MAILERS = {"default": given.mailer}


# Who may come in, and what a page may load: docs/security.md

AUTHENTICATION_BACKENDS = ["jobs.security.logins.ThrottledBackend"]
AUTH_PASSWORD_VALIDATORS: list[dict[str, Any]] = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
AUTH_PASSWORD_VALIDATORS.append(
    {
        "NAME": "django.contrib.auth.password_validation.MinimumLengthValidator",
        "OPTIONS": {"min_length": 12},
    }
)
LOGIN_URL = "admin:login"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"

CORS_ALLOWED_ORIGINS = given.cors_allowed_origins
CORS_URLS_REGEX = r"^/api/"
CORS_ALLOW_CREDENTIALS = False
CORS_ALLOW_HEADERS = (*default_headers, "idempotency-key", "last-event-id")
CSRF_TRUSTED_ORIGINS = given.csrf_trusted_origins
# Else other sites may read the static files.
WHITENOISE_ALLOW_ALL_ORIGINS = False

X_FRAME_OPTIONS = "DENY"
SECURE_CSP = csp.STRICT
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
# `RequestSizeMiddleware` bounds every request, not forms only.
DATA_UPLOAD_MAX_MEMORY_SIZE = None
if given.https:
    SECURE_SSL_REDIRECT = True
    # Asked by machines inside the network, which do not speak https.
    SECURE_REDIRECT_EXEMPT = [r"^(healthz|readyz|metrics)$"]
    SECURE_HSTS_SECONDS = 365 * 24 * 3600
    SECURE_HSTS_INCLUDE_SUBDOMAINS = True
    SECURE_HSTS_PRELOAD = True
    SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = True
    # Browsers take a cookie of such a name from this host alone, and over https only.
    SESSION_COOKIE_NAME = "__Host-sessionid"
    CSRF_COOKIE_NAME = "__Host-csrftoken"
if given.trusted_proxy:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")


# REST

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["rest_framework.authentication.SessionAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.DjangoModelPermissions"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_FILTER_BACKENDS": ["django_filters.rest_framework.DjangoFilterBackend"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
}
SPECTACULAR_SETTINGS = {**document.SETTINGS, "SERVE_INCLUDE_SCHEMA": False}


# Logs

LOGGING = logging.configure(given.log_level, sys.argv)
LOGGING_CONFIG = "logging.config.dictConfig"


# COPPICE_* of the environment become settings of the same name, as text.

globals().update(given.coppice)
