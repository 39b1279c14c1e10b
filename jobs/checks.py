"""System checks: wrong settings and clashes are said at start, by name."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, register
from django.core.checks import Warning as CheckWarning
from django.db import connections
from psycopg import IsolationLevel

from jobs import conf
from jobs.errors import SettingsError

CLIENT_ADDRESS = "jobs.middleware.ClientAddressMiddleware"


@register()
def settings_are_valid(**_: Any) -> list[CheckMessage]:
    try:
        conf.get()
    except SettingsError as error:
        return [Error(str(error), id="coppice.E001")]
    return []


@register()
def transactions_see_what_is_new(**_: Any) -> list[CheckMessage]:
    """Whoever has waited for a job's lock must see what its holder has committed."""
    try:
        alias = conf.get().database
    except SettingsError:
        return []  # said above
    if alias not in connections.settings:
        return []
    level = (connections.settings[alias].get("OPTIONS") or {}).get("isolation_level")
    if level in (None, IsolationLevel.READ_COMMITTED):
        return []
    return [
        CheckWarning(
            f"The database {alias!r} has the isolation level {IsolationLevel(level).name}.",
            hint="Coppice is made for READ COMMITTED: with another level enqueueing and changing "
            "jobs may fail with serialization errors, or leave a dependent waiting.",
            id="coppice.W001",
        )
    ]


@register(Tags.security, deploy=True)
def clients_are_known_past_the_proxy(**_: Any) -> list[CheckMessage]:
    """Else all of them have the proxy's address, and share its tries to sign in."""
    try:
        proxies = conf.get().trusted_proxies
    except SettingsError:
        return []  # said above
    is_behind = getattr(settings, "SECURE_PROXY_SSL_HEADER", None) is not None
    if proxies or not is_behind or CLIENT_ADDRESS not in settings.MIDDLEWARE:
        return []
    return [
        CheckWarning(
            "Requests come through a proxy, and COPPICE_TRUSTED_PROXIES names none.",
            hint="Name its address or network, or unix: otherwise the audit has the proxy's "
            "address, and one who guesses passwords keeps everybody from signing in.",
            id="coppice.W002",
        )
    ]


@register()
def runworker_is_ours(**_: Any) -> list[CheckMessage]:
    """The app `channels` brings a `runworker` command of its own."""
    names = [config.name for config in apps.get_app_configs()]
    if "channels" in names and "worker" in names:
        return [
            Error(
                "The app 'channels' is installed and has a 'runworker' command that hides ours.",
                hint="Take 'channels' out of INSTALLED_APPS: Coppice uses its consumers only.",
                id="coppice.E002",
            )
        ]
    return []
