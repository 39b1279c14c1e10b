"""What the environment says, read and checked in one go.

A checkout without `DATABASE_URL` is one for trying out: it gets embedded servers, `DEBUG` and a
secret key of its own. With `DATABASE_URL` nothing is assumed that would be unsafe in production.
"""

import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import environ
import psycopg
from django.core.exceptions import ImproperlyConfigured
from django.core.management.utils import get_random_secret_key
from psycopg.conninfo import conninfo_to_dict

CHECKOUT = Path(__file__).resolve().parent.parent
LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
SHORTEST_SECRET_KEY = 50


class WrongEnvironment(ImproperlyConfigured):
    """Environment variables are missing or wrong."""

    def __init__(self, problems: list[str]) -> None:
        lines = "\n".join(f"  {problem}" for problem in problems)
        super().__init__(f"The environment is not right:\n{lines}\nSee docs/operating.md.")
        self.problems = problems


@dataclass(frozen=True, kw_only=True)
class Environment:
    # A libpq URL; "" means the embedded server.
    database_url: str
    # Past the transaction pooler that `database_url` goes through; "" when there is none.
    database_direct_url: str
    redis_url: str
    secret_key: str
    debug: bool
    allowed_hosts: list[str]
    cors_allowed_origins: list[str]
    csrf_trusted_origins: list[str]
    default_from_email: str
    # The default entry of Django's MAILERS.
    mailer: dict[str, object]
    # Redirect to https, secure cookies, HSTS.
    https: bool
    # Whether X-Forwarded-Proto comes from our own proxy and may be believed.
    trusted_proxy: bool
    log_level: str
    # Whether the example application is installed.
    demo: bool
    # COPPICE_*, as given; the jobs app parses and checks them.
    coppice: dict[str, str]


def read(variables: Mapping[str, str] | None = None) -> Environment:
    """Read `variables` (default: the process's, with `.env` for what those leave out)."""
    if variables is None:
        if (CHECKOUT / ".env").exists():
            environ.Env.read_env(str(CHECKOUT / ".env"))
        variables = os.environ
    return _Reader(variables).read()


class _Reader:
    def __init__(self, variables: Mapping[str, str]) -> None:
        # An empty value means "not given": what `KEY=` in an env file or compose file says.
        self.given = {key: value for key, value in variables.items() if value.strip()}
        self.problems: list[str] = []

    def read(self) -> Environment:
        database_url = self._url("DATABASE_URL", _check_database_url)
        on_trial = not database_url
        debug = self._flag("DEBUG", default=on_trial)
        environment = Environment(
            database_url=database_url,
            database_direct_url=self._url("DATABASE_DIRECT_URL", _check_database_url),
            redis_url=self._url("REDIS_URL", _check_redis_url),
            secret_key=self._secret_key(on_trial=on_trial, debug=debug),
            debug=debug,
            allowed_hosts=self._allowed_hosts(debug=debug),
            cors_allowed_origins=self._origins("CORS_ALLOWED_ORIGINS"),
            csrf_trusted_origins=self._origins("CSRF_TRUSTED_ORIGINS"),
            default_from_email=self.given.get("DEFAULT_FROM_EMAIL", "coppice@localhost"),
            mailer=self._mailer(debug=debug),
            https=self._flag("HTTPS", default=not debug),
            trusted_proxy=self._flag("TRUSTED_PROXY", default=False),
            log_level=self._log_level(),
            demo=self._flag("DEMO", default=debug),
            coppice={
                key: value
                for key, value in self.given.items()
                if key.startswith("COPPICE_") and not key.startswith("COPPICE_TEST_")
            },
        )
        if environment.database_direct_url and on_trial:
            self._problem("DATABASE_DIRECT_URL", "set while DATABASE_URL is not; set both")
        if self.problems:
            raise WrongEnvironment(self.problems)
        return environment

    def _problem(self, key: str, right: str, *, secret: bool = False) -> None:
        value = "" if secret or key not in self.given else f"={self.given[key]!r}"
        self.problems.append(f"{key}{value}: {right}.")

    def _flag(self, key: str, *, default: bool) -> bool:
        value = self.given.get(key, str(default)).strip().lower()
        if value in ("1", "true", "yes", "on"):
            return True
        if value not in ("0", "false", "no", "off"):
            self._problem(key, "must be true or false")
            # As if not given, so that one slip is answered once.
            return default
        return False

    def _list(self, key: str) -> list[str]:
        return [each.strip() for each in self.given.get(key, "").split(",") if each.strip()]

    def _origins(self, key: str) -> list[str]:
        origins = self._list(key)
        for origin in origins:
            parts = urlsplit(origin)
            if parts.scheme not in ("http", "https") or not parts.netloc or parts.path:
                self._problem(key, f"{origin!r} must look like https://console.example.org")
        return origins

    def _url(self, key: str, check: Callable[[str], str]) -> str:
        url = self.given.get(key, "").strip()
        wrong = check(url) if url else ""
        if wrong:
            # Not with its value: it holds a password.
            self._problem(key, wrong, secret=True)
        return url

    def _secret_key(self, *, on_trial: bool, debug: bool) -> str:
        key = self.given.get("SECRET_KEY", "")
        if not key and on_trial:
            return _own_secret_key(CHECKOUT / ".data" / "secret-key")
        if not key:
            right = "must be set with DATABASE_URL, to at least 50 random characters"
            self._problem("SECRET_KEY", right)
        elif not debug and (len(key) < SHORTEST_SECRET_KEY or key.startswith("django-insecure-")):
            right = f"has {len(key)} characters; must be at least 50 random ones"
            self._problem("SECRET_KEY", right, secret=True)
        return key

    def _allowed_hosts(self, *, debug: bool) -> list[str]:
        hosts = self._list("ALLOWED_HOSTS")
        for host in hosts:
            if "/" in host or " " in host:
                self._problem("ALLOWED_HOSTS", f"{host!r} must be a host name, without https://")
        if not hosts and not debug:
            right = "must be set when DEBUG is off, to host names like console.example.org"
            self._problem("ALLOWED_HOSTS", right)
        return hosts

    def _mailer(self, *, debug: bool) -> dict[str, object]:
        default = "consolemail://" if debug else "smtp://localhost:25"
        try:
            found = environ.Env.email_url_config(self.given.get("EMAIL_URL", default))
        except (environ.ImproperlyConfigured, ValueError):
            right = "must look like smtp+tls://user:password@mail.example.org:587"
            self._problem("EMAIL_URL", right, secret=True)
            return {}
        options = {
            key.removeprefix("EMAIL_").lower(): value
            for key, value in {**found, **found.get("OPTIONS", {})}.items()
            if value and key not in ("EMAIL_BACKEND", "OPTIONS")
        }
        for key, name in {"host_user": "username", "host_password": "password"}.items():
            if key in options:
                options[name] = options.pop(key)
        return {"BACKEND": found["EMAIL_BACKEND"], "OPTIONS": options}

    def _log_level(self) -> str:
        level = self.given.get("LOG_LEVEL", "INFO").strip().upper()
        if level not in LOG_LEVELS:
            self._problem("LOG_LEVEL", f"must be one of {', '.join(LOG_LEVELS)}")
        return level


def _check_database_url(url: str) -> str:
    right = "must look like postgresql://user:password@host:5432/name"
    if urlsplit(url).scheme not in ("postgres", "postgresql"):
        return right
    try:
        parts = conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        return f"{right} ({' '.join(str(error).split())})"
    return "" if parts.get("dbname") else f"{right}; the name is missing"


def _check_redis_url(url: str) -> str:
    if urlsplit(url).scheme not in ("redis", "rediss", "unix"):
        return "must look like redis://host:6379/0, rediss://host:6379/0 or unix:///path"
    return ""


def _own_secret_key(path: Path) -> str:
    """The key of this checkout, made once; sessions outlive a restart that way."""
    try:
        return path.read_text()
    except FileNotFoundError:
        pass
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    partial.touch(mode=0o600)
    partial.write_text(get_random_secret_key())
    try:
        # Fails if another process was first, whose key then counts for both.
        os.link(partial, path)
    except FileExistsError:
        pass
    finally:
        partial.unlink()
    return path.read_text()
