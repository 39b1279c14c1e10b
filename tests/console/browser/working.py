"""Real workers on the database that browser tests and server share."""

from __future__ import annotations

from contextlib import AbstractContextManager

from tests.processes.running import Running, runworker


def working(*options: str, **variables: str) -> AbstractContextManager[Running]:
    """A worker of the project; killed at the end if it still runs."""
    from django.conf import settings
    from django.db import connections

    database = connections["default"].settings_dict
    url = f"postgresql:///{database['NAME']}?host={database['HOST']}&user={database['USER']}"
    ours = {"DJANGO_SETTINGS_MODULE": "config.settings", "REDIS_URL": settings.COPPICE_REDIS_URL}
    made: AbstractContextManager[Running] = runworker(url, *options, **ours, **variables)
    return made
