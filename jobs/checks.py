"""System checks: wrong settings and clashes are said at start, by name."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.core.checks import CheckMessage, Error, register

from jobs import conf
from jobs.errors import SettingsError


@register()
def settings_are_valid(**_: Any) -> list[CheckMessage]:
    try:
        conf.get()
    except SettingsError as error:
        return [Error(str(error), id="coppice.E001")]
    return []


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
